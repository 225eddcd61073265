"""Hand a model's answer on while it is being written."""

from __future__ import annotations

from collections.abc import Callable, Collection

from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.generation.streamers import BaseStreamer

_UNFINISHED = "\ufffd"
"""What a tokenizer decodes the first bytes of a character to, before its last byte is there."""


class TextPieces(BaseStreamer):
    """Call `on_text` with each new piece of one answer; all pieces together are the answer's decoded text.

    The whole answer is decoded again after each token, because some tokenizers (SentencePiece) drop the blank that
    a decoded text begins with, so that a piece cannot be decoded alone. Blanks and unfinished characters at the
    end are held back until the next token has settled them.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, ends: Collection[int], on_text: Callable[[str], None]):
        self._tokenizer, self._ends, self._on_text = tokenizer, ends, on_text
        self._ids: list[int] = []
        self._told = ""
        self._is_prompt = True

    def put(self, value: Tensor) -> None:
        """Take the prompt (the first call) or the next token."""
        if self._is_prompt:
            self._is_prompt = False
            return
        self._ids += [token for token in value.flatten().tolist() if token not in self._ends]
        self._tell(self._text().rstrip().rstrip(_UNFINISHED).rstrip())

    def end(self) -> None:
        """The answer is complete: hand on what was held back."""
        self._tell(self._text())

    def _text(self) -> str:
        return str(self._tokenizer.decode(self._ids, skip_special_tokens=True))

    def _tell(self, text: str) -> None:
        if len(text) > len(self._told):
            self._on_text(text[len(self._told) :])
            self._told = text
