"""What each compressed projection does to its output, seen in the saved weights, on text it was not made from.

Shapes: L tokens in a window, I input features, O output features.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trimtab.evaluate.forward import measuring
from trimtab.progress import track


def projection_errors(
    model: PreTrainedModel, base: PreTrainedModel, names: Sequence[str], ids_NL: Tensor
) -> dict[str, float]:
    """The share of each projection's output energy that is lost, E|y - y'|^2 / E|y|^2, without the bias.

    Both layers called NAME, that of `base` (giving y) and that of `model` (y'), are given the same input: the one
    that `base` meets while it reads the windows. 0 where no token reaches a projection.
    """
    lost, whole = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    with measuring(model, base), ExitStack() as undo:
        for name in names:
            hook = _hook(model.get_submodule(name), name, lost, whole)
            undo.callback(base.get_submodule(name).register_forward_hook(hook).remove)
        for ids_L in track(ids_NL, "projection outputs", len(ids_NL)):
            base(input_ids=ids_L[None].to(base.device), use_cache=False, logits_to_keep=1)
    return {name: lost[name] / whole[name] if whole[name] > 0 else 0.0 for name in names}


def _hook(ours: nn.Module, name: str, lost: dict[str, float], whole: dict[str, float]) -> Any:
    def hook(theirs: nn.Module, inputs: tuple[Tensor, ...], y: Tensor) -> None:
        lost[name] += _energy(y.float() - ours(inputs[0]).float())
        bias = getattr(theirs, "bias", None)
        whole[name] += _energy(y.float() if bias is None else y.float() - bias.float())

    return hook


def _energy(y: Tensor) -> float:
    return torch.linalg.vector_norm(y, dtype=torch.float32).item() ** 2
