"""Rank maps: for every projection of a model, its rank, or None where it stays dense."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torch import nn

from trimtab.lowrank.linear import LowRankLinear

if TYPE_CHECKING:  # the plug-in needs this file while transformers is still being imported
    from trimtab.models.projections import Projection

RankMap = dict[str, int | None]


def parameters(ranks: RankMap, projections: Iterable[Projection]) -> int:
    """Parameters of all `projections` under `ranks`, without biases: R (O + I) each, or O I where dense.

    A projection that `ranks` does not name counts as dense.
    """
    return sum(projection_parameters(projection, ranks.get(projection.name)) for projection in projections)


def projection_parameters(projection: Projection, rank: int | None) -> int:
    """Parameters of one projection at `rank`, without bias: R (O + I), or O I where `rank` is None (dense)."""
    if rank is None:
        return projection.parameters
    return rank * (projection.out_features + projection.in_features)


def rank_map(model: nn.Module) -> RankMap:
    """The rank of every low-rank layer of `model`; dense projections are not in it."""
    return {name: layer.rank for name, layer in low_rank_layers(model).items()}


def low_rank_layers(model: nn.Module) -> dict[str, LowRankLinear]:
    """The low-rank layers of `model` by module path, in the order of the modules; a shared one is there once."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LowRankLinear)}
