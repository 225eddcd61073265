"""The quality table: every method at the same budgets, one run, two kinds of text.

    python -m benchmarks.quality DATA_FOLDER [--remove 0.1 --remove 0.2] [--model demo]

All methods share one statistics pass on 32 windows of 512 tokens of WikiText-2 (validation part).
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.common import Texts, compressed, machine, markdown, measure, number, write
from trimtab.compression.allocators import Budget
from trimtab.compression.methods import Recipe, make_recipe
from trimtab.compression.plan import factorize_all, make_plan
from trimtab.compression.statistics import collect
from trimtab.compression.store import FolderStore
from trimtab.models.load import load_model
from trimtab.models.projections import find_projections

ROWS: dict[str, Recipe] = {
    "plain SVD, uniform": make_recipe("svd"),
    "ASVD factors, uniform": make_recipe("asvd", allocator="uniform"),
    "SVD-LLM (whitened, uniform)": make_recipe("svd-llm"),
    "FLRC (whitened, FLRA)": make_recipe("flrc"),
    "whitened, loss-aware": make_recipe("flrc", allocator="loss-aware"),
    "two-sided, loss-aware": make_recipe("two-sided"),
}


def main(
    data: Path,
    remove: Annotated[list[float], typer.Option()] = [0.05, 0.1, 0.2, 0.4],  # noqa: B006 (Typer copies it)
    model: str = "demo",
    out: Path = Path("docs/numbers"),
) -> None:
    """Measure and write the table."""
    loaded = load_model(model)
    projections, texts = find_projections(loaded.model), Texts(data)
    tests = texts.tests(loaded)
    rows = [_row("uncompressed", 0.0, 0.0, measure(loaded.model, loaded, tests))]
    statistics = collect(loaded.model, projections, texts.calibration(loaded, 32, 512))
    seconds = {"statistics": statistics.notes["seconds"]}
    dense = sum(each.parameters for each in projections)
    with tempfile.TemporaryDirectory() as folder:
        for name, recipe in ROWS.items():
            store, start = FolderStore(Path(folder) / recipe.factorizer), time.monotonic()
            factorize_all(loaded.model, projections, statistics, recipe, store)
            seconds.setdefault(f"factors: {recipe.factorizer}", round(time.monotonic() - start, 1))
            for share in remove:
                start = time.monotonic()
                plan = make_plan(loaded.model, projections, statistics, recipe, store, Budget(int((1 - share) * dense)))
                seconds[f"ranks: {recipe.allocator}"] = round(time.monotonic() - start, 2)
                rows.append(_row(name, share, plan.removed, measure(compressed(loaded, plan, store), loaded, tests)))
                print(rows[-1], flush=True)
    head = ("method", "removed (asked)", "removed (realised)", *tests)
    table = markdown(head, [_cells(row, list(tests)) for row in rows])
    write(out, "quality", {"rows": rows, "seconds": seconds, **machine()}, table)


def _row(name: str, asked: float, realised: float, found: dict[str, Any]) -> dict[str, Any]:
    measures = {text: dataclasses.asdict(measure) for text, measure in found.items()}
    return {"method": name, "asked": asked, "realised": round(realised, 5), "perplexity": measures}


def _cells(row: dict[str, Any], texts: list[str]) -> list[str]:
    values = [row["perplexity"][text] for text in texts]
    shown = [f"{number(each['value'])} ({number(each['low'])} – {number(each['high'])})" for each in values]
    return [row["method"], f"{row['asked']:.0%}", f"{row['realised']:.2%}", *shown]


if __name__ == "__main__":
    typer.run(main)
