"""ASVD's search: truncate one projection at a time, run the model, and cut first where perplexity rises least.

The model is run before, by `trimtab.compression.sensitivity.measure`; the allocation itself only reads its table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.compression.allocators import Budget, Candidate, Ranks, allocators
from trimtab.compression.registry import check_range
from trimtab.compression.sensitivity import kept_rank
from trimtab.errors import OptionError


@dataclass(frozen=True)
class SensitivityOptions:
    """`ratios`: kept shares at which every projection is tried alone; `windows`: calibration windows for each try."""

    windows: int = 2
    ratios: tuple[float, ...] = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

    def __post_init__(self) -> None:
        check_range("windows", self.windows, 1)
        for ratio in self.ratios:
            check_range("ratios", ratio, 0, 1)


@allocators.register(
    "sensitivity",
    options=SensitivityOptions,
    reference="Yuan et al., ASVD, arXiv 2312.05821 (sensitivity-based truncation rank search)",
    needs={"sensitivity"},
)
def allocate(candidates: Sequence[Candidate], budget: Budget, options: SensitivityOptions) -> Ranks:
    """One threshold of perplexity for the whole model: each projection takes the smallest rank below it."""
    thresholds = sorted({value for candidate in candidates for value in _table(candidate, options).values()})
    low, high = 0, len(thresholds)
    while low < high:
        middle = (low + high) // 2
        ranks = _below(candidates, thresholds[middle], options)
        if sum(candidate.cost(ranks[candidate.name]) for candidate in candidates) <= budget.parameters:
            high = middle
        else:
            low = middle + 1
    if low == len(thresholds):
        raise OptionError(
            f"no rank map can meet a budget of {budget.parameters:,} projection parameters with kept shares "
            f"{', '.join(f'{ratio:g}' for ratio in options.ratios)}: give smaller ones (option ratios)"
        )
    return _below(candidates, thresholds[low], options)


def _table(candidate: Candidate, options: SensitivityOptions) -> dict[float, float]:
    return {ratio: candidate.importances[f"sensitivity {ratio:g}"] for ratio in options.ratios}


def _below(candidates: Sequence[Candidate], threshold: float, options: SensitivityOptions) -> Ranks:
    ranks: Ranks = {}
    for candidate in candidates:
        good = [ratio for ratio, value in _table(candidate, options).items() if value <= threshold]
        rank = kept_rank(candidate.out_features, candidate.in_features, min(good)) if good else None
        ranks[candidate.name] = rank if rank is not None and rank <= candidate.max_rank else None
    return ranks
