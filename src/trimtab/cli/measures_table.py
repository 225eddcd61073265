"""Show measures to people: one line each, with interval and count, the base beside the model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trimtab.cli.plain_table import Row, plain_table

if TYPE_CHECKING:
    from trimtab.evaluate.measure import Measure

_NAMES = {
    "perplexity_ratio": "perplexity / base's",
    "kl_to_base": "KL from base, nats",
    "accuracy": "accuracy, normalised",
    "accuracy_raw": "accuracy, raw",
    "rouge1": "ROUGE-1 F1",
    "rouge2": "ROUGE-2 F1",
    "rougeL": "ROUGE-L F1",
    "stopped": "stopped by itself",
    "repeated_4grams": "repeated 4-grams",
    "mean_length": "mean length, tokens",
}


def measures_table(measures: dict[str, Measure]) -> str:
    """A table of all measures; those called `base_NAME` stand in the line of NAME."""
    with_base = any(name.startswith("base_") for name in measures)
    rows: list[Row] = [("", "model", "95 % interval", *(("base", "95 % interval") if with_base else ()), "count")]
    for name, measure in measures.items():
        if not name.startswith("base_"):
            cells = [number(measure.value, measure.unit), interval(measure)]
            if with_base:
                base = measures.get(f"base_{name}")
                cells += [number(base.value, base.unit), interval(base)] if base else ["", ""]
            rows.append((_NAMES.get(name, name.replace("_", " ", 1)), *cells, f"{measure.count:,}"))
    return plain_table(rows)


def number(value: float, unit: str) -> str:
    """A value in its unit: shares as per cent, F1 with three digits, all else with four that count."""
    if not math.isfinite(value):
        return "-"
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if unit == "F1" else f"{value:.4g}"


def interval(measure: Measure) -> str:
    """The 95 % interval, or a dash where there is none."""
    if not (math.isfinite(measure.low) and math.isfinite(measure.high)):
        return "-"
    low, high = number(measure.low, measure.unit), number(measure.high, measure.unit)
    return f"{low.removesuffix(' %')} – {high}"
