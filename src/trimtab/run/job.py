"""Everything that decides what a compression run makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trimtab.compress.budget import Target
from trimtab.compress.methods import Recipe
from trimtab.errors import OptionError


@dataclass(frozen=True)
class Job:
    """The options of one run. `calibration` None: `self`, or whatever an existing statistics file holds.

    `dtype` is "bf16", "fp32" or None (as stored); `text` is what the result is measured on. `command` is only
    written down.
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
        for name in ("windows", "window_length", "text_windows"):
            if getattr(self, name) < 1:
                raise OptionError(f"--{name.replace('_', '-')} must be at least 1, not {getattr(self, name)}")

    def identity(self) -> dict[str, Any]:
        """What must be the same for an interrupted run to be resumed: all but the command."""
        values = asdict(self) | {"target": str(self.target), "out": str(self.out)}
        del values["command"]
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
