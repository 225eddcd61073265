"""The whole file before and after as two bars: what is in projections, what is not, and what was saved."""

from __future__ import annotations

from markupsafe import Markup

from trimtab.report import svg
from trimtab.report.data import Sizes
from trimtab.report.words import percent, size

_BAR, _GAP = 34.0, 26.0
_WORDS_FROM = 17.0


def size_picture(sizes: Sizes) -> Markup:
    """Two bars on one scale of bytes."""
    longest = max(sizes.file_bytes_before, sizes.file_bytes_after, 1)
    rows = (
        ("Before", sizes.projection_bytes_before, sizes.file_bytes_before),
        ("After", sizes.projection_bytes_after, sizes.file_bytes_after),
    )
    marks: list[Markup] = []
    for index, (name, projections, whole) in enumerate(rows):
        marks += _bar(name, projections, whole, longest, 18 + index * (_BAR + _GAP))
    label = "; ".join(
        f"{name}: {size(projections)} in projections, {size(whole - projections)} in the rest"
        for name, projections, whole in rows
    )
    return svg.strip(*marks, label=label, height=18 + 2 * _BAR + _GAP + 2, class_="bars")


def _bar(name: str, projections: int, whole: int, longest: int, y: float) -> list[Markup]:
    first, end = 100 * projections / longest, 100 * whole / longest
    marks = [
        svg.text(f"{name} · {size(whole)}", 0, y - 6, class_="bar-name"),
        _part(0.0, first, y, "projections"),
        _part(first, end - first, y, "rest"),
    ]
    if end < 99.5:
        marks.append(_part(end, 100 - end, y, "saved"))
    parts = (("projections", 0.0, first, projections), ("rest", first, end - first, whole - projections))
    for part, start, width, bytes_ in parts:
        if width >= _WORDS_FROM:
            marks.append(
                svg.text(size(bytes_), f"{start + width / 2:.2f}%", y + 22, class_=f"on-{part}", anchor="middle")
            )
    return marks


def _part(start: float, width: float, y: float, class_: str) -> Markup:
    return svg.element(
        "rect",
        svg.title(f"{class_}: {percent(width / 100)} of the file before"),
        x=f"{start:.2f}%",
        y=y,
        width=f"{max(width, 0):.2f}%",
        height=_BAR,
        class_=class_,
    )
