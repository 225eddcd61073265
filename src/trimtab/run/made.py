"""What a checkpoint's `config.json` records of how it was made."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trimtab.compression.methods import Recipe
from trimtab.compression.plan import Plan
from trimtab.compression.statistics import Statistics
from trimtab.run.environment import versions


def how_it_was_made(recipe: Recipe, statistics: Statistics, plan: Plan, **more: Any) -> dict[str, Any]:
    """Method with all options, calibration text, realised removal and versions; `more` is added as it is."""
    windows = statistics.windows
    return {
        "base_fingerprint": statistics.model_fingerprint,
        "method": recipe.method,
        "factorizer": {"name": recipe.factorizer, **asdict(recipe.factorizer_options)},
        "allocator": {"name": recipe.allocator, **asdict(recipe.allocator_options)},
        "removed": round(plan.removed, 6),
        "calibration": {
            "sources": [asdict(note) for note in windows.sources],
            "windows": len(windows),
            "window_length": windows.length,
            "fingerprint": windows.fingerprint,
        },
        "versions": versions(),
        **more,
    }
