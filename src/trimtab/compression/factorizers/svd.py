"""Plain truncated SVD: the best approximation of the weight, blind to its inputs. The baseline."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from trimtab.compression.factorizers import Factors, Knowledge, factorizers
from trimtab.linalg.whitening import low_rank_factors


@dataclass(frozen=True)
class SvdOptions:
    """Plain SVD has no options."""


@factorizers.register("svd", options=SvdOptions, reference="Eckart & Young, Psychometrika 1936", units={"weight"})
def factorize(w_OI: Tensor, knowledge: Knowledge, max_rank: int, options: SvdOptions) -> Factors:
    """Truncated SVD of the weight alone."""
    u_RO, v_RI, energy_K = low_rank_factors(w_OI, left=None, right=None, max_rank=max_rank)
    return Factors(u_RO, v_RI, energy_K, "weight")
