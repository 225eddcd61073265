"""The same share removed from every projection: the convention of SVD-LLM, and the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.compression.allocators import Budget, Candidate, Ranks, allocators, check_feasible


@dataclass(frozen=True)
class UniformOptions:
    """`min_rank`: no projection gets a smaller rank."""

    min_rank: int = 1


@allocators.register("uniform", options=UniformOptions, reference="Wang et al., SVD-LLM, ICLR 2025")
def allocate(candidates: Sequence[Candidate], budget: Budget, options: UniformOptions) -> Ranks:
    """Rank = kept share * O * I / (O + I) for every projection, rounded down."""
    check_feasible(candidates, budget, options.min_rank)
    kept = budget.parameters / sum(candidate.dense for candidate in candidates)
    return {candidate.name: _rank(candidate, kept, budget, options.min_rank) for candidate in candidates}


def _rank(candidate: Candidate, kept: float, budget: Budget, min_rank: int) -> int | None:
    if kept >= 1:
        return None
    rank = int(kept * candidate.dense / candidate.per_rank)
    rank = max(rank // budget.multiple * budget.multiple, min_rank)
    return rank if rank <= candidate.max_rank else None
