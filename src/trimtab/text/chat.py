"""Put what a user says into the form that the model was taught: its chat template, or the plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trimtab.errors import TextError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def has_chat(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the tokenizer has a chat template."""
    return bool(tokenizer.chat_template)


def prompt_ids(tokenizer: PreTrainedTokenizerBase, message: str, *, chat: bool = True) -> Tensor:
    """Token ids [1, T] of `message`, ready for the model to go on.

    With `chat`, a model that has a chat template gets it, up to where its answer begins. Else the text is
    tokenised as it is, with the special tokens that the tokenizer adds by itself.

    Raises:
        TextError: nothing is left to begin from (an empty message without a template).
    """
    ids = chat_ids(tokenizer, message) if chat and has_chat(tokenizer) else tokenizer(message)["input_ids"]
    if not ids:
        raise TextError("the prompt is empty; give at least one word")
    return torch.tensor([ids], dtype=torch.long)


def chat_ids(tokenizer: PreTrainedTokenizerBase, message: str) -> list[int]:
    """Token ids of a conversation with one message of the user, up to where the answer begins."""
    messages = [{"role": "user", "content": message}]
    encoded: Any = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    return list(encoded["input_ids"])
