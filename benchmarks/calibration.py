"""Which calibration text serves text of a third kind: what the model wrote itself, WikiText-2, or both.

    python -m benchmarks.calibration DATA_FOLDER [--remove 0.1]

FLRC each time; measured on WikiText-2 (test part), DialogSum dialogues, and Python's own manual (`pydoc`), the third
kind, which none of them was calibrated on.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import typer

from benchmarks.common import Texts, compressed, machine, markdown, measure, number, write
from trimtab.compression.allocators import Budget
from trimtab.compression.methods import make_recipe
from trimtab.compression.plan import factorize_all, make_plan
from trimtab.compression.statistics import KINDS, collect
from trimtab.compression.store import Store
from trimtab.models.load import load_model
from trimtab.models.projections import find_projections
from trimtab.text.calibration import join_windows
from trimtab.text.selfwritten import write_windows
from trimtab.text.sources import read_text
from trimtab.text.windows import cut_windows


def main(
    data: Path,
    remove: float = 0.1,
    windows: int = 32,
    test_windows: int = 16,
    method: str = "flrc",
    model: str = "demo",
    out: Path = Path("docs/numbers"),
) -> None:
    """Measure and write the table."""
    loaded, texts, recipe = load_model(model), Texts(data), make_recipe(method)
    projections = find_projections(loaded.model)
    tests = texts.tests(loaded, test_windows)
    tests["pydoc (third kind)"] = cut_windows(loaded.tokenizer, read_text("pydoc"), length=512, limit=test_windows)
    own = write_windows(loaded.model, loaded.tokenizer, windows=windows, length=512, seed=0)
    wiki = texts.calibration(loaded, windows, 512)
    budget = Budget(int((1 - remove) * sum(each.parameters for each in projections)))
    rows = [_row("(uncompressed)", measure(loaded.model, loaded, tests))]
    for name, text in {"self": own, "WikiText-2": wiki, "both": join_windows([own, wiki], windows)}.items():
        store: Store = {}
        statistics = collect(loaded.model, projections, text, kinds=recipe.needs & KINDS)
        factorize_all(loaded.model, projections, statistics, recipe, store)
        plan = make_plan(loaded.model, projections, statistics, recipe, store, budget)
        rows.append(_row(name, measure(compressed(loaded, plan, store), loaded, tests)))
        print(rows[-1], flush=True)
    table = markdown(
        ("calibration", *tests),
        [[row["calibration"], *(number(row["perplexity"][each]["value"]) for each in tests)] for row in rows],
    )
    write(
        out, "calibration", {"rows": rows, "remove": remove, "windows": windows, "method": method, **machine()}, table
    )


def _row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    return {"calibration": name, "perplexity": {text: dataclasses.asdict(value) for text, value in found.items()}}


if __name__ == "__main__":
    typer.run(main)
