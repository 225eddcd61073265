"""Multiple choice by likelihood: the model never answers, it says how likely each choice is as a continuation.

Shapes: B sequences in a batch, T tokens of the longest, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trimtab.errors import TextError
from trimtab.evaluate.choice_files import ChoiceItem
from trimtab.evaluate.forward import bos_rule, check_finite_outputs, context_length, measuring
from trimtab.evaluate.measure import Measure, proportion
from trimtab.evaluate.rows import first
from trimtab.progress import track


@dataclass(frozen=True)
class ChoiceResult:
    """`accuracy`: the choice with the best log-likelihood **per character** is the right one; `accuracy_raw`: the
    one with the best log-likelihood as it is. Both with a 95 % Wilson interval. `log_likelihoods` in nats, one
    tuple a question."""

    accuracy: Measure
    accuracy_raw: Measure
    log_likelihoods: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class _Sequence:
    """Token ids of context and choice; the last `choice_tokens` of them belong to the choice."""

    ids: list[int]
    choice_tokens: int


def multiple_choice(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    items: Sequence[ChoiceItem],
    *,
    limit: int | None = None,
    batch_size: int = 8,
) -> ChoiceResult:
    """Accuracy on the first `limit` questions (all of them by default), no examples given (zero-shot).

    The context is "Question: ...\\nAnswer:", the continuation a space and the choice: PIQA's and ARC's template of
    the lm-evaluation-harness, whose `acc_norm` and `acc` correspond to `accuracy` and `accuracy_raw`. A choice's
    length is counted in characters, because tokens would favour the choice whose words the tokenizer knows best.

    Sequences are padded on the right, where a causal model cannot see it: the batch changes no result.

    Raises OptionError for a limit below 1, TextError for a question that does not fit the model's context,
    ModelError where the model's output is not finite.
    """
    items = first(items, limit)
    bos_id = bos_rule(tokenizer)
    sequences = [
        _encode(model, tokenizer, item, choice, bos_id, f"question {number}")
        for number, item in enumerate(items, 1)
        for choice in item.choices
    ]
    scores = iter(_log_likelihoods(model, sequences, batch_size))
    likelihoods = tuple(tuple(next(scores) for _ in item.choices) for item in items)
    hits, raw_hits = 0, 0
    for item, own in zip(items, likelihoods, strict=True):
        per_character = [value / len(choice) for value, choice in zip(own, item.choices, strict=True)]
        hits += _best(per_character) == item.answer
        raw_hits += _best(own) == item.answer
    return ChoiceResult(proportion(hits, len(items)), proportion(raw_hits, len(items)), likelihoods)


def _best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _encode(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    item: ChoiceItem,
    choice: str,
    bos_id: int | None,
    where: str,
) -> _Sequence:
    """Tokenise context and choice as one text: the choice's tokens are those after the context's own number."""
    context = f"Question: {item.question}\nAnswer:"
    context_ids = tokenizer(context, add_special_tokens=False)["input_ids"]
    ids = tokenizer(f"{context} {choice}", add_special_tokens=False)["input_ids"]
    choice_tokens = len(ids) - len(context_ids)
    ids = ids if bos_id is None else [bos_id, *ids]
    limit = context_length(model)
    if limit is not None and len(ids) > limit:
        raise TextError(f"{where} has {len(ids)} tokens with its choice, more than this model's context of {limit}")
    if choice_tokens < 1:
        raise TextError(f"{where}: this tokenizer gives the choice {choice!r} no token of its own")
    return _Sequence(ids, choice_tokens)


def _log_likelihoods(model: PreTrainedModel, sequences: list[_Sequence], batch_size: int) -> list[float]:
    """Sum of log p(token) over each sequence's choice, in nats (fp32), in the order given; longest batches first."""
    order = sorted(range(len(sequences)), key=lambda index: -len(sequences[index].ids))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    found: dict[int, float] = {}
    with measuring(model):
        for batch in track(batches, "multiple choice", len(batches)):
            logits_BTV, ids_BT = _padded_forward(model, [sequences[index].ids for index in batch])
            for row, index in enumerate(batch):
                end = len(sequences[index].ids)
                start = end - sequences[index].choice_tokens
                logp_CV = logits_BTV[row, start - 1 : end - 1].float().log_softmax(-1)
                found[index] = logp_CV.gather(-1, ids_BT[row, start:end, None]).sum().item()
    check_finite_outputs(torch.tensor(list(found.values())), "the choices of a question")
    return [found[index] for index in range(len(sequences))]


def _padded_forward(model: PreTrainedModel, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Logits [B, T, V] and ids [B, T] of rows padded on the right with token 0."""
    longest = max(len(ids) for ids in rows)
    ids_BT = torch.zeros(len(rows), longest, dtype=torch.long, device=model.device)
    mask_BT = torch.zeros_like(ids_BT)
    for row, ids in enumerate(rows):
        ids_BT[row, : len(ids)] = torch.tensor(ids, device=model.device)
        mask_BT[row, : len(ids)] = 1
    return model(input_ids=ids_BT, attention_mask=mask_BT, use_cache=False).logits, ids_BT
