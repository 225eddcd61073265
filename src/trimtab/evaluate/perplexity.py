"""Perplexity over fixed windows, with or without overlap.

Shapes: N windows, L tokens a window, B windows in a batch, V vocabulary, T = N * L tokens in a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from trimtab.errors import OptionError
from trimtab.evaluate.forward import check_finite_outputs, check_window_length, measuring, next_token_logits
from trimtab.evaluate.measure import Measure, exponential, weighted_mean
from trimtab.models.compute_dtype import fastest_dtype
from trimtab.progress import track
from trimtab.text.windows import Windows

ROWS = 32
"""How many predictions' logits are turned to fp32 at a time."""


@dataclass(frozen=True)
class PerplexityResult:
    """Perplexity, how many predictions it rests on, and what each window gave.

    `nll_N` is each window's mean negative log-likelihood in nats (fp64), `counts_N` how many predictions of that
    window were scored; `tokens` is their sum.
    """

    perplexity: Measure
    tokens: int
    nll_N: Tensor
    counts_N: Tensor


def perplexity(
    model: PreTrainedModel,
    windows: Windows,
    *,
    batch_size: int = 4,
    bos_id: int | None = None,
    stride: int | None = None,
) -> PerplexityResult:
    """exp of the mean negative log-likelihood of every scored prediction (log-softmax in fp32, mean in fp64).

    A bf16 model computes in fp32 where this processor is faster in it; the weights are the same (`fastest_dtype`).

    Without `stride`, windows stand side by side and the L-1 predictions of each are scored. With `stride` S the
    windows start every S tokens of the same text and each but the first scores only its last S predictions, so
    that each token is predicted once, with at least L-S tokens before it. `windows` must then be consecutive
    pieces of one text, and a tail shorter than S is left out.

    The 95 % interval: Student-t over the windows' mean losses, carried through the exponential.

    Raises OptionError for a window that does not fit the model or a stride outside 1 ... L, ModelError where the
    model's output is not finite.
    """
    ids_NL, counts = scored_windows(model, windows.ids_NL, bos_id, stride)
    losses: list[float] = []
    batches = ids_NL.split(batch_size)
    with fastest_dtype(model), measuring(model):
        for ids_BL in track(batches, "perplexity", len(batches)):
            logits_BLV = next_token_logits(model, ids_BL, bos_id)
            for logits_LV, ids_L in zip(logits_BLV, ids_BL, strict=True):
                losses.append(window_loss(logits_LV, ids_L, counts[len(losses)], len(losses)))
    return perplexity_of(losses, counts)


def scored_windows(
    model: PreTrainedModel, ids_NL: Tensor, bos_id: int | None, stride: int | None
) -> tuple[Tensor, list[int]]:
    """The windows to run, overlapping where a stride is given, and how many predictions of each are scored.

    Raises OptionError for a window that does not fit the model or a stride outside 1 ... L.
    """
    length = ids_NL.shape[1]
    check_window_length(model, length, bos_id)
    if stride is not None:
        ids_NL = overlapping(ids_NL, stride)
    scored = min(stride or length, length - 1)
    return ids_NL, [length - 1] + [scored] * (len(ids_NL) - 1)


def overlapping(ids_NL: Tensor, stride: int) -> Tensor:
    """The windows' tokens as one row, cut again into windows of the same length that start every `stride`."""
    length = ids_NL.shape[1]
    if not 1 <= stride <= length:
        raise OptionError(f"the stride must lie between 1 and the window length {length}, not {stride}")
    return ids_NL.reshape(-1).unfold(0, length, stride)


def window_loss(logits_LV: Tensor, ids_L: Tensor, count: int, number: int) -> float:
    """Mean loss in nats of a window's last `count` predictions, from its logits [L-1, V] and its ids [L].

    Raises ModelError naming the window (`number` counts from 0) where the loss is not finite.
    """
    nll_L = token_losses(logits_LV, ids_L[1:].to(logits_LV.device))
    check_finite_outputs(nll_L, f"window {number + 1} of the text")
    return nll_L[-count:].double().mean().item()


def token_losses(logits_LV: Tensor, targets_L: Tensor) -> Tensor:
    """-log p(target) of each of L predictions in nats, fp32; a few rows at a time, which stay in the cache."""
    rows = zip(logits_LV.split(ROWS), targets_L.split(ROWS), strict=True)
    return torch.cat([F.cross_entropy(some_RV.float(), targets_R, reduction="none") for some_RV, targets_R in rows])


def perplexity_of(losses: list[float], counts: list[int]) -> PerplexityResult:
    """Put the windows' mean losses (nats) and their numbers of predictions together."""
    return PerplexityResult(
        exponential(weighted_mean(losses, counts, "nats per token"), "perplexity"),
        sum(counts),
        torch.tensor(losses, dtype=torch.float64),
        torch.tensor(counts),
    )


def perplexity_ratio(model: PerplexityResult, base: PerplexityResult) -> Measure:
    """How many times the base's perplexity the model has, on the same windows.

    The 95 % interval is paired: Student-t over the windows' differences of mean loss, carried through the
    exponential. It is far narrower than the two perplexities' own intervals, because both models find the same
    windows hard.
    """
    difference_N = (model.nll_N - base.nll_N).tolist()
    return exponential(weighted_mean(difference_N, model.counts_N.tolist(), "nats per token"), "times the base")
