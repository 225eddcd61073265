"""The pictures of the page as matplotlib figures, for notebooks.

matplotlib is optional: `pip install "trimtab[plot]"`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trimtab.errors import OptionError
from trimtab.report.data import ProjectionRow
from trimtab.report.grid import OUTSIDE, Grid, Series, arrange, cell_text, is_dense, kept, series
from trimtab.report.palette import LIGHT, step
from trimtab.report.pictures.panels import positive_importance

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LAYERS_ACROSS = 32


def rank_figure(rows: Sequence[ProjectionRow], title: str) -> Figure:
    """The rank map: layers across (at most 32 a band), kinds down, coloured by the share of parameters kept.

    Raises OptionError where matplotlib is missing or no projection belongs to a layer.
    """
    grid = arrange(rows)
    if not grid.layers:
        raise OptionError("no projection is in a layer, so there is no rank map to draw")
    bands = [grid.layers[start : start + _LAYERS_ACROSS] for start in range(0, len(grid.layers), _LAYERS_ACROSS)]
    height = len(bands) * (0.32 * len(grid.kinds) + 0.7) + 0.8
    figure = _new_figure(13, height)
    axes = figure.subplots(len(bands), 1, squeeze=False)[:, 0]
    for axis, band in zip(axes, bands, strict=True):
        _draw_band(axis, grid, band)
    figure.suptitle(f"{title}: rank of each projection, colour is the share of parameters kept")
    return figure


def importance_figure(rows: Sequence[ProjectionRow], title: str) -> Figure:
    """Importance by layer, one small picture for each kind of projection, on one logarithmic scale.

    Raises OptionError where matplotlib is missing or no row has an importance.
    """
    kinds = [kind for kind in series(arrange(rows)) if _importances(kind)]
    if not kinds:
        raise OptionError("there is no importance (this method does not use it), so there is nothing to draw")
    columns = min(4, len(kinds))
    lines = math.ceil(len(kinds) / columns)
    figure = _new_figure(3.3 * columns, 2.2 * lines + 0.5)
    axes = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for index, axis in enumerate(axes.flat):
        if index < len(kinds):
            _draw_importance(axis, kinds[index], kinds)
        else:
            axis.set_visible(False)
    figure.suptitle(f"{title}: importance by layer")
    return figure


def _new_figure(width: float, height: float) -> Figure:
    """A figure that a notebook shows once, where it is returned: pyplot knows how to show it, but does not keep it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise OptionError('figures need matplotlib: pip install "trimtab[plot]"') from error
    figure = pyplot.figure(figsize=(width, height), layout="constrained")
    pyplot.close(figure)
    return figure


def _draw_band(axis: Axes, grid: Grid, band: tuple[int, ...]) -> None:
    from matplotlib.patches import Rectangle

    for column, layer in enumerate(band):
        for row, kind in enumerate(grid.kinds):
            cell = grid.cells.get((layer, kind))
            if not cell:
                continue
            shade = step(kept(cell))
            fill, ink = (
                (LIGHT["dense"], LIGHT["dense-ink"]) if is_dense(cell) else (LIGHT[f"heat{shade}"], LIGHT[f"on{shade}"])
            )
            axis.add_patch(Rectangle((column, row), 1, 1, facecolor=fill, edgecolor="white"))
            axis.text(column + 0.5, row + 0.5, cell_text(cell), ha="center", va="center", color=ink, fontsize=6.5)
    axis.set(xlim=(0, max(len(band), min(len(grid.layers), _LAYERS_ACROSS))), ylim=(len(grid.kinds), 0))
    axis.set_xticks([column + 0.5 for column in range(len(band))], [str(layer) for layer in band])
    axis.set_yticks([row + 0.5 for row in range(len(grid.kinds))], grid.kinds)
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelsize=7)
    axis.spines[:].set_visible(False)


def _draw_importance(axis: Axes, kind: Series, others: list[Series]) -> None:
    for other in others:
        if other is not kind and OUTSIDE not in (kind.label, other.label):
            axis.plot(*_line(other), color=LIGHT["ghost"], linewidth=0.8)
    axis.plot(*_line(kind), color=LIGHT["accent"], linewidth=1.3, marker="o", markersize=2.5)
    axis.set_yscale("log")
    axis.set_title(kind.label, loc="left", fontsize=9)
    axis.tick_params(labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)


def _line(kind: Series) -> tuple[list[int], list[float]]:
    """Positions and importances; NaN, which breaks the line, where there is none."""
    values = [positive_importance(row) for row in kind.rows]
    return list(kind.positions), [math.nan if value is None else value for value in values]


def _importances(kind: Series) -> list[float]:
    return [value for row in kind.rows if (value := positive_importance(row)) is not None]
