"""FLRA: ranks in proportion to Fisher importance (FLRC, EMNLP 2025; our re-derivation, see docs/methods/flrc.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.compression.allocators import (
    Budget,
    Candidate,
    Ranks,
    allocators,
    check_feasible,
    smallest_rank,
    spent,
)
from trimtab.compression.registry import check_choice, check_range
from trimtab.compression.statistics import IMPORTANCES
from trimtab.errors import OptionError

_LEAST = 1e-12
"""The smallest share: it keeps the smallest rank until all others are dense, and then takes what they leave."""


@dataclass(frozen=True)
class FlraOptions:
    """How importance becomes rank.

    `power`: rank ~ importance^power; `importance`: one of `statistics.IMPORTANCES`; `per`: "sum" as published, or
    "mean" over the weight's elements; `min_rank`: no projection gets a smaller rank.
    """

    power: float = 1.0
    importance: str = "fisher"
    per: str = "sum"
    min_rank: int = 1

    def __post_init__(self) -> None:
        check_range("power", self.power, 0, 100)
        check_range("min_rank", self.min_rank, 1)
        check_choice("importance", self.importance, IMPORTANCES)
        check_choice("per", self.per, ("sum", "mean"))


@allocators.register(
    "flra", options=FlraOptions, reference="FLRC, EMNLP 2025, arXiv 2510.09332 (re-derived)", needs={"fisher"}
)
def allocate(candidates: Sequence[Candidate], budget: Budget, options: FlraOptions) -> Ranks:
    """Rank in proportion to Fisher importance; dense at break-even; the parameter budget met to within one rank."""
    check_feasible(candidates, budget, options.min_rank)
    weights = _importances(candidates, options)
    low, high = 0.0, _level_where_all_are_dense(candidates, weights, budget)
    for _ in range(200):
        middle = (low + high) / 2
        fits = spent(candidates, _ranks(candidates, weights, middle, budget, options)) <= budget.parameters
        low, high = (middle, high) if fits else (low, middle)
    ranks = _ranks(candidates, weights, low, budget, options)
    return _fill(candidates, ranks, _ranks(candidates, weights, high, budget, options), budget)


def _level_where_all_are_dense(candidates: Sequence[Candidate], weights: list[float], budget: Budget) -> float:
    widest = max(candidate.max_rank for candidate in candidates) + budget.multiple + 1
    return widest / min(weights)


def _fill(candidates: Sequence[Candidate], ranks: Ranks, above: Ranks, budget: Budget) -> Ranks:
    """Take each single step from `ranks` to the map just above it that still fits (equal importances tie)."""
    left = budget.parameters - spent(candidates, ranks)
    for candidate in candidates:
        step = candidate.cost(above[candidate.name]) - candidate.cost(ranks[candidate.name])
        if 0 < step <= left:
            ranks[candidate.name] = above[candidate.name]
            left -= step
    return ranks


def _importances(candidates: Sequence[Candidate], options: FlraOptions) -> list[float]:
    """Importance^power of every projection, relative to the largest; `_LEAST` where it is (nearly) none."""
    values = [candidate.importances[options.importance] for candidate in candidates]
    if options.per == "mean":
        values = [value / candidate.dense for value, candidate in zip(values, candidates, strict=True)]
    largest = max(values)
    if largest <= 0:
        raise OptionError("FLRA needs a gradient: the importance of every projection is zero on this text")
    return [max((value / largest) ** options.power, _LEAST) if value > 0 else _LEAST for value in values]


def _ranks(
    candidates: Sequence[Candidate], weights: list[float], level: float, budget: Budget, options: FlraOptions
) -> Ranks:
    """The rank map at a water level: rank = level * weight, rounded down to a multiple, dense from break-even on."""
    ranks: Ranks = {}
    for candidate, share in zip(candidates, weights, strict=True):
        rank = int(level * share) // budget.multiple * budget.multiple
        least = smallest_rank(candidate, budget, options.min_rank)
        if least is None or rank > candidate.max_rank:
            ranks[candidate.name] = None
        else:
            ranks[candidate.name] = max(rank, least)
    return ranks
