"""The page: one HTML file with its styles, pictures and a few lines of script inside, and nothing from outside."""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trimtab.report import palette, view, words
from trimtab.report.data import RunReport
from trimtab.report.grid import Series, arrange, series
from trimtab.report.pictures import heatmap
from trimtab.report.pictures.bars import size_picture
from trimtab.report.pictures.panels import importance_panels, loss_panels
from trimtab.report.verdict import scale_note, verdict

_TEMPLATES = "templates"


def render_page(report: RunReport) -> str:
    """The whole HTML page of a run."""
    return (
        _environment()
        .get_template("report.html")
        .render(report=report, **_numbers(report), **_pictures(report), **_frame())
    )


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("trimtab.report", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": words.count,
        "millions": words.millions,
        "size": words.size,
        "percent": words.percent,
        "breakable": view.breakable,
        "optional_number": view.optional_number,
        "optional_percent": view.optional_percent,
    }
    return environment


def _numbers(report: RunReport) -> dict[str, Any]:
    return {
        "tiles": view.tiles(report),
        "verdict": verdict(report),
        "scale_note": scale_note(report),
        "metrics": view.metric_rows(report.metrics),
        "sizes": view.size_rows(report.sizes),
        "stages": view.stage_rows(report),
        "total_seconds": view.total_seconds(report),
        "dense": sum(row.rank is None for row in report.projections),
        "has_importance": any(row.importance is not None for row in report.projections),
        "has_predicted": any(row.predicted_loss is not None for row in report.projections),
        "has_measured": any(row.measured_loss is not None for row in report.projections),
    }


def _pictures(report: RunReport) -> dict[str, Any]:
    grid = arrange(report.projections)
    kinds: list[Series] = series(grid)
    return {
        "grid": grid,
        "wide": heatmap.wide(grid) if heatmap.has_wide(grid) else [],
        "tall": heatmap.tall(grid) if grid.layers else [],
        "outside": heatmap.outside(grid.outside) if grid.outside else None,
        "legend": heatmap.legend(dense=any(row.rank is None for row in report.projections)),
        "kinds": view.kind_rows(kinds),
        "importance": importance_panels(kinds),
        "loss": loss_panels(kinds),
        "bars": size_picture(report.sizes),
    }


def _frame() -> dict[str, Any]:
    """Colours, script, and the policy that lets this script run and nothing else."""
    script = resources.files("trimtab.report").joinpath(_TEMPLATES, "sort.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "light": _variables(palette.LIGHT),
        "dark": _variables(palette.DARK),
        "heat_steps": range(palette.STEPS),
        "script": Markup(script),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:",
    }


def _variables(colours: dict[str, str]) -> Markup:
    return Markup(";".join(f"--{name}:{colour}" for name, colour in colours.items()))
