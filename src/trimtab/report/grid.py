"""Arrange the projections of any model as a grid: its layers by its kinds of projection.

Most models have one projection of each kind in a layer. Where a layer has several (self and cross attention, experts),
the kind takes its parent's name with it; where even that leaves too many columns, they share one cell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.report.data import ProjectionRow

_MOST_COLUMNS = 16
OUTSIDE = "outside the layers"


@dataclass(frozen=True)
class Grid:
    """`cells[layer, kind]` holds one projection or, rarely, several; `outside` are those that belong to no layer."""

    layers: tuple[int, ...]
    kinds: tuple[str, ...]
    cells: dict[tuple[int, str], tuple[ProjectionRow, ...]]
    outside: tuple[ProjectionRow, ...]


@dataclass(frozen=True)
class Series:
    """The projections of one kind, in order; `positions` are their layers (their order, outside the layers)."""

    label: str
    positions: tuple[int, ...]
    rows: tuple[ProjectionRow, ...]


def arrange(rows: Sequence[ProjectionRow]) -> Grid:
    """Put each projection in its cell; layers ascend, kinds keep the order in which they first appear."""
    layered = [row for row in rows if row.layer is not None]
    label = _labeller(layered)
    cells: dict[tuple[int, str], list[ProjectionRow]] = defaultdict(list)
    for row in layered:
        assert row.layer is not None
        cells[row.layer, label[row.name]].append(row)
    return Grid(
        layers=tuple(sorted({layer for layer, _ in cells})),
        kinds=tuple(dict.fromkeys(kind for _, kind in cells)),
        cells={key: tuple(cell) for key, cell in cells.items()},
        outside=tuple(row for row in rows if row.layer is None),
    )


def series(grid: Grid) -> list[Series]:
    """One series for each kind of projection, and one for all outside the layers."""
    by_kind = []
    for kind in grid.kinds:
        pairs = [(layer, row) for layer in grid.layers for row in grid.cells.get((layer, kind), ())]
        by_kind.append(Series(kind, tuple(layer for layer, _ in pairs), tuple(row for _, row in pairs)))
    if grid.outside:
        by_kind.append(Series(OUTSIDE, tuple(range(len(grid.outside))), grid.outside))
    return by_kind


def kept(cell: Sequence[ProjectionRow]) -> float:
    """Share of the parameters of a cell that is left."""
    before = sum(row.parameters_before for row in cell)
    return sum(row.parameters_after for row in cell) / before if before else 1.0


def is_dense(cell: Sequence[ProjectionRow]) -> bool:
    """Whether nothing in the cell was compressed."""
    return all(row.rank is None for row in cell)


def cell_text(cell: Sequence[ProjectionRow]) -> str:
    """What stands in the cell: the rank, "dense", or for several projections what they keep in per cent."""
    if is_dense(cell):
        return "dense"
    if len(cell) == 1:
        return str(cell[0].rank)
    return f"{kept(cell):.0%}"


def _labeller(rows: Sequence[ProjectionRow]) -> dict[str, str]:
    by_kind = {row.name: row.kind for row in rows}
    if _unique(rows, by_kind):
        return by_kind
    crowded = _crowded(rows)
    by_parent = {row.name: ".".join(row.name.split(".")[-2:]) if row.kind in crowded else row.kind for row in rows}
    fits = _unique(rows, by_parent) and len(set(by_parent.values())) <= _MOST_COLUMNS
    return by_parent if fits else by_kind


def _unique(rows: Sequence[ProjectionRow], label: dict[str, str]) -> bool:
    return len({(row.layer, label[row.name]) for row in rows}) == len(rows)


def _crowded(rows: Sequence[ProjectionRow]) -> set[str]:
    seen: set[tuple[int | None, str]] = set()
    crowded = set()
    for row in rows:
        if (row.layer, row.kind) in seen:
            crowded.add(row.kind)
        seen.add((row.layer, row.kind))
    return crowded
