"""ASVD: the weight's columns are scaled by the size of their inputs before the SVD, and scaled back after it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trimtab.compression.factorizers import Factors, Knowledge, factorizers
from trimtab.compression.registry import check_range
from trimtab.linalg.whitening import Root, low_rank_factors


@dataclass(frozen=True)
class AsvdOptions:
    """`alpha`: exponent of the mean |x| of each input channel (0.5 in the paper); `floor`: smallest scale, relative."""

    alpha: float = 0.5
    floor: float = 1e-6

    def __post_init__(self) -> None:
        check_range("alpha", self.alpha, 0, 10)
        check_range("floor", self.floor, 1e-15, 1)


@factorizers.register(
    "asvd",
    options=AsvdOptions,
    reference="Yuan et al., ASVD, arXiv 2312.05821",
    needs={"input_gram"},
    units={"weight"},
)
def factorize(w_OI: Tensor, knowledge: Knowledge, max_rank: int, options: AsvdOptions) -> Factors:
    """SVD of W S with S = diag(mean|x|^alpha); the second factor takes S^-1."""
    assert knowledge.input_mean_I is not None
    mean_I = knowledge.input_mean_I.to(w_OI)
    largest = mean_I.max()
    scale_I = torch.ones_like(mean_I) if largest == 0 else (mean_I / largest).clamp_min(options.floor) ** options.alpha
    right = Root(torch.diag(scale_I), torch.diag(1 / scale_I))
    u_RO, v_RI, energy_K = low_rank_factors(w_OI, left=None, right=right, max_rank=max_rank)
    return Factors(u_RO, v_RI, energy_K, "weight")
