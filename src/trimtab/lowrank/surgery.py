"""Put low-rank layers into a model, and take them out again.

Shapes: O output features, I input features, R rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from trimtab.errors import CheckpointError
from trimtab.lowrank.linear import BlockSpec, LowRankLinear
from trimtab.lowrank.ranks import low_rank_layers

if TYPE_CHECKING:  # the plug-in needs this file while transformers is still being imported
    from trimtab.models.projections import Projection


@torch.no_grad()
def factorize_in_place(model: nn.Module, projection: Projection, v_RI: Tensor, u_RO: Tensor) -> LowRankLinear:
    """Replace the projection's layer by a low-rank one with the matrix u_RO^T v_RI, and return that layer.

    The factors take the dtype and the device of the old weight; the bias is kept as it is.
    """
    assert v_RI.shape[1] == projection.in_features, (v_RI.shape, projection)
    assert u_RO.shape == (v_RI.shape[0], projection.out_features), (u_RO.shape, v_RI.shape, projection)
    old = model.get_submodule(projection.name)
    new = empty_low_rank(old, [BlockSpec("factored", v_RI.shape[0])])
    for parameter, values in zip(new.factors(0), (v_RI, u_RO), strict=True):
        parameter.copy_(values)
        parameter.requires_grad_(old.get_parameter("weight").requires_grad)
    new.bias = old.bias  # type: ignore[assignment]
    replace_module(model, old, new)
    return new


def empty_low_rank(old: nn.Module, blocks: Sequence[BlockSpec]) -> LowRankLinear:
    """A low-rank layer, not yet filled, for the place of the `nn.Linear` or `Conv1D` `old`.

    Raises:
        CheckpointError: `old` is another kind of module, or a rank is larger than its sides allow.
    """
    if not isinstance(old, nn.Linear | Conv1D):
        raise CheckpointError(f"a {type(old).__name__} cannot be low-rank; only nn.Linear and Conv1D can")
    conv1d = isinstance(old, Conv1D)
    in_features, out_features = old.weight.shape if conv1d else reversed(old.weight.shape)
    if (rank := sum(block.rank for block in blocks)) > min(in_features, out_features):
        raise CheckpointError(f"rank {rank} is larger than a {out_features} x {in_features} matrix allows")
    new = LowRankLinear(
        in_features,
        out_features,
        blocks,
        bias=old.bias is not None,
        dtype=old.weight.dtype,
        device=old.weight.device,
        conv1d=conv1d,
    )
    return new.train(old.training)


def densify_in_place(model: nn.Module) -> None:
    """Replace every low-rank layer by the ordinary layer with the same matrix, in the factors' dtype."""
    for layer in low_rank_layers(model).values():
        replace_module(model, layer, layer.dense_module())


def replace_module(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put `new` wherever `model` has `old`; a module may be in more than one place."""
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if child is old:
                setattr(parent, name, new)
