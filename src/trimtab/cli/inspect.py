"""`trimtab inspect`: the rank map of a low-rank checkpoint, sizes, and how it was made; or what could be compressed."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    model: Annotated[str, typer.Argument(help="Hub id, folder, .gguf file, or 'demo'.")],
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show a model's projections, ranks and sizes, and how it was made; reads no weights."""
    from trimtab.lowrank.inspection import inspect_model

    found = inspect_model(model)
    if json:
        from json import dumps

        print(dumps(found.to_json(), indent=2))
    else:
        from trimtab.cli.inspect_table import page

        print(page(found))
