"""ASVD's measurement: truncate one projection at a time to several ranks and run the model each time.

This is the slow rank search that FLRA replaces: (projections x ratios) runs of the model.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from trimtab.compression.store import Store
from trimtab.models.projections import Projection, set_weight, weight
from trimtab.progress import track
from trimtab.text.windows import Windows

Table = dict[str, dict[str, float]]
"""Projection -> {"sensitivity 0.4": perplexity with only this projection at this kept share, ...}."""


@torch.no_grad()
def measure(
    model: nn.Module,
    projections: Sequence[Projection],
    store: Store,
    windows: Windows,
    ratios: Sequence[float],
    path: Path | None = None,
) -> Table:
    """Return the perplexity for every projection truncated alone to every kept share.

    Args:
        windows: ids_NL; perplexity over the L - 1 predictions of each window.
        ratios: kept shares of the projection's parameters.
        path: a JSON file that is updated after each projection, and continued if it exists.

    The model is given back as it was, also after an error.
    """
    table: Table = json.loads(path.read_text()) if path and path.exists() else {}
    left = [projection for projection in projections if projection.name not in table]
    for projection in track(left, "Sensitivity", len(left)):
        table[projection.name] = _measure_one(model, projection, store, windows, ratios)
        if path:
            partial = path.with_suffix(".part")
            partial.write_text(json.dumps(table))
            os.replace(partial, path)
    return table


def _measure_one(
    model: nn.Module, projection: Projection, store: Store, windows: Windows, ratios: Sequence[float]
) -> dict[str, float]:
    original_OI = weight(model, projection).detach().clone()
    factors = store[projection.name]
    found = {}
    try:
        for ratio in ratios:
            rank = kept_rank(projection.out_features, projection.in_features, ratio)
            set_weight(model, projection, factors.u_RO[:rank].T @ factors.v_RI[:rank])
            found[f"sensitivity {ratio:g}"] = _perplexity(model, windows.ids_NL)
    finally:
        set_weight(model, projection, original_OI)
    return found


def kept_rank(out_features: int, in_features: int, ratio: float) -> int:
    """The rank that keeps a share `ratio` of the parameters of a projection, at least one."""
    return max(int(ratio * out_features * in_features / (out_features + in_features)), 1)


def _perplexity(model: nn.Module, ids_NL: Tensor) -> float:
    device = next(model.parameters()).device
    total = 0.0
    for ids_L in ids_NL.to(device):
        logits_LV = model(input_ids=ids_L[None], use_cache=False).logits[0, :-1].float()
        total += nn.functional.cross_entropy(logits_LV, ids_L[1:]).item()
    mean = total / len(ids_NL)
    return math.exp(mean) if math.isfinite(mean) and mean < 700 else math.inf
