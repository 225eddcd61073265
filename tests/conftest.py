"""Fixtures that every room's tests may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.models.load import LoadedModel, load_model


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
