"""Let a model answer prompts: batched, left-padded, greedy or sampled, the same whatever the batch.

Shapes: B prompts in a batch, T tokens of the longest prompt, G generated tokens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.generation.streamers import BaseStreamer

from trimtab.errors import ModelError, OptionError, TextError
from trimtab.evaluate.forward import context_length, measuring
from trimtab.evaluate.rows import is_unicode
from trimtab.evaluate.streaming import TextPieces
from trimtab.progress import track
from trimtab.text.chat import prompt_ids

LOWEST_TEMPERATURE = 0.001
"""Below it logits divided by the temperature could overflow; tokens drawn are the likeliest ones long before."""


@dataclass(frozen=True)
class Output:
    """What a model wrote after one prompt: its text without special tokens, its token ids without the end token,
    and whether it ended by itself (an end token) before the limit on new tokens."""

    text: str
    ids: tuple[int, ...]
    stopped: bool


def generate_batch(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    *,
    chat: bool = True,
    max_new_tokens: int = 128,
    temperature: float = 0.0,
    top_p: float = 1.0,
    batch_size: int = 8,
    seed: int = 0,
    on_text: Callable[[str], None] | None = None,
    description: str = "",
) -> list[Output]:
    """One output for each prompt, in the order of the prompts.

    `chat` puts each prompt into the model's chat template, where it has one. `temperature` 0 is greedy: the
    likeliest token each time; above 0 tokens are drawn, after `top_p` cut off the tail, from a generator seeded
    with `seed` (the caller's random state is left as it was). Penalties and sampling settings that the model's
    own generation configuration may bring are not used: they would hide, for instance, a model that repeats
    itself. Prompts of similar length share a batch. `on_text` is called with each new piece of the text of a single
    prompt while the model writes. `description` names a progress bar; without it there is none.

    Raises TextError for an empty prompt or one that does not fit the context together with `max_new_tokens`,
    OptionError for a value out of range, ModelError where the model's output is not finite.
    """
    check_options(max_new_tokens, temperature, top_p, batch_size, seed)
    assert on_text is None or len(prompts) == 1
    ids = [_checked_ids(model, tokenizer, prompt, chat, max_new_tokens) for prompt in prompts]
    config = _plain_config(model, tokenizer, max_new_tokens, temperature, top_p)
    order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    outputs: dict[int, Output] = {}
    with measuring(model), _generation_config(model, config), _seeded(seed, model.device):
        for batch in track(batches, description, len(batches)) if description else batches:
            streamer = TextPieces(tokenizer, config.eos_token_id or (), on_text) if on_text else None
            new_BG = _generate(model, [ids[index] for index in batch], config, streamer)
            for index, new_G in zip(batch, new_BG.tolist(), strict=True):
                outputs[index] = _output(tokenizer, new_G, config.eos_token_id)
    return [outputs[index] for index in range(len(ids))]


def check_options(
    max_new_tokens: int = 1, temperature: float = 0.0, top_p: float = 1.0, batch_size: int = 1, seed: int = 0
) -> None:
    """Raise OptionError for a value that `generate_batch` cannot use."""
    if max_new_tokens < 1:
        raise OptionError(f"at least one new token must be asked for, not {max_new_tokens}")
    if temperature != 0 and not LOWEST_TEMPERATURE <= temperature < float("inf"):
        raise OptionError(f"the temperature must be 0 (greedy) or at least {LOWEST_TEMPERATURE}, not {temperature}")
    if not 0 < top_p <= 1:
        raise OptionError(f"top-p must lie above 0 and at most at 1, not {top_p}")
    if top_p < 1 and temperature == 0:
        raise OptionError("top-p has no effect at temperature 0 (greedy): set a temperature above 0, or leave it out")
    if batch_size < 1:
        raise OptionError(f"the batch size must be at least 1, not {batch_size}")
    if not 0 <= seed < 2**63:
        raise OptionError(f"the seed must lie between 0 and 2^63 - 1, not {seed}")


def check_prompt(prompt: str) -> None:
    """Raise TextError for a prompt that says nothing or is not Unicode (bytes that were no UTF-8)."""
    if not prompt.strip():
        raise TextError("the prompt is empty: there is nothing to answer or continue")
    if not is_unicode(prompt):
        raise TextError("the prompt is not UTF-8 text")


def _checked_ids(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompt: str, chat: bool, max_new_tokens: int
) -> Tensor:
    """Token ids of one prompt, shape [T]; TextError if there are none or too many."""
    check_prompt(prompt)
    ids_T = prompt_ids(tokenizer, prompt, chat=chat)[0]
    limit = context_length(model)
    if limit is not None and len(ids_T) + max_new_tokens > limit:
        start = " ".join(prompt.split())[:40]
        raise TextError(
            f"the prompt '{start}...' of {len(ids_T)} tokens and {max_new_tokens} new ones do not fit this model's "
            f"context of {limit}: shorten the prompt or ask for fewer new tokens"
        )
    return ids_T


def _plain_config(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    max_new_tokens: int,
    temperature: float,
    top_p: float,
) -> GenerationConfig:
    """Only what was asked for, and the model's own end tokens."""
    own = getattr(model, "generation_config", None)
    end = own.eos_token_id if own is not None and own.eos_token_id is not None else tokenizer.eos_token_id
    ends = [end] if isinstance(end, int) else list(end or [])
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else (ends or [0])[0]
    sampling = {"do_sample": True, "temperature": temperature, "top_p": top_p, "top_k": 0} if temperature else {}
    return GenerationConfig(max_new_tokens=max_new_tokens, eos_token_id=ends or None, pad_token_id=pad, **sampling)


@contextlib.contextmanager
def _generation_config(model: PreTrainedModel, config: GenerationConfig) -> Iterator[None]:
    """Put the model's own generation configuration aside: `generate` would fill gaps from it."""
    own = model.generation_config
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = own


@contextlib.contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield


class _FiniteGuard(LogitsProcessor):
    """Stop at the first logit that is NaN or infinite: argmax would quietly turn it into a token."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if not scores.amax(-1).isfinite().all():
            raise ModelError(
                "the model's output is not a finite number: its weights are damaged or overflow in this dtype; "
                "try --dtype fp32"
            )
        return scores


def _generate(
    model: PreTrainedModel, prompts: list[Tensor], config: GenerationConfig, streamer: BaseStreamer | None
) -> Tensor:
    """The new tokens after each prompt, shape [B, G], padded on the right after an end token."""
    longest = max(len(ids_T) for ids_T in prompts)
    ids_BT = torch.full((len(prompts), longest), config.pad_token_id, dtype=torch.long)
    mask_BT = torch.zeros_like(ids_BT)
    for row, ids_T in enumerate(prompts):
        ids_BT[row, longest - len(ids_T) :] = ids_T
        mask_BT[row, longest - len(ids_T) :] = 1
    full_BS = model.generate(  # type: ignore[operator]
        input_ids=ids_BT.to(model.device),
        attention_mask=mask_BT.to(model.device),
        generation_config=config,
        logits_processor=LogitsProcessorList([_FiniteGuard()]),
        streamer=streamer,
    )
    return full_BS[:, longest:]


def _output(tokenizer: PreTrainedTokenizerBase, new_G: list[int], ends: list[int] | None) -> Output:
    """Cut at the first end token and decode."""
    end = next((place for place, token in enumerate(new_G) if token in (ends or ())), None)
    ids = new_G[:end]
    return Output(str(tokenizer.decode(ids, skip_special_tokens=True)), tuple(ids), end is not None)
