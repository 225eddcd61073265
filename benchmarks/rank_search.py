"""How long it takes to find the ranks: FLRA against ASVD's sensitivity search, on the same model and windows.

    python -m benchmarks.rank_search DATA_FOLDER [--windows 1] [--window-length 256]

Both start from the same whitened factors. FLRA: one forward and backward pass over the windows, then the allocation.
The search: every projection is truncated alone to six ratios, and the model is run over the windows each time.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import typer

from benchmarks.common import Texts, compressed, machine, markdown, measure, number, write
from trimtab.compression import sensitivity
from trimtab.compression.allocators import Budget
from trimtab.compression.methods import make_recipe
from trimtab.compression.plan import factorize_all, make_plan
from trimtab.compression.statistics import Statistics, collect
from trimtab.compression.store import Store
from trimtab.models.compute_dtype import fastest_dtype
from trimtab.models.load import LoadedModel, load_model
from trimtab.models.projections import find_projections


def main(
    data: Path,
    windows: int = 1,
    window_length: int = 256,
    remove: float = 0.2,
    model: str = "demo",
    out: Path = Path("docs/numbers"),
) -> None:
    """Measure both searches and the quality of what they find."""
    loaded, texts = load_model(model), Texts(data)
    projections = find_projections(loaded.model)
    statistics = collect(loaded.model, projections, texts.calibration(loaded, 32, 512), kinds={"input_gram"})
    store: Store = {}
    factorize_all(loaded.model, projections, statistics, make_recipe("flrc"), store)
    few = texts.calibration(loaded, windows, window_length)
    rows = [
        _fisher(loaded, statistics, store, texts, few, remove),
        _search(loaded, statistics, store, texts, few, remove),
    ]
    ratio = rows[1]["seconds"] / rows[0]["seconds"]
    names = list(rows[0]["perplexity"])
    head = ("rank search", "seconds", "removed (realised)", *names)
    cells = [
        [row["search"], f"{row['seconds']:.1f}", f"{row['realised']:.2%}"]
        + [number(row["perplexity"][name]["value"]) for name in names]
        for row in rows
    ]
    table = (
        markdown(head, cells) + f"\nFLRA is {ratio:.0f} times faster ({windows} x {window_length} tokens for both).\n"
    )
    write(out, "rank_search", {"rows": rows, "ratio": ratio, "windows": [windows, window_length], **machine()}, table)


def _fisher(
    loaded: LoadedModel, statistics: Statistics, store: Store, texts: Texts, few: Any, remove: float
) -> dict[str, Any]:
    projections = find_projections(loaded.model)
    start = time.monotonic()
    fisher = collect(loaded.model, projections, few, kinds={"fisher"})
    merged = dataclasses.replace(statistics, importances=fisher.importances, gradient_energies=fisher.gradient_energies)
    plan = make_plan(loaded.model, projections, merged, make_recipe("flrc"), store, _budget(loaded, remove))
    return _row("FLRA", time.monotonic() - start, plan, loaded, store, texts)


def _search(
    loaded: LoadedModel, statistics: Statistics, store: Store, texts: Texts, few: Any, remove: float
) -> dict[str, Any]:
    projections, recipe = find_projections(loaded.model), make_recipe("flrc", allocator="sensitivity")
    start = time.monotonic()
    with fastest_dtype(loaded.model):
        table = sensitivity.measure(loaded.model, projections, store, few, recipe.allocator_options.ratios)
    plan = make_plan(loaded.model, projections, statistics, recipe, store, _budget(loaded, remove), table)
    return _row("ASVD's sensitivity search", time.monotonic() - start, plan, loaded, store, texts)


def _budget(loaded: LoadedModel, remove: float) -> Budget:
    return Budget(int((1 - remove) * sum(each.parameters for each in find_projections(loaded.model))))


def _row(search: str, seconds: float, plan: Any, loaded: LoadedModel, store: Store, texts: Texts) -> dict[str, Any]:
    found = measure(compressed(loaded, plan, store), loaded, texts.tests(loaded))
    measures = {name: dataclasses.asdict(value) for name, value in found.items()}
    return {"search": search, "seconds": seconds, "realised": round(plan.removed, 5), "perplexity": measures}


if __name__ == "__main__":
    typer.run(main)
