"""Where the factors of all projections are kept between factorizing and allocating: in memory or in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from trimtab.compression.factorizers import Factors, Units
from trimtab.errors import StatisticsError

Store = MutableMapping[str, Factors]
"""Projection name -> factors. A plain dictionary is one; `FolderStore` keeps them out of memory."""


class FolderStore(MutableMapping[str, Factors]):
    """Factors in one safetensors file a projection, read when asked for; what was written survives a crash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __setitem__(self, name: str, factors: Factors) -> None:
        path = self._path(name)
        partial = path.with_suffix(f".{os.getpid()}.part")
        tensors = {"u": factors.u_RO, "v": factors.v_RI, "energy": factors.energy_K}
        try:
            save_file({key: value.contiguous() for key, value in tensors.items()}, partial, {"units": factors.units})
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    def __getitem__(self, name: str) -> Factors:
        with self._open(name) as file:
            return Factors(file.get_tensor("u"), file.get_tensor("v"), file.get_tensor("energy"), _units(file))

    def spectrum(self, name: str) -> tuple[Tensor, Units]:
        """The energies and their units alone, without reading the factors."""
        with self._open(name) as file:
            return file.get_tensor("energy"), _units(file)

    def __delitem__(self, name: str) -> None:
        self._path(name).unlink()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._path(name).exists()

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in sorted(self.folder.glob("*.safetensors")))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @contextmanager
    def _open(self, name: str) -> Iterator[Any]:
        path = self._path(name)
        if not path.exists():
            raise KeyError(name)
        try:
            with safe_open(path, "pt") as file:
                yield file
        except (OSError, SafetensorError, TypeError, KeyError) as error:
            raise StatisticsError(f"{path} is damaged ({error}); delete it and run again with --resume") from error

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"


def spectrum(store: Store, name: str) -> tuple[Tensor, Units]:
    """The energies of one projection and their units, as cheaply as the store can."""
    if isinstance(store, FolderStore):
        return store.spectrum(name)
    return store[name].energy_K, store[name].units


def _units(file: Any) -> Units:
    units: Units = file.metadata()["units"]
    return units
