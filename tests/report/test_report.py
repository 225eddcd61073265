"""The report: complete, self-contained, safe, and read back as it was written."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

from tests.report.examples import FUSED, LARGE, SMOLLM, make_report, projection_rows
from trimtab.errors import OptionError, OutputError
from trimtab.report import importance_figure, rank_figure, read_report, write_report
from trimtab.report.data import Measure, Metric, RunReport, Sample

HOSTILE = "<script>alert('x')</script> & \"quotes\" </title>"


def small(**changes: object) -> RunReport:
    return make_report(projection_rows(3, SMOLLM), **changes)


def page(report: RunReport, folder: Path) -> str:
    write_report(report, folder)
    return (folder / "report.html").read_text()


@pytest.mark.parametrize("shapes", [SMOLLM, FUSED, LARGE])
@pytest.mark.parametrize("layers", [1, 30, 80])
def test_what_is_written_is_read_back(layers: int, shapes: dict[str, tuple[int, int]], tmp_path: Path) -> None:
    report = make_report(projection_rows(layers, shapes))
    write_report(report, tmp_path)
    assert read_report(tmp_path) == read_report(tmp_path / "report.json") == report
    json.loads((tmp_path / "report.json").read_text(), parse_constant=lambda name: pytest.fail(name))


def test_the_page_fetches_nothing(tmp_path: Path) -> None:
    text = page(small(), tmp_path)
    assert not re.search(r"""(src|href)\s*=\s*["']?(?!#)\w*:?//""", text)
    assert not re.search(r"<(iframe|img|object|embed)\b", text)
    assert all('href="data:' in link for link in re.findall(r"<link\b[^>]*>", text))
    assert "url(" not in text
    assert "@import" not in text
    assert "fetch(" not in text
    assert 'name="viewport"' in text
    assert "prefers-color-scheme" in text


def test_everything_that_was_measured_is_on_the_page(tmp_path: Path) -> None:
    report = small()
    text = page(report, tmp_path)
    for each in (report.title, report.method, report.factorizer, report.allocator, report.created, report.requested):
        assert each in text
    for row in report.projections:
        assert row.name in text.replace("<wbr>", "")
    assert all(metric.name in text for metric in report.metrics)
    assert all(version in text for version in report.versions.values())


def test_text_of_models_and_users_is_only_text(tmp_path: Path) -> None:
    hostile = small(
        title=HOSTILE,
        command=HOSTILE,
        warnings=[HOSTILE],
        samples=[Sample(HOSTILE, HOSTILE, HOSTILE)],
        calibration={HOSTILE: HOSTILE},
        versions={HOSTILE: HOSTILE},
    )
    text = page(hostile, tmp_path)
    assert "alert('x')</script>" not in text
    assert "<script>alert" not in text


@pytest.mark.parametrize("empty", ["metrics", "samples", "warnings", "stages", "calibration", "versions"])
def test_parts_that_are_missing_leave_a_whole_page(empty: str, tmp_path: Path) -> None:
    kind = {} if empty in ("calibration", "versions") else []
    text = page(small(**{empty: kind}), tmp_path)
    assert text.rstrip().endswith("</html>")


def test_values_that_are_not_numbers_survive(tmp_path: Path) -> None:
    wild = Measure(math.inf, math.nan, math.inf, 3)
    metric = Metric("perplexity", "", "lower", "a text", Measure(20.0, 19.0, 21.0, 3), wild)
    report = small(metrics=[metric])
    rows = [dataclasses.replace(row, importance=None, measured_loss=math.nan) for row in report.projections]
    write_report(dataclasses.replace(report, projections=rows), tmp_path)
    again = read_report(tmp_path).metrics[0].after
    assert again is not None
    assert math.isinf(again.value)
    assert math.isnan(again.low)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"format": "trimtab-report", "version": 99}', '{"format": "trimtab-report", "version": 1}'],
)
def test_what_is_no_report_is_refused_in_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(OptionError) as error:
        read_report(tmp_path)
    assert "\n" not in str(error.value)
    assert "report.json" in str(error.value)


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="cannot write the report"):
        write_report(small(), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_figures_for_notebooks() -> None:
    report = small()
    figure = rank_figure(report.projections, "a title")
    drawn = {text.get_text() for axis in figure.axes for text in axis.texts}
    assert {str(row.rank) for row in report.projections if row.rank is not None} <= drawn
    assert len([axis for axis in importance_figure(report.projections, "t").axes if axis.get_visible()]) == len(SMOLLM)
    with pytest.raises(OptionError, match="no importance"):
        importance_figure([dataclasses.replace(row, importance=None) for row in report.projections], "t")
    with pytest.raises(OptionError, match="no projection is in a layer"):
        rank_figure([dataclasses.replace(row, layer=None) for row in report.projections], "t")
