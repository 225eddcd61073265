from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from trimtab.errors import CheckpointError
from trimtab.lowrank.linear import BlockSpec, LowRankLinear


def layer(*ranks: int, bias: bool = True, conv1d: bool = False) -> LowRankLinear:
    torch.manual_seed(0)
    made = LowRankLinear(12, 20, [BlockSpec("factored", rank) for rank in ranks], bias=bias, conv1d=conv1d)
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return made


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("ranks", [(1,), (5,), (3, 4), (1, 2, 3)])
def test_forward_is_the_sum_of_the_blocks_products(ranks: tuple[int, ...], bias: bool) -> None:
    low_rank, x_BTI = layer(*ranks, bias=bias), torch.randn(2, 7, 12)
    w_OI = sum(
        low_rank.state_dict()[f"block{b}_u"].double().T @ low_rank.state_dict()[f"block{b}_v"].double()
        for b in range(len(ranks))
    )
    expected = x_BTI.double() @ w_OI.T + (low_rank.bias.double() if bias else 0)
    torch.testing.assert_close(low_rank(x_BTI).double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(low_rank.dense_weight().double(), w_OI, rtol=1e-5, atol=1e-5)
    assert low_rank.rank == sum(ranks)


def test_a_prefix_of_the_rows_is_the_smaller_rank() -> None:
    large = layer(6, bias=False)
    small = LowRankLinear(12, 20, [BlockSpec("factored", 2)], bias=False)
    for whole, prefix in zip(large.factors(0), small.factors(0), strict=True):
        prefix.data = whole.data[:2]
    torch.testing.assert_close(small.dense_weight(), large.block0_u[:2].T @ large.block0_v[:2])


def test_stores_the_factors_as_rows_of_ranks_and_an_empty_weight() -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in layer(5, 2).state_dict().items()}
    assert shapes == {
        "block0_v": (5, 12),
        "block0_u": (5, 20),
        "block1_v": (2, 12),
        "block1_u": (2, 20),
        "bias": (20,),
        "weight": (0,),
    }


def test_every_parameter_gets_a_gradient_and_the_empty_weight_is_none() -> None:
    low_rank = layer(3, 2)
    low_rank(torch.randn(4, 12)).square().sum().backward()
    assert {name for name, _ in low_rank.named_parameters()} == {
        "block0_v",
        "block0_u",
        "block1_v",
        "block1_u",
        "bias",
    }
    assert all(parameter.grad.abs().sum() > 0 for parameter in low_rank.parameters())


@pytest.mark.parametrize("conv1d", [False, True])
def test_dense_module_computes_the_same_and_is_of_the_old_kind(conv1d: bool) -> None:
    low_rank, x_BI = layer(4, 3, conv1d=conv1d).eval(), torch.randn(6, 12)
    dense = low_rank.dense_module()
    assert type(dense) is (Conv1D if conv1d else nn.Linear)
    assert not dense.training
    torch.testing.assert_close(dense(x_BI), low_rank(x_BI), rtol=1e-4, atol=1e-5)


def test_follows_dtype_and_copies() -> None:
    low_rank = copy.deepcopy(layer(4)).to(torch.bfloat16)
    assert {tensor.dtype for tensor in low_rank.state_dict().values()} == {torch.bfloat16}
    assert low_rank(torch.randn(3, 12, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("form", "rank", "words"),
    [
        ("pivoted", 3, "newer Trimtab"),
        ("dense", 3, "newer Trimtab"),
        ("butterfly", 3, "no Trimtab"),
        ("factored", 0, "rank 0"),
        ("factored", 2.5, "rank 2.5"),
    ],
)
def test_blocks_that_cannot_be_read_are_refused(form: str, rank: int, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        BlockSpec(form, rank)
