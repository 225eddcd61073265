"""Trimtab: make a trained language model smaller without training it again.

`import trimtab` is light: torch and transformers are imported when they are first needed. It also makes
`transformers` able to load low-rank checkpoints, whichever of the two is imported first.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import wrapt

__version__ = "0.1.0"

_LAZY = {
    "load": "trimtab.lowrank.load",
    "plan": "trimtab.run.api",
    "compress": "trimtab.run.api",
    "save": "trimtab.run.api",
}
"""Public names, and the module that each is taken from when it is first used."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'trimtab' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


def _add_low_rank(_transformers_module: object) -> None:
    import_module("trimtab.lowrank.quantizer")  # registers itself


wrapt.register_post_import_hook(_add_low_rank, "transformers.quantizers.auto")
