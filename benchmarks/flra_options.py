"""What FLRA's open choices are worth: powers and kinds of importance, at one budget.

python -m benchmarks.flra_options DATA_FOLDER [--remove 0.2]
"""

from __future__ import annotations

from pathlib import Path

import typer

from benchmarks.common import Texts, compressed, machine, markdown, measure, number, write
from trimtab.compression.allocators import Budget
from trimtab.compression.methods import make_recipe
from trimtab.compression.plan import factorize_all, make_plan
from trimtab.compression.statistics import collect
from trimtab.compression.store import Store
from trimtab.models.load import load_model
from trimtab.models.projections import find_projections

CHOICES = [("fisher", power, "sum") for power in (0.25, 0.5, 0.75, 1.0)]
CHOICES += [("absolute", 0.5, "sum"), ("absolute", 1.0, "sum"), ("gradient", 0.25, "sum"), ("gradient", 0.5, "sum")]
CHOICES += [("fisher", 0.25, "mean"), ("fisher", 1.0, "mean")]


def main(data: Path, remove: float = 0.2, model: str = "demo", out: Path = Path("docs/numbers")) -> None:
    """Measure and write the table."""
    loaded, texts = load_model(model), Texts(data)
    projections, tests = find_projections(loaded.model), texts.tests(loaded)
    windows = texts.calibration(loaded, 32, 512)
    statistics = collect(loaded.model, projections, windows, kinds={"input_gram", "fisher"})
    budget = Budget(int((1 - remove) * sum(each.parameters for each in projections)))
    store: Store = {}
    factorize_all(loaded.model, projections, statistics, make_recipe("flrc"), store)
    rows = []
    for importance, power, per in CHOICES:
        settings = [f"allocator.{key}" for key in (f"importance={importance}", f"power={power}", f"per={per}")]
        plan = make_plan(loaded.model, projections, statistics, make_recipe("flrc", settings=settings), store, budget)
        found = measure(compressed(loaded, plan, store), loaded, tests)
        rows.append([importance, f"{power:g}", per, *(number(found[name].value) for name in tests)])
        print(rows[-1], flush=True)
    table = markdown(("importance", "power", "per", *tests), rows)
    write(out, "flra_options", {"rows": rows, "remove": remove, **machine()}, table)


if __name__ == "__main__":
    typer.run(main)
