"""What the page shows, in the order and the words of the page: report data in, rows of ready strings out."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape

from trimtab.report import words
from trimtab.report.data import Measure, Metric, ProjectionRow, RunReport, Sizes
from trimtab.report.grid import Series
from trimtab.report.pictures.intervals import interval_picture
from trimtab.report.verdict import Change, change, headline_metric, times


@dataclass(frozen=True)
class Tile:
    """One of the large numbers at the top; the lines below it are in parts that are broken only where they must be."""

    label: str
    value: str
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class MeasureWords:
    """A measure as three short lines."""

    value: str
    interval: str
    count: str


@dataclass(frozen=True)
class MetricRow:
    """One metric of the quality table."""

    name: str
    note: str
    text: str
    before: MeasureWords | None
    after: MeasureWords | None
    change: Change | None
    picture: Markup | None


@dataclass(frozen=True)
class SizeRow:
    """One line of the table of parameters and bytes."""

    name: str
    before: str
    after: str
    change: str


@dataclass(frozen=True)
class KindRow:
    """One line of the table of kinds; a missing number is "–"."""

    name: str
    projections: str
    dense: str
    ranks: str
    kept: str
    importance: str
    loss: str


@dataclass(frozen=True)
class StageRow:
    """One stage with the share of the whole time that it took, in per cent."""

    name: str
    seconds: str
    share: float


def tiles(report: RunReport) -> list[Tile]:
    """The large numbers: whole file, projections, and what it cost in perplexity (or that nobody measured it)."""
    sizes = report.sizes
    found = [
        Tile(
            "Whole file",
            words.removed(sizes.file_bytes_before, sizes.file_bytes_after),
            ((f"{words.size(sizes.file_bytes_before)} →", words.size(sizes.file_bytes_after)),),
        ),
        Tile(
            "Projection parameters",
            words.removed(1.0, 1.0 - report.realised),
            (("requested:", report.requested),),
        ),
    ]
    metric = headline_metric(report.metrics)
    if metric is not None and metric.before is not None and metric.after is not None:
        return [*found, _perplexity_tile(metric, metric.before, metric.after)]
    return [*found, Tile("Perplexity", "not measured", (("before and after,", "by this run"),))]


def metric_rows(metrics: Iterable[Metric]) -> list[MetricRow]:
    """The metrics that were measured at all."""
    return [
        MetricRow(
            metric.name,
            _metric_note(metric),
            metric.text,
            _measure(metric.before, metric.unit),
            _measure(metric.after, metric.unit),
            change(metric),
            interval_picture(metric),
        )
        for metric in metrics
        if metric.before is not None or metric.after is not None
    ]


def size_rows(sizes: Sizes) -> list[SizeRow]:
    """Parameters and bytes, of the projections and of everything."""
    pairs = (
        ("Projection parameters", sizes.projection_parameters_before, sizes.projection_parameters_after, _exact),
        ("All parameters", sizes.total_parameters_before, sizes.total_parameters_after, _exact),
        ("Projection bytes", sizes.projection_bytes_before, sizes.projection_bytes_after, _sizes),
        ("File bytes", sizes.file_bytes_before, sizes.file_bytes_after, _sizes),
    )
    return [SizeRow(name, *show(old, new), words.removed(old, new)) for name, old, new, show in pairs]


def kind_rows(kinds: Iterable[Series]) -> list[KindRow]:
    """The rank map in numbers: one line for each kind of projection."""
    return [_kind_row(kind.label, kind.rows) for kind in kinds]


def stage_rows(report: RunReport) -> list[StageRow]:
    """The stages of the run in their order."""
    whole = sum(stage.seconds for stage in report.stages)
    return [
        StageRow(stage.name, words.seconds(stage.seconds), 100 * stage.seconds / whole if whole > 0 else 0.0)
        for stage in report.stages
    ]


def total_seconds(report: RunReport) -> str:
    """How long all stages took together."""
    return words.seconds(sum(stage.seconds for stage in report.stages))


def optional_number(value: float | None) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else words.number(value)


def optional_percent(value: float | None) -> str:
    """A share in per cent, or a dash where there is none."""
    return "–" if value is None else words.percent(value)


def breakable(name: str) -> Markup:
    """A dotted or underscored name that may be broken after its dots and underscores."""
    return (Markup("<wbr>")).join(escape(part) for part in re.split(r"(?<=[._])", name))


def _perplexity_tile(metric: Metric, before: Measure, after: Measure) -> Tile:
    ratio = after.value / before.value
    value = times(ratio) if math.isfinite(ratio) else words.number(ratio)
    values = f"{words.number(before.value)} → {words.number(after.value)}"
    lines = ((values, f"on {metric.text}") if metric.text else (values,), *_interval_line(before, after, metric.unit))
    return Tile("Perplexity, lower is better", value, lines)


def _interval_line(before: Measure, after: Measure, unit: str) -> list[tuple[str, ...]]:
    """The two intervals, where both are known."""
    old, new = _interval(before, unit), _interval(after, unit)
    return [(f"95{words.SPACE}% intervals:", f"before {old},", f"after {new}")] if old and new else []


def _measure(one: Measure | None, unit: str) -> MeasureWords | None:
    if one is None:
        return None
    return MeasureWords(words.measured(one.value, unit), _interval(one, unit), f"n = {words.count(one.count)}")


def _interval(one: Measure, unit: str) -> str:
    """The two ends, or nothing where neither is finite."""
    if not (math.isfinite(one.low) or math.isfinite(one.high)):
        return ""
    dash = f"{words.SPACE}–{words.SPACE}"
    return f"{words.measured(one.low, unit)}{dash}{words.measured(one.high, unit)}"


def _metric_note(metric: Metric) -> str:
    unit = "" if metric.unit == "share" or metric.unit == metric.name else metric.unit
    better = "" if metric.better == "none" else f"{metric.better} is better"
    return ", ".join(part for part in (unit, better) if part)


def _kind_row(label: str, rows: tuple[ProjectionRow, ...]) -> KindRow:
    ranks = sorted(row.rank for row in rows if row.rank is not None)
    before = sum(row.parameters_before for row in rows)
    after = sum(row.parameters_after for row in rows)
    losses = [row.measured_loss if row.measured_loss is not None else row.predicted_loss for row in rows]
    return KindRow(
        label,
        words.count(len(rows)),
        words.count(len(rows) - len(ranks)),
        _spread(ranks),
        words.percent(after / before) if before else "–",
        optional_number(_median(row.importance for row in rows)),
        optional_percent(_median(loss for row, loss in zip(rows, losses, strict=True) if row.rank is not None)),
    )


def _exact(before: int, after: int) -> tuple[str, str]:
    """Two numbers of parameters to the last one, while that fits a narrow column."""
    show = words.count if max(before, after) < 1_000_000_000 else words.millions
    return show(before), show(after)


def _sizes(before: int, after: int) -> tuple[str, str]:
    return words.size(before), words.size(after)


def _spread(ranks: list[int]) -> str:
    if not ranks:
        return "–"
    return str(ranks[0]) if ranks[0] == ranks[-1] else f"{ranks[0]}–{ranks[-1]}"


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.median(known) if known else None
