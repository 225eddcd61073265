"""The words of the report follow from its numbers and claim no more."""

from __future__ import annotations

import dataclasses
import math

import pytest

from tests.report.examples import SMOLLM, make_report, projection_rows
from trimtab.report import words
from trimtab.report.data import Measure, Metric, RunReport, Sizes
from trimtab.report.verdict import change, headline_metric, scale_note, verdict


def perplexity(before: float, after: float, half: float = 0.1) -> Metric:
    return Metric("perplexity", "", "lower", "a text", around(before, half), around(after, half))


def around(value: float, half: float) -> Measure:
    return Measure(value, value - half, value + half, 16)


def said(*metrics: Metric, **changes: object) -> str:
    report: RunReport = make_report(projection_rows(2, SMOLLM), metrics=list(metrics), **changes)
    return " ".join(verdict(report))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (19.0, "no loss was measured on this text"),
        (20.3, "hardly a loss on this text"),
        (21.5, "a small loss on this text"),
        (25.0, "a clear loss"),
        (39.0, "a heavy loss"),
        (150.0, "badly damaged"),
        (1e9, "the model is broken"),
        (math.inf, "not a finite number any more: the model is broken"),
        (math.nan, "not a finite number any more: the model is broken"),
    ],
)
def test_the_loss_is_called_by_its_size(after: float, expected: str) -> None:
    assert expected in said(perplexity(20.0, after))


def test_the_worst_perplexity_is_the_headline() -> None:
    mild, severe = perplexity(20, 21), perplexity(10, 30)
    assert headline_metric([mild, severe]) is severe
    assert headline_metric([severe, perplexity(10, math.nan)]) != severe
    assert headline_metric([dataclasses.replace(severe, before=None)]) is None


def test_overlapping_intervals_are_said() -> None:
    assert "two intervals overlap" in said(perplexity(20, 21, half=3))
    assert "two intervals overlap" not in said(perplexity(20, 21, half=0.1))


def test_nothing_measured_is_said() -> None:
    assert "Quality was not measured" in said()
    only_after = Metric("KL", "nats", "lower", "a text", None, around(0.3, 0.1))
    assert "Perplexity was not measured before and after" in said(only_after)


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize(("after", "half"), [(0.2, 0.01), (0.8, 0.01), (0.52, 0.05)])
def test_a_change_is_called_only_where_intervals_are_apart(better: str, after: float, half: float) -> None:
    metric = Metric("m", "share", better, "t", around(0.5, half), around(after, half))  # type: ignore[arg-type]
    found = change(metric)
    assert found is not None
    fell = after < 0.5
    expected = "same" if half > 0.02 else "worse" if fell == (better == "higher") else "better"
    assert found.direction == expected
    wanted = {"same": "cannot tell", "worse": "Worse beyond", "better": "Better beyond"}[expected]
    assert wanted in said(metric)


def test_without_intervals_nobody_can_say() -> None:
    unknown = Measure(0.9, math.nan, math.nan, 1)
    found = change(Metric("m", "", "lower", "t", unknown, Measure(1.9, math.nan, math.nan, 1)))
    assert found is not None
    assert found.direction == "none"


def test_a_value_that_was_never_a_number_did_not_get_worse() -> None:
    nan = Measure(math.nan, math.nan, math.nan, 1)
    directions = [
        change(Metric("m", "", "lower", "t", before, after))
        for before, after in ((nan, around(1, 0)), (around(1, 0), nan))
    ]
    assert [found.direction for found in directions if found] == ["none", "worse"]


def test_what_was_done_is_counted() -> None:
    rows = projection_rows(2, SMOLLM)
    factored = sum(row.rank is not None for row in rows)
    text = verdict(make_report(rows))[0]
    assert text.startswith(f"{factored} of {len(rows)} projections were replaced by low-rank factors")


def test_a_file_that_grew_is_not_called_smaller() -> None:
    sizes = Sizes(100, 90, 200, 190, 200, 180, 400, 401)
    text = verdict(make_report(projection_rows(1, SMOLLM), sizes=sizes))[0]
    assert text.startswith("The file did not get smaller")
    assert "is 0.3 % smaller" not in text


@pytest.mark.parametrize(("after", "says"), [(300, True), (150, False)])
def test_plain_8_bit_is_named_where_it_would_do_better(after: int, says: bool) -> None:
    sizes = Sizes(150, 100, 200, 150, 300, 200, 400, after)
    notes = " ".join(scale_note(make_report(projection_rows(1, SMOLLM), sizes=sizes)))
    assert ("Plain 8-bit would make this file" in notes) == says


@pytest.mark.parametrize(
    ("value", "text"),
    [(29.613, "29.61"), (0.03123, "0.0312"), (1234.4, "1,234"), (4.1e6, "4.1×10⁶"), (-0.5, "−0.500"), (0, "0")],
)
def test_numbers_in_words(value: float, text: str) -> None:
    assert words.number(value) == text


def test_units_in_words() -> None:
    plain = [words.size(257_000_000), words.percent(0.166), words.seconds(185), words.removed(200, 150)]
    assert [text.replace("\u00a0", " ") for text in plain] == ["257.0 MB", "16.6 %", "3 min 05 s", "−25.0 %"]
    assert words.millions(7_240_000_000).replace("\u00a0", " ") == "7.24 B"
