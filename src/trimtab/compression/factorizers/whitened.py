"""Whitening by the input Gram (SVD-LLM): the best approximation of the projection's output on the calibration text."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from trimtab.compression.factorizers import Factors, Knowledge, factorizers
from trimtab.compression.registry import check_range
from trimtab.linalg.whitening import gram_root, low_rank_factors


@dataclass(frozen=True)
class WhitenedOptions:
    """`floor`: eigenvalues of the Gram below this share of the largest are raised to it."""

    floor: float = 1e-8

    def __post_init__(self) -> None:
        check_range("floor", self.floor, 1e-15, 1)


@factorizers.register(
    "whitened",
    options=WhitenedOptions,
    reference="Wang et al., SVD-LLM, ICLR 2025 (eigenvalue form of SVD-LLM V2, NAACL 2025)",
    needs={"input_gram"},
    units={"output"},
)
def factorize(w_OI: Tensor, knowledge: Knowledge, max_rank: int, options: WhitenedOptions) -> Factors:
    """SVD of W C^1/2 with C the input Gram: dropped s^2 is the exact mean squared output error."""
    assert knowledge.input_gram_II is not None
    right = gram_root(knowledge.input_gram_II.to(w_OI), floor=options.floor)
    u_RO, v_RI, energy_K = low_rank_factors(w_OI, left=None, right=right, max_rank=max_rank)
    return Factors(u_RO, v_RI, energy_K, "output")
