"""The page: every field is on it, for models of any shape, and nothing that a model wrote is more than text."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.examples import EXAMPLES, SMOLLM, make_report, projection_rows
from trimtab.report import palette, words
from trimtab.report.data import Measure, Metric, ProjectionRow, RunReport, Sample, Stage
from trimtab.report.page import render_page
from trimtab.report.scale import linear_axis, log_axis, tick_words

VOID = {"meta", "link", "wbr", "br"}
GPT2 = {"attn.c_attn": (2304, 768), "attn.c_proj": (768, 768), "mlp.c_fc": (3072, 768), "mlp.c_proj": (768, 3072)}
HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{ 7*7 }}"


class Reader(HTMLParser):
    """Reads a page, checks that its elements nest, and keeps its words, its elements and its ids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        """All words of the page with single, plain spaces."""
        return " ".join("".join(self.words).split())


def read(report: RunReport) -> Reader:
    return Reader(render_page(report))


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_field_of_every_example_is_shown(name: str) -> None:
    report = EXAMPLES[name]()
    text = read(report).text
    for field in ("title", "model", "command", "created", "method", "factorizer", "allocator", "requested"):
        assert flat(getattr(report, field)) in text
    for share in (report.coverage, *(row.kept for row in report.projections)):
        assert flat(words.percent(share)) in text
    for warning in report.warnings:
        assert warning in text
    for facts in (report.calibration, report.versions):
        assert all(flat(f"{key}{value}") in text for key, value in facts.items())


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_number_of_a_measure_is_shown(name: str) -> None:
    report = EXAMPLES[name]()
    text = read(report).text
    for metric in report.metrics:
        assert metric.name in text
        assert metric.text in text
        for one in (metric.before, metric.after):
            if one is None:
                continue
            assert flat(words.measured(one.value, metric.unit)) in text
            assert f"n = {words.count(one.count)}" in text
            if math.isfinite(one.low):
                ends = (words.measured(end, metric.unit) for end in (one.low, one.high))
                assert flat(" – ".join(ends)) in text


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_projection_has_its_row(name: str) -> None:
    report = EXAMPLES[name]()
    text = read(report).text
    for row in report.projections:
        rank = "dense" if row.rank is None else row.rank
        start = (
            f"{row.name}{row.out_features} × {row.in_features}{rank}{row.parameters_before:,}{row.parameters_after:,}"
        )
        assert start in text


def test_sizes_stages_samples_and_memory_are_shown() -> None:
    report = EXAMPLES["smollm"]()
    text = read(report).text
    sizes = report.sizes
    for parameters in (sizes.projection_parameters_before, sizes.total_parameters_after):
        assert words.count(parameters) in text
    for bytes_ in (sizes.projection_bytes_before, sizes.file_bytes_before, sizes.file_bytes_after):
        assert flat(words.size(bytes_)) in text
    assert all(stage.name in text and flat(words.seconds(stage.seconds)) in text for stage in report.stages)
    assert all(flat(part) in text for one in report.samples for part in (one.prompt, one.before, one.after))
    assert f"{flat(words.size(report.peak_memory_bytes))} peak memory" in text


def hostile_report() -> RunReport:
    rows = [dataclasses.replace(row, name=f"{row.name}.{HOSTILE}", kind=HOSTILE) for row in projection_rows(2, SMOLLM)]
    one = Measure(1.0, 0.5, 2.0, 3)
    texts = dict.fromkeys(("title", "model", "command", "created", "method", "factorizer", "allocator"), HOSTILE)
    return make_report(
        rows,
        **texts,
        requested=HOSTILE,
        metrics=[Metric(f"perplexity {HOSTILE}", HOSTILE, "lower", HOSTILE, one, one)],
        samples=[Sample(HOSTILE, HOSTILE, HOSTILE)],
        calibration={HOSTILE: HOSTILE},
        stages=[Stage(HOSTILE, 1.0)],
        versions={HOSTILE: HOSTILE},
        warnings=[HOSTILE],
    )


def test_hostile_text_is_text_everywhere() -> None:
    page = render_page(hostile_report())
    reader = Reader(page)
    assert [tag for tag, _ in reader.elements].count("script") == 1
    assert not any(tag in ("img", "iframe", "object", "embed") for tag, _ in reader.elements)
    assert not any(name.startswith("on") for _, attributes in reader.elements for name in attributes)
    assert "{{ 7*7 }}" in reader.text


@pytest.mark.parametrize("name", [*EXAMPLES, "hostile"])
def test_the_page_needs_nothing_from_outside(name: str) -> None:
    page = render_page(hostile_report() if name == "hostile" else EXAMPLES[name]())
    for tag, attributes in Reader(page).elements:
        assert "src" not in attributes
        target = attributes.get("href") or "#"
        assert target.startswith("#") or (tag == "link" and target == "data:,")
    style = page[page.index("<style>") : page.index("</style>")]
    assert not re.search(r"url\(|@import|@font-face|//", style)
    script = page[page.index("<script>") + 8 : page.rindex("</script>")]
    assert not re.search(r"fetch|XMLHttp|WebSocket|import|sendBeacon|eval|innerHTML|http", script)


