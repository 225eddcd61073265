"""Load any model, low-rank or not, whole and checked."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trimtab.lowrank.checkpoint import verify_files
from trimtab.models.load import load_model
from trimtab.models.source import resolve


def load(
    spec: str | Path, *, dtype: torch.dtype | None = None, device: str | torch.device = "cpu"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model and the tokenizer that `spec` (a folder, a hub id, a `.gguf` file or `demo`) names.

    The model is in evaluation mode; `dtype` None keeps the stored type. Of a low-rank folder the hashes of the
    weight files are checked first, which reads them once more.

    Raises:
        ModelError: not a model, no tokenizer, damaged or truncated files, or tensors missing from them.
        CheckpointError: a low-rank checkpoint is damaged, incomplete, or newer than this version reads.
    """
    source = resolve(spec)
    if source.kind == "folder" and (Path(source.location) / "config.json").is_file():
        verify_files(Path(source.location))
    loaded = load_model(spec, dtype=dtype, device=device)
    return loaded.model, loaded.tokenizer
