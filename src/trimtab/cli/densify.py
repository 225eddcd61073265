"""`trimtab densify`: make an ordinary checkpoint of a low-rank one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[str, typer.Argument(help="The low-rank checkpoint: a folder or a hub id.")],
    out: Annotated[Path, typer.Argument(help="The folder to write the ordinary checkpoint to.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it is a model folder.")] = False,
) -> None:
    """Multiply the factors of a low-rank checkpoint: an ordinary one, for tools that do not know Trimtab."""
    from trimtab.lowrank.densify import densify

    densify(model, out, overwrite=overwrite)
    size = sum(file.stat().st_size for file in out.glob("*.safetensors"))
    print(f"{out}: an ordinary checkpoint, weights {size / 1e6:,.1f} MB; it loads without trimtab")
