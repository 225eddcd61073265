"""Small pictures side by side, one for each kind of projection, all on the same axes: layer across, value up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from trimtab.report import svg
from trimtab.report.data import SHARE, ProjectionRow
from trimtab.report.grid import OUTSIDE, Series
from trimtab.report.scale import Axis, drawable, linear_axis, log_axis, tick_words
from trimtab.report.words import number, percent

_WIDTH, _HEIGHT = 288.0, 150.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 10.0, 8.0, 22.0
_DOTS_UP_TO = 48

Value = Callable[[ProjectionRow], float | None]
Point = tuple[float, float]


@dataclass(frozen=True)
class _Across:
    """The horizontal axis: layers `first` to `last`, with numbers below it or (outside the layers) without."""

    first: int
    last: int
    numbered: bool

    def __call__(self, position: float) -> float:
        left, right = _LEFT + 8, _WIDTH - _RIGHT - 8
        if self.first == self.last:
            return (left + right) / 2
        return left + (right - left) * (position - self.first) / (self.last - self.first)

    def ticks(self) -> list[int]:
        if not self.numbered:
            return []
        span = self.last - self.first
        every = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if span / step <= 6 or step == 1000)
        round_ones = [position for position in range(self.first, self.last + 1) if position % every == 0]
        return [position for position in round_ones if self.last - position > every * 0.6] + [self.last]


@dataclass(frozen=True)
class Panel:
    """One small picture and the words above it."""

    heading: str
    note: str
    drawing: Markup


def importance_panels(kinds: Sequence[Series]) -> list[Panel]:
    """Importance per layer on one logarithmic scale; the other kinds stay visible as grey lines."""
    drawable = [kind for kind in kinds if _values(kind, positive_importance)]
    if not drawable:
        return []
    axis = log_axis([value for kind in drawable for value in _values(kind, positive_importance)])
    return [_importance_panel(kind, drawable, axis, _across(kind, kinds)) for kind in drawable]


def loss_panels(kinds: Sequence[Series]) -> list[Panel]:
    """Predicted (line) and measured (dots) share of the output energy that each compressed projection drops."""
    drawable = [kind for kind in kinds if _values(kind, predicted_loss) or _values(kind, measured_loss)]
    if not drawable:
        return []
    values = [value for kind in drawable for part in (predicted_loss, measured_loss) for value in _values(kind, part)]
    axis = linear_axis(values, from_zero=True, ticks=3)
    return [_loss_panel(kind, axis, _across(kind, kinds)) for kind in drawable]


def positive_importance(row: ProjectionRow) -> float | None:
    """The importance where a logarithmic scale can show it."""
    return row.importance if _drawable(row.importance) and (row.importance or 0) > 0 else None


def predicted_loss(row: ProjectionRow) -> float | None:
    """The predicted loss of a compressed projection; None for a dense one."""
    return row.predicted_loss if row.rank is not None and _drawable(row.predicted_loss) else None


def measured_loss(row: ProjectionRow) -> float | None:
    """The measured loss of a compressed projection; None for a dense one."""
    return row.measured_loss if row.rank is not None and _drawable(row.measured_loss) else None


def _importance_panel(kind: Series, others: Sequence[Series], axis: Axis, across: _Across) -> Panel:
    ghosts = [
        _line(other, _points(other, positive_importance, axis, across), "ghost")
        for other in others
        if other is not kind and OUTSIDE not in (kind.label, other.label)
    ]
    points = _points(kind, positive_importance, axis, across)
    dots = _dots(kind, points, "dot", lambda row: f"{row.name}: importance {number(row.importance or 0)}")
    note = f"median {number(_median(_values(kind, positive_importance)))}"
    label = f"Importance of {kind.label} by layer, logarithmic scale, {note}"
    marks = [*ghosts, _line(kind, points, "own"), *dots]
    return Panel(kind.label, note, _frame(across, axis, "", marks, label))


def _loss_panel(kind: Series, axis: Axis, across: _Across) -> Panel:
    marks: list[Markup] = [
        svg.element("rect", x=across(position) - 1.5, y=_HEIGHT - _BOTTOM - 5, width=3, height=5, class_="dense-mark")
        for position, row in zip(kind.positions, kind.rows, strict=True)
        if row.rank is None
    ]
    predicted = _points(kind, predicted_loss, axis, across)
    marks.append(_line(kind, predicted, "predicted"))
    marks += _dots(kind, _lone(predicted), "predicted-dot", _loss_words)
    marks += _dots(kind, _points(kind, measured_loss, axis, across), "dot", _loss_words)
    shown = _values(kind, measured_loss) or _values(kind, predicted_loss)
    dense = sum(row.rank is None for row in kind.rows)
    note = f"median {percent(_median(shown))}" + (f", {dense} dense" if dense else "")
    label = f"Loss of {kind.label} by layer: {note}"
    return Panel(kind.label, note, _frame(across, axis, SHARE, marks, label))


def _frame(across: _Across, axis: Axis, unit: str, marks: Iterable[Markup], label: str) -> Markup:
    lines: list[Markup] = []
    for tick in axis.ticks:
        y = _up(axis, tick)
        lines.append(svg.element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="gridline"))
        lines.append(svg.text(tick_words(axis, tick, unit), _LEFT - 6, y + 3.5, class_="tick", anchor="end"))
    numbers = [
        svg.text(str(position), across(position), _HEIGHT - 6, class_="tick", anchor="middle")
        for position in across.ticks()
    ]
    return svg.picture(*lines, *numbers, *marks, label=label, width=_WIDTH, height=_HEIGHT, class_="panel")


def _across(kind: Series, kinds: Sequence[Series]) -> _Across:
    """The axis of one panel: its own positions outside the layers, else those of all layers."""
    shared = [kind] if kind.label == OUTSIDE else [other for other in kinds if other.label != OUTSIDE]
    positions = [position for other in shared for position in other.positions]
    return _Across(min(positions), max(positions), kind.label != OUTSIDE)


def _lone(points: Sequence[Point | None]) -> list[Point | None]:
    """The points that need a dot of their own on a line: all of a short one, else those without a neighbour."""
    if len(points) <= _DOTS_UP_TO:
        return list(points)
    around = [None, *points, None]
    return [
        point if around[index] is None and around[index + 2] is None else None for index, point in enumerate(points)
    ]


def _line(kind: Series, points: Sequence[Point | None], class_: str) -> Markup:
    """A line through the points; none where one layer has several, for a line would join what does not follow."""
    if len(set(kind.positions)) < len(kind.positions) or kind.label == OUTSIDE:
        return Markup("")
    return svg.element("path", d=svg.line_path(points), class_=class_)


def _up(axis: Axis, value: float) -> float:
    return _HEIGHT - _BOTTOM - axis.place(value) * (_HEIGHT - _BOTTOM - _TOP)


def _points(kind: Series, value: Value, axis: Axis, across: _Across) -> list[Point | None]:
    """One point for each row, None where it has no value."""
    points: list[Point | None] = []
    for position, row in zip(kind.positions, kind.rows, strict=True):
        found = value(row)
        points.append(None if found is None else (across(position), _up(axis, found)))
    return points


def _dots(
    kind: Series, points: Sequence[Point | None], class_: str, words: Callable[[ProjectionRow], str]
) -> list[Markup]:
    radius = 2.6 if len(kind.rows) <= _DOTS_UP_TO else 1.7
    return [
        svg.element("circle", svg.title(words(row)), cx=point[0], cy=point[1], r=radius, class_=class_)
        for row, point in zip(kind.rows, points, strict=True)
        if point is not None
    ]


def _loss_words(row: ProjectionRow) -> str:
    parts = [
        f"{name} {percent(value, 2)}"
        for name, value in (("predicted", row.predicted_loss), ("measured", row.measured_loss))
        if value is not None
    ]
    return f"{row.name}: rank {row.rank}, loss {', '.join(parts)}"


def _values(kind: Series, value: Value) -> list[float]:
    return [found for row in kind.rows if (found := value(row)) is not None]


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _drawable(value: float | None) -> bool:
    return value is not None and drawable(value)
