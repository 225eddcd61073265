"""The rank map: a cell for each projection, coloured by the share of its parameters that is left.

Two drawings of the same thing: `wide` has the layers across (screens), `tall` has them down, in short blocks that sit
side by side or, on a phone and on paper, one below the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from trimtab.report import svg
from trimtab.report.data import ProjectionRow
from trimtab.report.grid import Grid, cell_text, is_dense, kept
from trimtab.report.palette import STEPS, step
from trimtab.report.words import count, percent

Cell = Sequence[ProjectionRow]

_WIDE_FROM_LAYERS = 10
_WIDE_WIDTH = 1238.0
_TALL_WIDTH = 328.0
_GAP = 2.0
_CHARACTER = 6.7
_SCALE = "Colour scale: share of parameters kept, from 0 to 100 per cent"


@dataclass(frozen=True)
class _Frame:
    """Where the cells lie: left and top margin, width and height of a cell."""

    left: float
    top: float
    width: float
    height: float


def has_wide(grid: Grid) -> bool:
    """Whether the layers are enough to be drawn across; fewer are drawn down on every screen."""
    return len(grid.layers) >= _WIDE_FROM_LAYERS


def wide(grid: Grid) -> list[Markup]:
    """Bands of at most 32 layers across, kinds down."""
    bands = _blocks(grid.layers, 32)
    left = max(map(len, grid.kinds)) * _CHARACTER + 14
    cell = min(46.0, (_WIDE_WIDTH - left) / max(map(len, bands)))
    frame = _Frame(left, 22.0, cell, 26.0)
    return [
        _draw(
            frame,
            rows=grid.kinds,
            columns=[[str(layer)] for layer in band],
            cell_at=lambda kind, index, band=band: grid.cells.get((band[index], grid.kinds[kind])),  # type: ignore[misc]
            label=f"Rank map, layers {band[0]} to {band[-1]} across, kinds of projection down",
        )
        for band in bands
    ]


def tall(grid: Grid) -> list[Markup]:
    """Blocks of at most 16 layers down, kinds across; more than one block makes three or six, to fill whole rows."""
    blocks = _blocks(grid.layers, 16, multiple=1 if len(grid.layers) <= 16 else 3)
    left = 30.0
    cell = min(72.0, max(36.0, (_TALL_WIDTH - left) / len(grid.kinds)))
    heads = [_head(kind, cell) for kind in grid.kinds]
    frame = _Frame(left, 12.0 * max(map(len, heads)) + 8, cell, 22.0)
    return [
        _draw(
            frame,
            rows=[str(layer) for layer in block],
            columns=heads,
            cell_at=lambda index, kind, block=block: grid.cells.get((block[index], grid.kinds[kind])),  # type: ignore[misc]
            label=f"Rank map, layers {block[0]} to {block[-1]} down, kinds of projection across",
        )
        for block in blocks
    ]


def outside(rows: Sequence[ProjectionRow]) -> Markup:
    """The projections that belong to no layer: one row each."""
    names = [_middle_cut(row.name, 36) for row in rows]
    frame = _Frame(max(map(len, names)) * _CHARACTER + 14, 6.0, 46.0, 24.0)
    return _draw(
        frame, rows=names, columns=[[""]], cell_at=lambda index, _: [rows[index]], label="Ranks outside the layers"
    )


def legend(*, dense: bool) -> Markup:
    """The colour ladder from 0 to 100 % kept, and the colour of dense where something is."""
    width, top = 26.0, 4.0
    steps = [
        svg.element("rect", x=index * width, y=top, width=width, height=12, class_=f"h{index}")
        for index in range(STEPS)
    ]
    end = STEPS * width
    marks = [
        svg.text(f"{share} %", end * share / 100, 32, class_="tick", anchor=anchor)
        for share, anchor in ((0, None), (50, "middle"), (100, "end"))
    ]
    if not dense:
        return svg.picture(*steps, *marks, label=_SCALE, width=end + 2, height=38)
    swatch = svg.element("rect", x=end + 24, y=top - 1, width=34, height=14, rx=2, class_="dense")
    name = svg.text("dense", end + 41, 32, class_="tick", anchor="middle")
    label = f"{_SCALE}; dense projections have a colour of their own"
    return svg.picture(*steps, *marks, swatch, name, label=label, width=end + 66, height=38)


def describe(cell: Cell) -> str:
    """The tooltip of a cell."""
    if len(cell) > 1:
        ranks = sorted(row.rank for row in cell if row.rank is not None)
        spread = f"ranks {ranks[0]} to {ranks[-1]}, " if ranks else ""
        dense = sum(row.rank is None for row in cell)
        return f"{len(cell)} projections: {spread}{dense} dense, {percent(kept(cell))} of the parameters kept"
    (row,) = cell
    shape = f"{row.out_features} × {row.in_features}"
    form = "dense" if row.rank is None else f"rank {row.rank}, {percent(row.kept)} of the parameters kept"
    return f"{row.name}: {form} ({shape}, {count(row.parameters_before)} → {count(row.parameters_after)})"


def _draw(
    frame: _Frame,
    *,
    rows: Sequence[str],
    columns: Sequence[Sequence[str]],
    cell_at: Callable[[int, int], Cell | None],
    label: str,
) -> Markup:
    marks: list[Markup] = []
    for index, name in enumerate(rows):
        baseline = frame.top + (index + 0.5) * frame.height + 4
        marks.append(svg.text(name, frame.left - 8, baseline, class_="axis", anchor="end"))
    for index, lines in enumerate(columns):
        centre = frame.left + (index + 0.5) * frame.width
        for depth, line in enumerate(reversed(lines)):
            marks.append(svg.text(line, centre, frame.top - 6 - 12 * depth, class_="axis", anchor="middle"))
    for row in range(len(rows)):
        for column in range(len(columns)):
            cell = cell_at(row, column)
            if cell:
                marks.append(_cell(cell, frame, row, column))
    width = frame.left + len(columns) * frame.width + 2
    return svg.picture(
        *marks,
        label=label,
        width=width,
        height=frame.top + len(rows) * frame.height + 2,
        class_="heat",
        min_width=min(width, _TALL_WIDTH - 2) if width <= _TALL_WIDTH else width * 0.8,
    )


def _cell(cell: Cell, frame: _Frame, row: int, column: int) -> Markup:
    x, y = frame.left + column * frame.width, frame.top + row * frame.height
    kind = "dense" if is_dense(cell) else f"h{step(kept(cell))}"
    box = svg.element(
        "rect", x=x + _GAP / 2, y=y + _GAP / 2, width=frame.width - _GAP, height=frame.height - _GAP, rx=2, class_=kind
    )
    words = svg.text(
        cell_text(cell), x + frame.width / 2, y + frame.height / 2 + 3.8, class_=f"num on-{kind}", anchor="middle"
    )
    return svg.element("g", svg.title(describe(cell)), box, words)


def _blocks(layers: Sequence[int], most: int, multiple: int = 1) -> list[Sequence[int]]:
    """Cut into equal blocks of at most `most`; their number is a multiple of `multiple`."""
    blocks = math.ceil(len(layers) / most)
    blocks = math.ceil(blocks / multiple) * multiple
    length = math.ceil(len(layers) / blocks)
    return [layers[start : start + length] for start in range(0, len(layers), length)]


def _head(kind: str, width: float) -> list[str]:
    """A kind's name in lines that fit a column: without "_proj", broken after underscores and dots."""
    most = max(3, int((width - 2) / _CHARACTER))
    lines = [""]
    for part in re.split(r"(?<=[._])", kind.removesuffix("_proj")):
        if len(lines[-1]) + len(part.rstrip("._")) <= most:
            lines[-1] += part
        else:
            lines.append(part)
    return [_middle_cut(line.rstrip("._"), most) for line in lines if line] or [kind]


def _middle_cut(name: str, most: int) -> str:
    if len(name) <= most:
        return name
    keep = most - 1
    return f"{name[: keep // 2]}…{name[len(name) - (keep - keep // 2) :]}"
