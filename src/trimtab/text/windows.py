"""Windows of token ids: what calibration and evaluation read.

Shapes: N windows, L tokens in each.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trimtab.errors import OutputError, TextError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_CHARACTERS_PER_TOKEN = 64
_SMALL_TEXT = 4_000_000


@dataclass(frozen=True)
class SourceNote:
    """Where windows came from: the source as the user named it, how many, the seed, and the tokens it had."""

    spec: str
    windows: int
    seed: int | None
    tokens: int


@dataclass(frozen=True)
class Windows:
    """N windows of L token ids (int64, on the CPU), where they came from, and what to warn the user of."""

    ids_NL: Tensor
    sources: tuple[SourceNote, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """How many tokens there are, N * L."""
        return self.ids_NL.numel()

    @property
    def length(self) -> int:
        """Tokens in a window, L."""
        return self.ids_NL.shape[1]

    @property
    def fingerprint(self) -> str:
        """The sha256 of the shape and the ids, in hexadecimal."""
        ids = self.ids_NL.contiguous().numpy().astype("<i8").tobytes()
        return hashlib.sha256(f"{tuple(self.ids_NL.shape)}".encode() + ids).hexdigest()

    def __len__(self) -> int:
        return self.ids_NL.shape[0]

    def save(self, path: Path) -> None:
        """Write ids, sources and warnings to one safetensors file, atomically.

        Raises:
            OutputError: the file cannot be written.
        """
        from safetensors.torch import save_file

        notes = {"sources": [asdict(note) for note in self.sources], "warnings": self.warnings}
        partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            save_file({"ids": self.ids_NL.contiguous()}, partial, {"windows": json.dumps(notes)})
            os.replace(partial, path)
        except Exception as error:
            partial.unlink(missing_ok=True)
            raise OutputError(f"{path} cannot be written: {error}") from error

    @staticmethod
    def load(path: Path) -> Windows:
        """Read what `save` wrote.

        Raises:
            TextError: the file is missing or is not one that `save` wrote.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "pt") as file:
                ids_NL = file.get_tensor("ids")
                notes = json.loads(file.metadata()["windows"])
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise TextError(f"{path} is not a file of windows that Trimtab wrote: {error}") from error
        sources = tuple(SourceNote(**note) for note in notes["sources"])
        return Windows(ids_NL, sources, tuple(notes["warnings"]))


def cut_windows(
    tokenizer: PreTrainedTokenizerBase, text: str, *, length: int, limit: int | None = None, source: str = ""
) -> Windows:
    """Tokenise `text` as one, without special tokens, and cut consecutive windows from its start.

    The tokens that do not fill a last window are left out. At most `limit` windows are returned.

    Raises:
        TextError: the text has fewer tokens than one window.
    """
    if limit is not None:  # a very long text need not be tokenised to its end
        text = text[: max(_SMALL_TEXT, limit * length * _CHARACTERS_PER_TOKEN)]
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    count = len(ids) // length
    if count == 0:
        raise TextError(
            f"{source or 'the text'} has {len(ids)} tokens, fewer than one window of {length}; "
            f"give a longer text or a smaller window length"
        )
    count = count if limit is None else min(count, limit)
    ids_NL = torch.tensor(ids[: count * length], dtype=torch.long).view(count, length)
    return Windows(ids_NL, (SourceNote(source, count, None, len(ids)),))


def check_length(model: PreTrainedModel, length: int) -> None:
    """See that the model can read windows of `length` tokens.

    Raises:
        TextError: its positions end before.
    """
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if longest is not None and length > longest:
        raise TextError(f"windows of {length} tokens are too long: the model reads {longest} at most")
