"""A linear layer whose matrix is a sum of low-rank blocks.

Shapes: O output features, I input features, R the rank of one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from trimtab.errors import CheckpointError

Form = Literal["factored", "pivoted", "dense"]

RESERVED_FORMS = ("pivoted", "dense")
"""Forms that the checkpoint format has names for, and that this version cannot read yet."""


@dataclass(frozen=True)
class BlockSpec:
    """What one block of a low-rank layer is: the form that it is stored in, and its rank R >= 1.

    Raises:
        CheckpointError: the form is unknown or reserved, or the rank is not a positive whole number.
    """

    form: Form
    rank: int

    def __post_init__(self) -> None:
        if self.form != "factored":
            known = "a newer Trimtab is needed" if self.form in RESERVED_FORMS else "no Trimtab knows it"
            raise CheckpointError(f"a block has the form {self.form!r}, and this version reads 'factored': {known}")
        if not isinstance(self.rank, int) or self.rank < 1:
            raise CheckpointError(f"a block has the rank {self.rank!r}; a rank is a whole number from 1 on")


class LowRankLinear(nn.Module):
    """y = sum over blocks b of u_b^T (v_b x) + bias, in place of a dense y = W x + bias.

    Block b has the parameters `block{b}_v` [R, I] and `block{b}_u` [R, O]: rows are ranks, so the first r rows of
    both are the block at the smaller rank r. `weight` is an empty buffer that is saved on purpose: a loader that
    does not know this layer expects a dense weight there, and fails on its shape instead of making up numbers.

    `conv1d` says that the dense layer this one stands for is a transposed `Conv1D` (GPT-2), not an `nn.Linear`.
    """

    weight: Tensor
    bias: nn.Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        blocks: Sequence[BlockSpec],
        bias: bool,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        *,
        conv1d: bool = False,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.blocks, self.conv1d = tuple(blocks), conv1d
        place = {"dtype": dtype, "device": device}
        for number, block in enumerate(self.blocks):
            for letter, features in (("v", in_features), ("u", out_features)):
                factor = nn.Parameter(torch.empty(block.rank, features, **place))  # type: ignore[arg-type]
                self.register_parameter(f"block{number}_{letter}", factor)
        self.bias = nn.Parameter(torch.empty(out_features, **place)) if bias else None  # type: ignore[arg-type]
        self.register_buffer("weight", torch.empty(0, **place))  # type: ignore[arg-type]

    @property
    def rank(self) -> int:
        """The rank of the whole layer: the sum of its blocks' ranks."""
        return sum(block.rank for block in self.blocks)

    def factors(self, number: int) -> tuple[nn.Parameter, nn.Parameter]:
        """The factors (v_RI, u_RO) of block `number`."""
        return self.get_parameter(f"block{number}_v"), self.get_parameter(f"block{number}_u")

    def forward(self, x_BI: Tensor) -> Tensor:
        """x [..., I] -> y [..., O]."""
        v_RI, u_RO = self.factors(0)
        y_BO = functional.linear(functional.linear(x_BI, v_RI), u_RO.T, self.bias)
        for number in range(1, len(self.blocks)):
            v_RI, u_RO = self.factors(number)
            y_BO = y_BO + functional.linear(functional.linear(x_BI, v_RI), u_RO.T)
        return y_BO

    @torch.no_grad()
    def dense_weight(self) -> Tensor:
        """The product w_OI, in float32."""
        products = (u_RO.float().T @ v_RI.float() for v_RI, u_RO in map(self.factors, range(len(self.blocks))))
        return torch.stack(list(products)).sum(0)

    @torch.no_grad()
    def dense_module(self) -> nn.Linear | Conv1D:
        """The ordinary layer with the same matrix and bias: an `nn.Linear`, or a `Conv1D` where `conv1d` is set."""
        v_RI, _ = self.factors(0)
        w_OI = self.dense_weight().to(v_RI.dtype)
        with torch.device("meta"):
            dense = (
                Conv1D(self.out_features, self.in_features)
                if self.conv1d
                else nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
            )
        dense.weight = nn.Parameter(w_OI.T.contiguous() if self.conv1d else w_OI)
        dense.bias = self.bias  # type: ignore[assignment]
        return dense.train(self.training)

    def extra_repr(self) -> str:
        blocks = ", ".join(f"{block.form} {block.rank}" for block in self.blocks)
        return f"in_features={self.in_features}, out_features={self.out_features}, blocks=[{blocks}]"
