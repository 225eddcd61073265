"""Draw inline SVG: elements are strings marked safe, whose attributes and text are always escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

Attribute = str | int | float | None


def element(name: str, *children: str, **attributes: Attribute) -> Markup:
    """One SVG element. `class_` gives class, `stroke_width` gives stroke-width; an attribute of None is left out.

    A child that is not Markup is text and is escaped.
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(escape(child) for child in children)
    return Markup(f"<{name}{pairs}>{inside}</{name}>" if inside else f"<{name}{pairs}/>")


def picture(
    *children: str, label: str, width: float, height: float, class_: str = "", min_width: float | None = None
) -> Markup:
    """An SVG that scales with its column, never above its natural `width` x `height`; `label` says what it shows."""
    style = f"max-width:{_value(width)}px" + (f";min-width:{_value(min_width)}px" if min_width else "")
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        width=width,
        height=height,
        class_=f"pic {class_}".strip(),
        style=style,
        role="img",
        aria_label=label,
    )


def strip(*children: str, label: str, height: float, class_: str = "") -> Markup:
    """An SVG as wide as its column whose content is placed in per cent, so that text keeps its size."""
    return element(
        "svg",
        *children,
        width="100%",
        height=height,
        class_=f"strip {class_}".strip(),
        role="img",
        aria_label=label,
    )


def text(content: str, x: Attribute, y: Attribute, *, class_: str = "", anchor: str | None = None) -> Markup:
    """A line of text with its baseline at y; `anchor` is "middle" or "end" (None: start)."""
    return element("text", content, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def title(content: str) -> Markup:
    """The tooltip of the element that holds it."""
    return element("title", content)


def line_path(points: Sequence[tuple[float, float] | None]) -> str:
    """The `d` of a line through the points; None lifts the pen."""
    parts, pen_down = [], False
    for point in points:
        if point is None:
            pen_down = False
            continue
        parts.append(f"{'L' if pen_down else 'M'}{_value(point[0])} {_value(point[1])}")
        pen_down = True
    return "".join(parts)


def _value(value: Attribute) -> str:
    if isinstance(value, float):
        assert math.isfinite(value), "a coordinate must be finite"
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(escape(value))
