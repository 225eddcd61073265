"""Saved tiny models, calibration files, and small jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import save_tiny
from trimtab.compression.budget import Target
from trimtab.compression.methods import make_recipe
from trimtab.run.job import Job

MakeJob = Callable[..., Job]
TEXT = "Long ago a lighthouse keeper wrote letters to the sea, and the sea, in its slow way, answered. " * 60


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """saved(arch): the folder of a tiny model, as its owner saved it. Not to be changed."""
    root = tmp_path_factory.mktemp("saved")
    return cache(lambda arch: save_tiny(arch, root / arch))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A calibration text of some six thousand characters."""
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def job(saved: Callable[[str], Path], text: Path, tmp_path: Path) -> MakeJob:
    """job(arch, method=..., remove=..., any field of Job): a small job that reads `text` and writes tmp_path/out."""

    def make(arch: str = "llama", *, method: str = "flrc", remove: float = 0.3, **fields: Any) -> Job:
        small = Job(
            model=str(saved(arch)),
            out=tmp_path / "out",
            target=Target(remove=remove),
            recipe=make_recipe(method),
            calibration=(str(text),),
            windows=4,
            window_length=32,
            text=str(text),
            text_windows=4,
            command="trimtab compress ...",
        )
        return dataclasses.replace(small, **fields)

    return make
