"""report.json: what is damaged is refused in one line that names the field, and whole files or none are written."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.examples import EXAMPLES, SMOLLM, make_report, projection_rows
from trimtab.errors import OptionError
from trimtab.report import read_report, write_report
from trimtab.report.codec import decode, encode
from trimtab.report.data import Measure, RunReport, Sample


def written(folder: Path) -> dict[str, object]:
    """A small report as JSON."""
    write_report(make_report(projection_rows(1, SMOLLM)), folder)
    return json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_survives_the_journey(name: str, tmp_path: Path) -> None:
    report = EXAMPLES[name]()
    path = write_report(report, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "report.json"
    assert encode(RunReport, read_report(path)) == encode(RunReport, report)


@given(st.floats(), st.floats(), st.floats(), st.integers(0, 2**60))
def test_any_float_survives_strict_json(value: float, low: float, high: float, count: int) -> None:
    text = json.dumps(encode(Measure, Measure(value, low, high, count)), allow_nan=False)
    again = decode(Measure, json.loads(text))
    for one, other in ((value, again.value), (low, again.low), (high, again.high)):
        assert one == other or (math.isnan(one) and math.isnan(other))
    assert again.count == count


@given(st.text())
def test_any_text_survives(text: str) -> None:
    sample = Sample(text, text, text)
    assert decode(Sample, json.loads(json.dumps(encode(Sample, sample)))) == sample


def test_text_that_no_file_can_hold_is_escaped(tmp_path: Path) -> None:
    lone_surrogate = "half a character \udc80"
    write_report(make_report(projection_rows(1, SMOLLM), samples=[Sample("p", lone_surrogate, "")]), tmp_path)
    assert read_report(tmp_path).samples[0].before == lone_surrogate
    assert "half a character" in (tmp_path / "report.html").read_text()


def refusal(folder: Path) -> str | None:
    """Why the report in the folder is refused, if it is."""
    try:
        read_report(folder)
    except OptionError as error:
        return str(error)
    return None


REQUIRED = ["title", "model", "command", "created", "method", "factorizer", "allocator", "requested", "realised"]
REQUIRED += ["coverage", "sizes", "projections"]


@pytest.mark.parametrize("field", REQUIRED)
def test_a_field_that_is_missing_is_named(field: str, tmp_path: Path) -> None:
    document = written(tmp_path)
    del document[field]
    (tmp_path / "report.json").write_text(json.dumps(document))
    with pytest.raises(OptionError, match=rf"damaged: a RunReport lacks {field}$"):
        read_report(tmp_path)


@pytest.mark.parametrize("wrong", [None, 7.5, True, "text", [], [None], {}, {"name": 1}], ids=repr)
@pytest.mark.parametrize("field", [*REQUIRED, "metrics", "samples", "stages", "calibration", "peak_memory_bytes"])
def test_a_field_of_another_kind_is_named_or_fits(field: str, wrong: object, tmp_path: Path) -> None:
    document = {**written(tmp_path), field: wrong}
    (tmp_path / "report.json").write_text(json.dumps(document))
    said = refusal(tmp_path)
    if said is None:
        assert encode(RunReport, read_report(tmp_path))[field] == wrong
    else:
        assert f"damaged: {field}: " in said
        assert "\n" not in said


def test_the_place_of_a_damaged_number_is_named(tmp_path: Path) -> None:
    text = json.dumps(written(tmp_path)).replace('"rank": ', '"rank": 1e999, "was": ', 1)
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(OptionError, match="projections: rank: inf is no int"):
        read_report(tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"[" * 200_000, b"null", b'"text"', b'{"format": "other"}'])
def test_what_is_no_json_of_ours_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(OptionError, match="is not a report"):
        read_report(tmp_path)


def test_keys_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    document = written(tmp_path)
    (tmp_path / "report.json").write_text(json.dumps({**document, "something_new": {"a": 1}}))
    assert encode(RunReport, read_report(tmp_path))["title"] == document["title"]


def test_what_cannot_be_written_leaves_the_old_files(tmp_path: Path) -> None:
    document = written(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    broken = make_report(projection_rows(1, SMOLLM), realised="not a number")
    with pytest.raises(ValueError):
        write_report(broken, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert document["format"] == "trimtab-report"


def test_a_rewritten_report_leaves_nothing_else_behind(tmp_path: Path) -> None:
    for layers in (1, 2):
        write_report(make_report(projection_rows(layers, SMOLLM)), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]
    assert len(read_report(tmp_path).projections) == 14


def test_a_failed_replacement_leaves_no_half_file(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match="cannot write the report"):
        write_report(make_report(projection_rows(1, SMOLLM)), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
