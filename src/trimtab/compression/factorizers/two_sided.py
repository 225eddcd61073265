"""Two-sided whitening: inputs weighted by how often they occur, outputs by how much the loss depends on them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from trimtab.compression.factorizers import Factors, Knowledge, factorizers
from trimtab.compression.registry import check_range
from trimtab.linalg.whitening import damp, gram_root, low_rank_factors


@dataclass(frozen=True)
class TwoSidedOptions:
    """`damping`: share by which the output-gradient Gram is shrunk to its mean; `floor`: as in `whitened`."""

    damping: float = 0.1
    floor: float = 1e-8

    def __post_init__(self) -> None:
        check_range("damping", self.damping, 0, 1)
        check_range("floor", self.floor, 1e-15, 1)


@factorizers.register(
    "two-sided",
    options=TwoSidedOptions,
    reference="Kronecker-factored Fisher metric (Martens & Grosse, 2015), as used for low rank by LEMS, ICML 2026",
    needs={"input_gram", "output_gram"},
    units={"loss"},
)
def factorize(w_OI: Tensor, knowledge: Knowledge, max_rank: int, options: TwoSidedOptions) -> Factors:
    """SVD of G^1/2 W C^1/2: half the dropped s^2 is the predicted loss increase in nats per token."""
    assert knowledge.input_gram_II is not None
    assert knowledge.output_gram_OO is not None
    right = gram_root(knowledge.input_gram_II.to(w_OI), floor=options.floor)
    left = gram_root(damp(knowledge.output_gram_OO.to(w_OI), options.damping), floor=options.floor)
    u_RO, v_RI, energy_K = low_rank_factors(w_OI, left=left, right=right, max_rank=max_rank)
    return Factors(u_RO, v_RI, energy_K, "loss")
