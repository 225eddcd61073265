"""How far a model's predictions have moved from the uncompressed model's.

Shapes: N windows, L tokens a window, B windows in a batch, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from trimtab.errors import ModelError
from trimtab.evaluate.forward import check_finite_outputs, check_window_length, measuring, next_token_logits
from trimtab.evaluate.measure import Measure, weighted_mean
from trimtab.evaluate.perplexity import (
    ROWS,
    PerplexityResult,
    perplexity_of,
    perplexity_ratio,
    scored_windows,
    window_loss,
)
from trimtab.models.compute_dtype import fastest_dtype
from trimtab.progress import track
from trimtab.text.windows import Windows


@dataclass(frozen=True)
class Comparison:
    """A model against its base on the same predictions: both perplexities, their paired ratio, and the divergence
    KL(base || model) in nats per token."""

    model: PerplexityResult
    base: PerplexityResult
    ratio: Measure
    kl: Measure


def compare(
    model: PreTrainedModel,
    base: PreTrainedModel,
    windows: Windows,
    *,
    batch_size: int = 4,
    bos_id: int | None = None,
    stride: int | None = None,
) -> Comparison:
    """Perplexities and divergence in one pass: both models run over each batch side by side.

    Only one batch of logits of each model is held. Which predictions are scored, and how the intervals of the
    perplexities and of their ratio are made, is said at `perplexity` and `perplexity_ratio`; the divergence's is
    a Student-t interval over the windows' means, cut off at 0.

    Raises ModelError if the vocabularies differ in size or an output is not finite, OptionError for a window that
    does not fit both models or a stride out of range.
    """
    check_window_length(base, windows.length, bos_id)
    ids_NL, counts = scored_windows(model, windows.ids_NL, bos_id, stride)
    losses: list[float] = []
    base_losses: list[float] = []
    divergences: list[float] = []
    batches = ids_NL.split(batch_size)
    with fastest_dtype(model), fastest_dtype(base), measuring(model, base):
        for ids_BL in track(batches, "perplexity, divergence", len(batches)):
            logits_BLV = next_token_logits(model, ids_BL, bos_id)
            base_BLV = next_token_logits(base, ids_BL, bos_id).to(model.device)
            _check_vocabulary(logits_BLV, base_BLV)
            for logits_LV, base_LV, ids_L in zip(logits_BLV, base_BLV, ids_BL, strict=True):
                number = len(losses)
                losses.append(window_loss(logits_LV, ids_L, counts[number], number))
                base_losses.append(window_loss(base_LV, ids_L, counts[number], number))
                divergences.append(_window_kl(logits_LV, base_LV, counts[number], number))
    ours, theirs = perplexity_of(losses, counts), perplexity_of(base_losses, counts)
    kl = weighted_mean(divergences, counts, "nats per token")
    kl = Measure(max(kl.value, 0.0), max(kl.low, 0.0), max(kl.high, 0.0), kl.count, kl.unit)  # NaN stays NaN
    return Comparison(ours, theirs, perplexity_ratio(ours, theirs), kl)


def kl_to_base(
    model: PreTrainedModel,
    base: PreTrainedModel,
    windows: Windows,
    *,
    batch_size: int = 4,
    bos_id: int | None = None,
) -> Measure:
    """Mean KL(base || model) over the L-1 predictions of each window, in nats per token (fp32, mean in fp64).

    sum_v p_base(v) (log p_base(v) - log p_model(v)): 0 where both predict alike. Unlike perplexity it sees every
    change of the distribution, not only of the token that came next. Interval and errors as in `compare`.
    """
    return compare(model, base, windows, batch_size=batch_size, bos_id=bos_id).kl


def token_kl(logits_LV: Tensor, base_LV: Tensor) -> Tensor:
    """KL(base || model) of each of L predictions, in nats, from the logits of both; fp32, shape [L]."""
    return torch.cat([_rows_kl(*rows) for rows in zip(logits_LV.split(ROWS), base_LV.split(ROWS), strict=True)])


def _rows_kl(logits_RV: Tensor, base_RV: Tensor) -> Tensor:
    logp_RV, base_logp_RV = logits_RV.float().log_softmax(-1), base_RV.float().log_softmax(-1)
    return F.kl_div(logp_RV, base_logp_RV, reduction="none", log_target=True).sum(-1)


def _window_kl(logits_LV: Tensor, base_LV: Tensor, count: int, number: int) -> float:
    kl_L = token_kl(logits_LV, base_LV)
    check_finite_outputs(kl_L, f"window {number + 1} of the text")
    return kl_L[-count:].double().mean().item()


def _check_vocabulary(logits_BLV: Tensor, base_BLV: Tensor) -> None:
    ours, theirs = logits_BLV.shape[-1], base_BLV.shape[-1]
    if ours != theirs:
        raise ModelError(
            f"the model predicts {ours} tokens and the base {theirs}: only models of one vocabulary can be compared"
        )
