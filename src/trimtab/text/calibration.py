"""Windows of calibration text from one or several sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from trimtab.errors import TextError
from trimtab.text.selfwritten import write_windows
from trimtab.text.sources import read_text
from trimtab.text.windows import Windows, check_length, cut_windows

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def calibration_windows(
    specs: Sequence[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    windows: int = 32,
    length: int = 512,
    seed: int = 0,
) -> Windows:
    """Up to `windows` windows of `length` tokens from each source, in the order given.

    A source is `self` (the model writes, see `write_windows`) or whatever `read_text` knows. A text that has
    fewer windows gives what it has, and a warning says so.

    Raises:
        TextError: no source, a number below 1, windows longer than the model can read, or an unusable text.
    """
    if not specs:
        raise TextError("no calibration text; give a file, a dataset, 'pydoc' or 'self'")
    if windows < 1 or length < 2:
        raise TextError(f"calibration needs 1 window of 2 tokens at least, not {windows} of {length}")
    check_length(model, length)
    parts = []
    texts = {spec: read_text(spec) for spec in specs if spec != "self"}  # mistakes first, slow writing later
    for spec in specs:
        if spec == "self":
            parts.append(write_windows(model, tokenizer, windows=windows, length=length, seed=seed))
        else:
            parts.append(cut_windows(tokenizer, texts[spec], length=length, limit=windows, source=spec))
    return join_windows(parts, windows)


def join_windows(parts: Sequence[Windows], expected: int) -> Windows:
    """All windows of `parts` as one, with a warning for each that has fewer than `expected`."""
    sources = tuple(note for part in parts for note in part.sources)
    warnings = [warning for part in parts for warning in part.warnings]
    warnings += [
        f"{note.spec} has only {note.windows} of the {expected} windows of {parts[0].length} tokens asked for "
        f"({note.tokens:,} tokens); ranks chosen from little text fit it too closely"
        for note in sources
        if note.windows < expected
    ]
    return Windows(torch.cat([part.ids_NL for part in parts]), sources, tuple(warnings))
