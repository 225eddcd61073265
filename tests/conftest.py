"""Fixtures that every room's tests may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from trimtab.models.load import LoadedModel, load_model


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread, and give it back its threads: rounding depends on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def smollm() -> LoadedModel:
    """The demo model, SmolLM2-135M-Instruct in bfloat16 (for tests marked slow; do not change its weights)."""
    return load_model("demo")


@pytest.fixture(scope="session")
def smollm_folder(smollm: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo model saved as an ordinary checkpoint folder."""
    folder = tmp_path_factory.mktemp("smollm")
    smollm.model.save_pretrained(folder)
    smollm.tokenizer.save_pretrained(folder)
    return folder
