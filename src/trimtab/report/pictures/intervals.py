"""One metric before and after: a dot with its 95 % interval for each, on an axis of the metric's own."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from trimtab.report import svg
from trimtab.report.data import SHARE, Measure, Metric
from trimtab.report.scale import Axis, drawable, linear_axis, log_axis, tick_words
from trimtab.report.words import measured

_LOG_FROM_RATIO = 30.0
_LEFT, _SPAN = 9.0, 82.0
_HEIGHT = 62
_AXIS_Y = 42.0
_NARROW = 0.05


def interval_picture(metric: Metric) -> Markup | None:
    """The picture, or None where no value can be drawn."""
    rows = [(name, one) for name, one in (("before", metric.before), ("after", metric.after)) if one is not None]
    ends = [end for _, one in rows for end in (one.value, one.low, one.high) if drawable(end)]
    drawn = [(name, one) for name, one in rows if drawable(one.value)]
    if not drawn:
        return None
    axis = _axis(ends, metric.unit)
    marks = _scale(axis, metric.unit)
    if len(drawn) == 2:
        marks.append(_guide(drawn[0][1], axis))
    for index, (name, one) in enumerate(drawn):
        marks += _interval(one, axis, 12.0 + 18 * index if len(drawn) == 2 else 20.0, name)
    said = "; ".join(f"{name} {_words(one, metric.unit)}" for name, one in rows)
    return svg.strip(*marks, label=f"{metric.name}: {said}", height=_HEIGHT)


def _axis(ends: Sequence[float], unit: str) -> Axis:
    """Logarithmic where the values lie far apart; a share is always on a linear axis."""
    low, high = min(ends), max(ends)
    far = unit != SHARE and low > 0 and high / low > _LOG_FROM_RATIO
    return log_axis(ends, ticks=3) if far else linear_axis(ends, ticks=3)


def _at(axis: Axis, value: float) -> str:
    return f"{_LEFT + _SPAN * axis.place(value):.2f}%"


def _scale(axis: Axis, unit: str) -> list[Markup]:
    marks = []
    for tick in axis.ticks:
        x = _at(axis, tick)
        marks.append(svg.element("line", x1=x, x2=x, y1=2, y2=_AXIS_Y, class_="gridline"))
        marks.append(svg.text(tick_words(axis, tick, unit), x, _AXIS_Y + 15, class_="tick", anchor="middle"))
    return marks


def _guide(before: Measure, axis: Axis) -> Markup:
    """A thin line down from the value before, to compare the value after with."""
    x = _at(axis, before.value)
    return svg.element("line", x1=x, x2=x, y1=12, y2=_AXIS_Y, class_="guide")


def _interval(one: Measure, axis: Axis, y: float, class_: str) -> list[Markup]:
    dot = svg.element("circle", cx=_at(axis, one.value), cy=y, r=4.5, class_=f"value {class_}")
    if not (drawable(one.low) and drawable(one.high)):
        return [dot]
    if axis.place(one.high) - axis.place(one.low) < _NARROW:
        return [dot]
    low, high = _at(axis, one.low), _at(axis, one.high)
    ends = ((low, high, 0.0), (low, low, 4.0), (high, high, 4.0))
    whiskers = [
        svg.element("line", x1=left, x2=right, y1=y - reach, y2=y + reach, class_=f"whisker {class_}")
        for left, right, reach in ends
    ]
    return [*whiskers, dot]


def _words(one: Measure, unit: str) -> str:
    return f"{measured(one.value, unit)}, from {measured(one.low, unit)} to {measured(one.high, unit)}"
