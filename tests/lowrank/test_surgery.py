from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.lowrank.conftest import logits, make_low_rank, mixed_ranks, svd_factors
from tests.tiny import ARCHITECTURES, tiny
from trimtab.errors import CheckpointError
from trimtab.lowrank.linear import BlockSpec, LowRankLinear
from trimtab.lowrank.ranks import low_rank_layers, parameters, rank_map
from trimtab.lowrank.surgery import densify_in_place, empty_low_rank, factorize_in_place
from trimtab.models.projections import Projection, find_projections


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_full_rank_changes_nothing_and_densify_gives_the_old_modules_back(arch: str) -> None:
    model, _ = tiny(arch)
    before, kinds = logits(model), {name: type(module) for name, module in model.named_modules()}
    make_low_rank(model, lambda each: min(each.out_features, each.in_features))
    assert len(low_rank_layers(model)) == len(rank_map(model)) > 0
    torch.testing.assert_close(logits(model), before, rtol=1e-4, atol=1e-4)
    densify_in_place(model)
    assert {name: type(module) for name, module in model.named_modules()} == kinds
    torch.testing.assert_close(logits(model), before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arch", ["llama", "gpt2", "opt", "phi3"])
def test_parameters_of_a_rank_map_are_those_of_the_model(arch: str) -> None:
    model, _ = tiny(arch)
    projections = find_projections(model)
    before = sum(parameter.numel() for parameter in model.parameters())
    assert parameters({}, projections) == sum(each.parameters for each in projections)
    ranks = make_low_rank(model, mixed_ranks)
    assert None in ranks.values()
    after = sum(parameter.numel() for parameter in model.parameters())
    assert before - after == parameters({}, projections) - parameters(ranks, projections)
    assert rank_map(model) == {name: rank for name, rank in ranks.items() if rank is not None}


def test_keeps_dtype_bias_mode_and_whether_it_is_trained() -> None:
    model, _ = tiny("opt", dtype=torch.bfloat16)
    model.train()
    projection = find_projections(model)[0]
    old = model.get_submodule(projection.name)
    old.weight.requires_grad_(False)
    new = factorize_in_place(model, projection, *svd_factors(old.weight, 3))
    assert model.get_submodule(projection.name) is new
    assert new.bias is old.bias
    assert new.training
    assert new.block0_v.dtype == new.block0_u.dtype == torch.bfloat16
    assert not new.block0_v.requires_grad
    assert not new.block0_u.requires_grad


def test_a_module_in_two_places_is_replaced_in_both() -> None:
    shared = nn.Linear(20, 30)
    model = nn.ModuleDict({"a": nn.ModuleList([shared]), "b": nn.ModuleList([shared])})
    new = factorize_in_place(model, Projection("a.0", 30, 20, True, False), *svd_factors(shared.weight, 4))
    assert model["a"][0] is new
    assert model["b"][0] is new


def test_only_matrices_can_be_low_rank_and_only_to_their_smaller_side() -> None:
    with pytest.raises(CheckpointError, match="Embedding cannot be low-rank"):
        empty_low_rank(nn.Embedding(8, 8), [BlockSpec("factored", 2)])
    with pytest.raises(CheckpointError, match="rank 21 is larger than a 30 x 20"):
        empty_low_rank(nn.Linear(20, 30), [BlockSpec("factored", 11), BlockSpec("factored", 10)])
    assert isinstance(empty_low_rank(nn.Linear(20, 30), [BlockSpec("factored", 20)]), LowRankLinear)
