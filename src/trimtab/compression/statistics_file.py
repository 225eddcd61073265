"""Keep statistics in a file, so that other budgets, methods and allocators never run the model again.

One safetensors file: the tensors under `input_gram/NAME`, `input_mean/NAME`, `output_gram/NAME` and `windows`,
everything else as JSON in its header.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from trimtab.compression.statistics import Statistics
from trimtab.errors import StatisticsError
from trimtab.text.windows import SourceNote, Windows

FORMAT = "trimtab-statistics-1"
_TABLES = {"input_gram": "input_grams", "input_mean": "input_means", "output_gram": "output_grams"}
_NOTES = ("groups", "importances", "gradient_energies", "notes")


def save_statistics(statistics: Statistics, path: Path) -> None:
    """Write the statistics to `path`, atomically."""
    tensors: dict[str, Tensor] = {"windows": statistics.windows.ids_NL}
    for kind, table in _TABLES.items():
        tensors |= {f"{kind}/{name}": value for name, value in getattr(statistics, table).items()}
    header = {
        "format": FORMAT,
        "kinds": sorted(statistics.kinds),
        "model_fingerprint": statistics.model_fingerprint,
        "sources": [asdict(note) for note in statistics.windows.sources],
        "warnings": statistics.windows.warnings,
        **{name: getattr(statistics, name) for name in _NOTES},
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        save_file(
            {name: value.contiguous() for name, value in tensors.items()}, partial, {"trimtab": json.dumps(header)}
        )
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def load_statistics(path: Path) -> Statistics:
    """Read what `save_statistics` wrote.

    Raises:
        StatisticsError: the file is missing, damaged, or of another kind or version.
    """
    try:
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {}).get("trimtab", "{}"))
            if header.get("format") != FORMAT:
                raise StatisticsError(f"{path} is not a statistics file of this version of trimtab")
            return _from_file(header, file)
    except StatisticsError:
        raise
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StatisticsError(f"statistics file {path} cannot be read ({error}); delete it to collect anew") from error


def _from_file(header: dict[str, Any], file: Any) -> Statistics:
    sources = tuple(SourceNote(**note) for note in header["sources"])
    windows = Windows(file.get_tensor("windows"), sources, tuple(header["warnings"]))
    statistics = Statistics(frozenset(header["kinds"]), header["model_fingerprint"], windows)
    for name in _NOTES:
        setattr(statistics, name, header[name])
    for key in file.keys():  # noqa: SIM118 (the file is no dictionary)
        kind, _, name = key.partition("/")
        if kind in _TABLES:
            tensor = file.get_tensor(key)
            if not torch.isfinite(tensor).all():
                raise StatisticsError(f"{key} in the statistics file has values that are not finite; delete the file")
            getattr(statistics, _TABLES[kind])[name] = tensor
    return statistics


def check_kinds(statistics: Statistics, needs: frozenset[str], path: Path) -> None:
    """Raise StatisticsError when the file lacks what a method needs."""
    missing = sorted(needs - statistics.kinds)
    if missing:
        raise StatisticsError(f"{path} does not hold {', '.join(missing)}, which this method needs; give a new file")


def check_model(statistics: Statistics, model_fingerprint: str, path: Path) -> None:
    """Raise StatisticsError when the statistics were collected on another model (or in another dtype)."""
    if statistics.model_fingerprint != model_fingerprint:
        raise StatisticsError(
            f"{path} was made from another model or in another dtype (fingerprint "
            f"{statistics.model_fingerprint[:12]}, this one is {model_fingerprint[:12]}); give another file name"
        )
