"""One forward pass for measuring: next-token logits of fixed windows, checked for context length and for NaN.

Shapes: N windows, L tokens a window, B windows in a batch, V vocabulary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trimtab.errors import ModelError, OptionError


def bos_rule(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The id that must stand before every text for this model, or None.

    A tokenizer that by itself puts its beginning-of-sequence token in front (Llama, Gemma, OPT) belongs to a
    model that was always trained with it and degrades badly without; others (SmolLM2, Qwen, GPT-2) get none.
    """
    bos_id = tokenizer.bos_token_id
    if bos_id is None:
        return None
    ids = tokenizer("a")["input_ids"]
    return bos_id if len(ids) > 1 and ids[0] == bos_id else None


def context_length(model: PreTrainedModel) -> int | None:
    """The longest input the model was made for, in tokens; None where its configuration does not say."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


@contextlib.contextmanager
def measuring(*models: PreTrainedModel) -> Iterator[None]:
    """No gradients and `eval()`; each model's training flag is put back afterwards."""
    training = [model.training for model in models]
    try:
        for model in models:
            model.eval()
        with torch.no_grad():
            yield
    finally:
        for model, flag in zip(models, training, strict=True):
            model.train(flag)


def check_window_length(model: PreTrainedModel, length: int, bos_id: int | None) -> None:
    """Refuse windows of `length` tokens that do not fit the model's context.

    Raises OptionError with both numbers.
    """
    limit, needed = context_length(model), length + (bos_id is not None)
    if length < 2:
        raise OptionError(f"windows of {length} token leave nothing to predict: use a length of at least 2")
    if limit is not None and needed > limit:
        raise OptionError(
            f"windows of {needed} tokens do not fit this model's context of {limit}: use a smaller window length"
        )


def next_token_logits(model: PreTrainedModel, ids_BL: Tensor, bos_id: int | None = None) -> Tensor:
    """Logits for tokens 1 ... L-1 of each window, shape [B, L-1, V], in the model's dtype, on its device.

    With `bos_id` that token is put before every window; it gives context but is never itself predicted, and the
    window's first token is not counted either, so each model answers the same L-1 questions.
    """
    ids_BL = ids_BL.to(model.device)
    skip = 0
    if bos_id is not None:
        ids_BL = torch.cat([ids_BL.new_full((len(ids_BL), 1), bos_id), ids_BL], dim=1)
        skip = 1
    return model(input_ids=ids_BL, use_cache=False).logits[:, skip:-1]


def check_finite_outputs(values: Tensor, where: str) -> None:
    """Raise ModelError naming `where` if any of `values` (losses, divergences) is NaN or infinite."""
    if not torch.isfinite(values).all():
        raise ModelError(
            f"the model's output is not a finite number at {where}: its weights are damaged or overflow in this "
            f"dtype; try --dtype fp32"
        )
