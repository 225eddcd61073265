"""The loss-aware allocator: the least predicted loss for the budget, over every rank of every projection, or dense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.compression.allocators import Budget, Candidate, Ranks, allocators, check_feasible, smallest_rank
from trimtab.compression.registry import check_range
from trimtab.errors import OptionError


@dataclass(frozen=True)
class LossAwareOptions:
    """`min_rank`: no projection gets a smaller rank."""

    min_rank: int = 1

    def __post_init__(self) -> None:
        check_range("min_rank", self.min_rank, 1)


@dataclass(frozen=True)
class _Curve:
    """The choices of one projection: cost and predicted loss of each; the last one is dense."""

    ranks: list[int | None]
    cost_C: np.ndarray
    loss_C: np.ndarray


@allocators.register(
    "loss-aware",
    options=LossAwareOptions,
    reference="multiple-choice knapsack, Lagrangian (Everett, 1963); compare LEMS, ICML 2026, and ZS-SVD, 2026",
    needs={"output_gram"},
    units={"output", "loss"},
)
def allocate(candidates: Sequence[Candidate], budget: Budget, options: LossAwareOptions) -> Ranks:
    """Least predicted loss for the budget: for a price each projection takes its best rank, or dense."""
    check_feasible(candidates, budget, options.min_rank)
    curves = [_curve(candidate, budget, options) for candidate in candidates]
    choices = _by_price(curves, budget.parameters)
    _fill(curves, choices, budget.parameters)
    return {
        candidate.name: curve.ranks[choice]
        for candidate, curve, choice in zip(candidates, curves, choices, strict=True)
    }


def _curve(candidate: Candidate, budget: Budget, options: LossAwareOptions) -> _Curve:
    least = smallest_rank(candidate, budget, options.min_rank)
    ranks: list[int | None] = []
    if least is not None:
        ranks.extend(range(least, candidate.max_rank + 1, budget.multiple))
    ranks.append(None)
    energy_K = candidate.energy_K.astype(np.float64) * _loss_per_energy(candidate)
    dropped = np.append(energy_K[::-1].cumsum()[::-1], 0.0)
    loss = [0.0 if rank is None else float(dropped[min(rank, len(energy_K))]) for rank in ranks]
    return _Curve(ranks, np.array([candidate.cost(rank) for rank in ranks], dtype=np.float64), np.array(loss))


def _loss_per_energy(candidate: Candidate) -> float:
    """Nats per token for one unit of dropped energy (half, from the second-order expansion of the loss).

    Output errors are weighted by the mean squared gradient of one output. Weight errors cannot be compared.
    """
    if candidate.units == "loss":
        return 0.5
    if candidate.units == "output":
        assert candidate.gradient_energy is not None
        return 0.5 * candidate.gradient_energy / candidate.out_features
    raise OptionError(
        "the loss-aware allocator needs errors that can be compared across projections: "
        "use it with the factorizer two-sided or whitened"
    )


def _by_price(curves: list[_Curve], parameters: int) -> list[int]:
    """The choices at the smallest price per parameter that meets the budget, by bisection."""

    def at(price: float) -> list[int]:
        return [int(np.argmin(curve.loss_C + price * curve.cost_C)) for curve in curves]

    def total(choices: list[int]) -> float:
        return sum(curve.cost_C[choice] for curve, choice in zip(curves, choices, strict=True))

    low, high = 0.0, 1e-30
    while total(at(high)) > parameters and high < 1e30:
        high *= 16
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (low, middle) if total(at(middle)) <= parameters else (middle, high)
    return at(high)


def _fill(curves: list[_Curve], choices: list[int], parameters: int) -> None:
    """Spend what the price left over: again and again the step that gains most loss per parameter and fits."""
    left = parameters - sum(curve.cost_C[choice] for curve, choice in zip(curves, choices, strict=True))
    while True:
        best, best_choice, best_rate = -1, -1, 0.0
        for index, (curve, choice) in enumerate(zip(curves, choices, strict=True)):
            extra_C = curve.cost_C[choice + 1 :] - curve.cost_C[choice]
            gain_C = curve.loss_C[choice] - curve.loss_C[choice + 1 :]
            rate_C = np.where(extra_C <= left, gain_C / extra_C, 0.0)
            if rate_C.size and rate_C.max() > best_rate:
                best, best_choice, best_rate = index, choice + 1 + int(rate_C.argmax()), float(rate_C.max())
        if best < 0:
            return
        left -= curves[best].cost_C[best_choice] - curves[best].cost_C[choices[best]]
        choices[best] = best_choice
