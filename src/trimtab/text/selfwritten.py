"""Text that the model writes itself: calibration without data and without network.

Each window begins with the token that the model's texts begin with, and goes on by plain sampling: temperature 1,
every token possible. When a text ends inside a window, the window goes on with whatever the model puts after an
end, as in the packed documents that models are trained on: the end token is a token like any other.

Shapes: N windows, L tokens in a window, V vocabulary.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import StaticCache

from trimtab.errors import ModelError, TextError
from trimtab.models.attention import fast_single_queries
from trimtab.progress import track
from trimtab.text.chat import chat_ids, has_chat
from trimtab.text.windows import SourceNote, Windows, check_length

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BATCH_SIZE = 32
_CACHE_NAMES = ("cache", "past_key_values", "cache_params")


def write_windows(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    windows: int,
    length: int,
    seed: int,
    batch_size: int | None = None,
) -> Windows:
    """Let `model` write `windows` texts of `length` tokens; the same text for the same seed on the same machine.

    Raises:
        TextError: the windows are longer than the model can read, or its tokenizer has no token to start from.
        ModelError: the model keeps no cache, so it would write for ever.
    """
    check_length(model, length)
    start, batch_size = start_token(tokenizer), batch_size or BATCH_SIZE
    generator = torch.Generator().manual_seed(seed)
    batches = []
    with fast_single_queries(model):
        for first in range(0, windows, batch_size):
            count = min(batch_size, windows - first)
            name = f"model writes {count} texts" if windows == count else f"model writes {first + count}/{windows}"
            batches.append(_write(model, torch.full((count, 1), start), length, generator, name))
    ids_NL = torch.cat(batches)
    return Windows(ids_NL, (SourceNote("self", windows, seed, ids_NL.numel()),))


def start_token(tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that a text of the model begins with.

    The first token of a chat, if there is a chat template and it begins with a special token; else the tokenizer's
    own beginning-of-text token; else its end-of-text token, after which a new text begins.

    Raises:
        TextError: there is none of these.
    """
    if has_chat(tokenizer) and (first := chat_ids(tokenizer, "")[0]) in tokenizer.all_special_ids:
        return first
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return token
    raise TextError("the tokenizer has no token to start a text from; give a calibration text instead of 'self'")


@torch.no_grad()
def _write(model: PreTrainedModel, ids_N1: Tensor, length: int, generator: torch.Generator, description: str) -> Tensor:
    """Go on from one token each until there are `length`; ids_NL on the CPU."""
    name = _cache_name(model)
    cache, written = _cache(model, name, length), [ids_N1]
    for _ in track(range(length - 1), description, length - 1):
        output = model(input_ids=written[-1].to(model.device), use_cache=True, **{name: cache})
        cache = output[name]
        written.append(_sample(output.logits[:, -1], generator))
    return torch.cat(written, 1)


def _cache(model: PreTrainedModel, name: str, length: int) -> Any:
    """A cache with room for all tokens, where the model can use one: a growing cache is copied at every token."""
    if name == "past_key_values" and model._can_compile_fullgraph:
        return StaticCache(config=model.config, max_cache_len=length)
    return None


def _sample(logits_NV: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one token each from softmax(logits), by inverting the cumulative distribution in float64; ids_N1."""
    cumulative_NV = logits_NV.cpu().float().softmax(-1).double().cumsum(-1)
    draw_N1 = torch.rand(len(logits_NV), 1, generator=generator, dtype=torch.float64) * cumulative_NV[:, -1:]
    return torch.searchsorted(cumulative_NV, draw_N1, right=True).clamp_(max=logits_NV.shape[1] - 1)


def _cache_name(model: PreTrainedModel) -> str:
    """The name that the model's forward, which changed between releases of transformers, has for its cache."""
    parameters = inspect.signature(model.forward).parameters
    for name in _CACHE_NAMES:
        if name in parameters:
            return name
    raise ModelError(f"{type(model).__name__} keeps no cache; give a calibration text instead of 'self'")
