"""Everything that decides what a compression run makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trimtab.compression.budget import Target
from trimtab.compression.methods import Recipe
from trimtab.errors import OptionError
from trimtab.models.placement import dtype_of


@dataclass(frozen=True)
class Job:
    """The options of one run. `calibration` None: `self`, or whatever an existing statistics file holds.

    `dtype` is "bf16", "fp32" or None (as stored; fp16 is read as bf16). `text` is what the result is measured on,
    with `text_windows` windows of `window_length` tokens. `command` is only written down.
    """

    model: str
    out: Path
    target: Target
    recipe: Recipe
    calibration: tuple[str, ...] | None = None
    windows: int = 32
    window_length: int = 512
    seed: int = 0
    dtype: str | None = None
    device: str = "cpu"
    include_head: bool = False
    statistics: Path | None = None
    text: str = "pydoc"
    text_windows: int = 16
    evaluate: bool = True
    command: str = ""

    def __post_init__(self) -> None:
        for name in ("windows", "text_windows"):
            if getattr(self, name) < 1:
                raise OptionError(f"--{name.replace('_', '-')} must be at least 1, not {getattr(self, name)}")
        if self.window_length < 2:
            raise OptionError(f"--window-length must be at least 2, not {self.window_length}")
        if dtype_of(self.dtype) is not None and self.dtype == "fp16":
            raise OptionError("--dtype fp16 overflows while gradients are collected: choose bf16 or fp32")

    def identity(self) -> dict[str, Any]:
        """What must be the same for an interrupted run to be resumed: all that decides which weights are written."""
        values = asdict(self) | {"target": str(self.target), "out": str(self.out)}
        for name in ("command", "evaluate", "text", "text_windows"):
            del values[name]
        return {key: _plain(value) for key, value in values.items()}


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The options in which two identities differ, as text."""
    keys = sorted(set(stored) | set(wanted))
    return [f"{key} was {stored.get(key)}, is {wanted.get(key)}" for key in keys if stored.get(key) != wanted.get(key)]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
