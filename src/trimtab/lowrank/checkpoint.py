"""Write low-rank checkpoints, and see whether their files are still what was written."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trimtab.errors import CheckpointError
from trimtab.lowrank.config import QUANT_METHOD, LowRankConfig
from trimtab.lowrank.quantizer import attach
from trimtab.models.quiet import quiet_libraries

HASHED = ("*.safetensors", "*.safetensors.index.json")
"""The files whose hashes are kept: those that nobody edits by hand."""


def save_checkpoint(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    *,
    made: dict[str, Any],
    max_shard_size: int | str = "5GB",
) -> None:
    """Write `model`, which holds low-rank layers, and its tokenizer into `folder`.

    The folder then has the weights (tied ones once), `config.json` with the rank map, `made` and the hashes of the
    weight files, the generation configuration, the tokenizer and the chat template. Plain
    `AutoModelForCausalLM.from_pretrained` loads it after `import trimtab`, and fails without.

    `made` says how it was made: anything that JSON can hold. Use `lowrank.output.fresh_folder` for a folder that
    appears whole or not at all.
    """
    attach(model, made)
    with quiet_libraries():
        model.save_pretrained(folder, max_shard_size=max_shard_size)
        tokenizer.save_pretrained(folder)
    _write_hashes(folder)


def read_config(folder: Path) -> LowRankConfig | None:
    """What `config.json` in `folder` says about low-rank layers, or None where the model is an ordinary one.

    Raises:
        CheckpointError: `config.json` cannot be read, or its low-rank entries cannot be used.
    """
    settings = _read_json(folder).get("quantization_config")
    if not isinstance(settings, dict) or settings.get("quant_method") != QUANT_METHOD:
        return None
    return LowRankConfig(**settings)


def verify_files(folder: Path) -> None:
    """See that the weight files of a low-rank checkpoint have the hashes that were written with them.

    Checkpoints that `save_pretrained` wrote have no hashes; then there is nothing to compare with.

    Raises:
        CheckpointError: a file is missing or its bytes have changed; names the first.
    """
    config = read_config(folder)
    for name, expected in (config.files if config else {}).items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{folder} is incomplete: {name} is missing")
        if sha256(path) != expected:
            raise CheckpointError(
                f"{path} is damaged: its bytes are not those that were written (sha256); make or copy it again"
            )


def sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_hashes(folder: Path) -> None:
    """Put the hashes of the weight files into `config.json`."""
    files = sorted(path for pattern in HASHED for path in folder.glob(pattern))
    content = _read_json(folder)
    content["quantization_config"]["files"] = {path.name: sha256(path) for path in files}
    temporary = folder / "config.json.new"
    temporary.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", "utf-8")
    os.replace(temporary, folder / "config.json")


def _read_json(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: it is not JSON") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is damaged: it is not a table of names and values")
    return content