def test_only_our_script_may_run() -> None:
    page = render_page(EXAMPLES["tiny"]())
    script = page[page.index("<script>") + 8 : page.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    allowed = html.unescape(policy[1])
    assert allowed.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in allowed


@pytest.mark.parametrize("name", EXAMPLES)
def test_links_of_the_page_lead_somewhere(name: str) -> None:
    elements = read(EXAMPLES[name]()).elements
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = [attributes["href"] or "" for tag, attributes in elements if tag == "a"]
    wanted += [f"#{attributes['aria-labelledby']}" for _, attributes in elements if "aria-labelledby" in attributes]
    assert {target.removeprefix("#") for target in wanted} <= set(ids)


def test_two_projections_of_one_name_in_a_layer_get_cells_of_their_own() -> None:
    """GPT-2 calls both the attention's and the MLP's last projection c_proj."""
    text = read(make_report(projection_rows(12, GPT2))).text
    assert all(kind in text for kind in ("c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"))


@pytest.mark.parametrize("layers", [1, 2, 9, 10, 16, 17, 33, 80])
def test_every_cell_is_drawn_once_a_drawing(layers: int) -> None:
    rows = projection_rows(layers, SMOLLM)
    page = render_page(make_report(rows))
    cells = len(re.findall(r"<g><title>", page))
    assert cells == len(rows) * (2 if layers >= 10 else 1)


def test_a_report_of_almost_nothing_is_a_page() -> None:
    report = make_report([], metrics=[], samples=[], calibration={}, stages=[], versions={}, peak_memory_bytes=0)
    text = read(report).text
    assert "not measured" in text
    assert "Where the ranks went" not in text
    assert "None" not in text


def test_missing_values_are_dashes_not_words_of_python() -> None:
    rows = [
        dataclasses.replace(row, importance=None, predicted_loss=None, measured_loss=None)
        for row in projection_rows(3, SMOLLM)
    ]
    text = read(make_report(rows)).text
    assert "How important each projection is" not in text
    assert "What each projection lost" not in text
    assert not re.search(r"\b(None|nan|inf)\b", text)


wild = st.floats(allow_subnormal=True)
measures = st.none() | st.builds(Measure, wild, wild, wild, st.integers(0, 10**12))
metrics = st.builds(
    Metric, st.sampled_from(["perplexity", "m"]), st.sampled_from(["", "share"]),
    st.sampled_from(["lower", "higher", "none"]), st.just("t"), measures, measures,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(metrics, max_size=3), st.lists(st.none() | wild, min_size=3, max_size=3))
def test_any_number_makes_a_page(found: list[Metric], values: list[float | None]) -> None:
    importance, predicted, measured = values
    row = ProjectionRow("a.0.q", 0, "q", 4, 4, 1, 16, 8, importance, predicted, measured)
    other = dataclasses.replace(row, name="a.1.q", layer=1, importance=0.5)
    page = render_page(make_report([row, other], metrics=found))
    assert not re.search(r'(x|y|x1|x2|y1|y2|cx|cy|d|width)="[^"]*(nan|inf)', page)


drawable = st.floats(-1e300, 1e300).filter(lambda value: value == 0 or abs(value) >= 1e-300)


@given(st.lists(drawable, min_size=1, max_size=5), st.booleans())
def test_a_linear_axis_holds_its_values(values: list[float], from_zero: bool) -> None:
    axis = linear_axis([abs(value) for value in values] if from_zero else values, from_zero=from_zero)
    assert axis.low < axis.high
    assert all(0 <= axis.place(value) <= 1 for value in values)
    assert all(tick_words(axis, tick, "share") and tick_words(axis, tick, "") for tick in axis.ticks)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=5))
def test_a_logarithmic_axis_holds_its_values(values: list[float]) -> None:
    axis = log_axis(values)
    assert axis.low <= min(values) * (1 + 1e-6)
    assert axis.high >= max(values) * (1 - 1e-6)
    assert all(0 <= axis.place(value) <= 1 for value in values)


def test_ticks_of_tiny_values_differ() -> None:
    axis = linear_axis([1e-14, 3e-14])
    assert len({tick_words(axis, tick, "") for tick in axis.ticks}) == len(axis.ticks)


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_text_can_be_read_on_its_ground(colours: dict[str, str]) -> None:
    pairs = [("ink", "paper"), ("muted", "paper"), ("accent", "paper"), ("worse", "paper"), ("better", "paper")]
    pairs += [("ink", "panel"), ("warn-ink", "warn-paper"), ("dense-ink", "dense"), ("ink", "ghost")]
    pairs += [("paper", "accent"), *((f"on{step}", f"heat{step}") for step in range(palette.STEPS))]
    for text, ground in pairs:
        assert palette.contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_the_ladder_rises_in_contrast_to_the_page(colours: dict[str, str]) -> None:
    rise = [palette.contrast(colours[f"heat{step}"], colours["paper"]) for step in range(palette.STEPS)]
    assert rise == sorted(rise)


def test_contrast_of_black_and_white() -> None:
    assert palette.contrast("#000000", "#ffffff") == pytest.approx(21)


def test_a_share_is_never_on_a_logarithmic_axis() -> None:
    before, after = Measure(0.039, 0.002, 0.088, 8), Measure(0.224, 0.033, 0.447, 8)
    page = render_page(make_report([], metrics=[Metric("repeated", "share", "lower", "t", before, after)]))
    assert "10⁻" not in page
    assert "60\u00a0%" in page


def test_the_first_screen_has_the_intervals_of_the_perplexity() -> None:
    text = read(EXAMPLES["smollm"]()).text
    top = text[: text.index("Where the ranks went")]
    assert "95 % intervals: before 26.20 – 33.40, after 36.50 – 47.10" in top
