"""Allocators: the spectra of all projections and a budget in, a rank for every projection out. One file each.

An allocator never runs the model; what it needs to know was measured before (`needs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.compression.registry import Registry
from trimtab.errors import OptionError

Ranks = dict[str, int | None]
"""Projection name -> rank, or None where the projection stays dense."""


@dataclass(frozen=True)
class Candidate:
    """One projection as an allocator sees it.

    `energy_K` holds the squared singular values, descending, in units that the caller made comparable across
    projections (`units` == "loss") or not. `importances` maps the kinds of `statistics.IMPORTANCES` to numbers.
    """

    name: str
    out_features: int
    in_features: int
    energy_K: np.ndarray
    units: str
    importances: Mapping[str, float]
    gradient_energy: float | None

    @property
    def dense(self) -> int:
        """Parameters when left dense."""
        return self.out_features * self.in_features

    @property
    def per_rank(self) -> int:
        """Parameters of one rank."""
        return self.out_features + self.in_features

    @property
    def max_rank(self) -> int:
        """The largest rank that has fewer parameters than the dense weight (0: none has)."""
        return (self.dense - 1) // self.per_rank

    def cost(self, rank: int | None) -> int:
        """Parameters at a rank (None: dense)."""
        return self.dense if rank is None else rank * self.per_rank


@dataclass(frozen=True)
class Budget:
    """`parameters`: the most that all projections together may have; ranks are multiples of `multiple`."""

    parameters: int
    multiple: int = 1


Allocate = Callable[[Sequence[Candidate], Budget, Any], Ranks]

allocators: Registry[Allocate] = Registry(
    "allocator",
    tuple(f"trimtab.compression.allocators.{name}" for name in ("uniform", "flra", "loss_aware", "sensitivity")),
    "trimtab.allocators",
)


def spent(candidates: Sequence[Candidate], ranks: Ranks) -> int:
    """Parameters of a rank map."""
    return sum(candidate.cost(ranks[candidate.name]) for candidate in candidates)


def smallest_rank(candidate: Candidate, budget: Budget, min_rank: int) -> int | None:
    """The smallest rank allowed: `min_rank` rounded up to a multiple, or dense where that saves nothing."""
    rank = -(-min_rank // budget.multiple) * budget.multiple
    return rank if rank <= candidate.max_rank else None


def check_feasible(candidates: Sequence[Candidate], budget: Budget, min_rank: int) -> None:
    """Raise OptionError when even the smallest ranks do not meet the budget."""
    least = sum(candidate.cost(smallest_rank(candidate, budget, min_rank)) for candidate in candidates)
    if least > budget.parameters:
        dense = sum(candidate.dense for candidate in candidates)
        raise OptionError(
            f"no rank map can meet a budget of {budget.parameters:,} projection parameters: rank {min_rank} everywhere "
            f"already needs {least:,}; remove at most {1 - least / dense:.4f}"
        )
