"""The same share removed from every projection: the convention of SVD-LLM, and the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.compression.allocators import Budget, Candidate, Ranks, allocators, check_feasible, smallest_rank
from trimtab.compression.registry import check_range


@dataclass(frozen=True)
class UniformOptions:
    """`min_rank`: no projection gets a smaller rank."""

    min_rank: int = 1

    def __post_init__(self) -> None:
        check_range("min_rank", self.min_rank, 1)


@allocators.register("uniform", options=UniformOptions, reference="Wang et al., SVD-LLM, ICLR 2025")
def allocate(candidates: Sequence[Candidate], budget: Budget, options: UniformOptions) -> Ranks:
    """Rank = kept share * O * I / (O + I) for every projection, rounded down."""
    check_feasible(candidates, budget, options.min_rank)
    kept = budget.parameters / sum(candidate.dense for candidate in candidates)
    return {candidate.name: _rank(candidate, kept, budget, options.min_rank) for candidate in candidates}


def _rank(candidate: Candidate, kept: float, budget: Budget, min_rank: int) -> int | None:
    if kept >= 1:
        return None
    least = smallest_rank(candidate, budget, min_rank)
    rank = int(kept * candidate.dense / candidate.per_rank) // budget.multiple * budget.multiple
    return None if least is None or rank > candidate.max_rank else max(rank, least)
