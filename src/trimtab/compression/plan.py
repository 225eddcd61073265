"""Factorize every projection, choose all ranks, and put the result into the model.

Legend: O output width, I input width, R rank, K = min(O, I).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trimtab.compression.allocators import Budget, Candidate, Ranks, allocators, spent
from trimtab.compression.factorizers import factorizers
from trimtab.compression.methods import Recipe
from trimtab.compression.statistics import Statistics
from trimtab.compression.store import Store, spectrum
from trimtab.errors import ModelError, OptionError
from trimtab.lowrank.ranks import parameters
from trimtab.lowrank.surgery import factorize_in_place
from trimtab.models.projections import Projection, weight
from trimtab.progress import track


@dataclass(frozen=True)
class Plan:
    """A rank for every projection (None: dense), and what it is expected to cost.

    `predicted[name]` is the share of the projection's mean squared output, on the calibration text, that is lost
    (None where the inputs were not measured). `predicted_nats` is the predicted rise of the loss in nats per
    token, where the factorizer measures in units of the loss.
    """

    projections: tuple[Projection, ...]
    ranks: Ranks
    budget: Budget
    predicted: dict[str, float | None]
    predicted_nats: float | None

    @property
    def parameters(self) -> int:
        """Parameters of all projections under this plan."""
        return parameters(self.ranks, self.projections)

    @property
    def removed(self) -> float:
        """The realised share of projection parameters removed."""
        return 1 - self.parameters / sum(projection.parameters for projection in self.projections)


def factorize_all(
    model: nn.Module, projections: Sequence[Projection], statistics: Statistics, recipe: Recipe, store: Store
) -> None:
    """Factorize every projection that the store does not hold yet. Ranks above break-even are not kept.

    Raises:
        ModelError: a weight is not finite.
    """
    method = factorizers.get(recipe.factorizer)
    left = [projection for projection in projections if projection.name not in store]
    for projection in track(left, "Factors", len(left)):
        w_OI = weight(model, projection).detach().float().cpu()
        if not torch.isfinite(w_OI).all():
            raise ModelError(f"{projection.name}.weight holds NaN or infinite values")
        knowledge = statistics.of(projection.name)
        store[projection.name] = method.function(w_OI, knowledge, _max_rank(projection), recipe.factorizer_options)


def make_plan(
    model: nn.Module,
    projections: Sequence[Projection],
    statistics: Statistics,
    recipe: Recipe,
    store: Store,
    budget: Budget,
    sensitivity: Mapping[str, Mapping[str, float]] | None = None,
) -> Plan:
    """Choose all ranks for a budget (seconds; the model is not run).

    Args:
        sensitivity: projection -> {"sensitivity 0.4": perplexity, ...}, for the allocator that needs it.

    Raises:
        OptionError: the budget cannot be met.
    """
    candidates = [
        _candidate(projection, statistics, store, (sensitivity or {}).get(projection.name, {}))
        for projection in projections
    ]
    ranks = allocators.get(recipe.allocator).function(candidates, budget, recipe.allocator_options)
    if spent(candidates, ranks) > budget.parameters:
        raise OptionError(
            f"allocator {recipe.allocator} cannot meet a budget of {budget.parameters:,} projection parameters "
            f"(it needs {spent(candidates, ranks):,})"
        )
    predicted = {p.name: _predicted(model, p, ranks[p.name], statistics, store) for p in projections}
    return Plan(tuple(projections), ranks, budget, predicted, _nats(candidates, ranks))


@torch.no_grad()
def apply_plan(model: nn.Module, plan: Plan, store: Store) -> None:
    """Replace every projection that has a rank by its low-rank layer, in place."""
    chosen = [projection for projection in plan.projections if plan.ranks[projection.name] is not None]
    for projection in track(chosen, "Low-rank layers", len(chosen)):
        rank, factors = plan.ranks[projection.name], store[projection.name]
        factorize_in_place(model, projection, factors.v_RI[:rank], factors.u_RO[:rank])


def _candidate(
    projection: Projection, statistics: Statistics, store: Store, sensitivity: Mapping[str, float]
) -> Candidate:
    energy_K, units = spectrum(store, projection.name)
    importances = {kind: table[projection.name] for kind, table in statistics.importances.items()}
    return Candidate(
        projection.name,
        projection.out_features,
        projection.in_features,
        energy_K.double().cpu().numpy(),
        units,
        {**importances, **sensitivity},
        statistics.gradient_energies.get(projection.name),
    )


def _predicted(
    model: nn.Module, projection: Projection, rank: int | None, statistics: Statistics, store: Store
) -> float | None:
    gram_II = statistics.of(projection.name).input_gram_II
    if rank is None:
        return 0.0
    if gram_II is None:
        return None
    factors = store[projection.name]
    w_OI = weight(model, projection).detach().float().cpu()
    return relative_output_error(w_OI, factors.u_RO[:rank].T @ factors.v_RI[:rank], gram_II)


def relative_output_error(w_OI: Tensor, approximation_OI: Tensor, gram_II: Tensor) -> float:
    """Return E|W x - A x|^2 / E|W x|^2 for inputs with second moment `gram_II` (0 where the outputs are all zero)."""
    difference_OI = w_OI - approximation_OI
    lost = (difference_OI @ gram_II * difference_OI).sum().item()
    whole = (w_OI @ gram_II * w_OI).sum().item()
    return lost / whole if whole > 0 else 0.0


def _nats(candidates: Sequence[Candidate], ranks: Ranks) -> float | None:
    if any(candidate.units != "loss" for candidate in candidates):
        return None
    dropped = ((candidate.energy_K, ranks[candidate.name]) for candidate in candidates)
    return 0.5 * float(sum(energy_K[rank:].sum() for energy_K, rank in dropped if rank is not None))


def _max_rank(projection: Projection) -> int:
    """The largest rank with fewer parameters than the dense weight; at least one, so that factors exist."""
    return max((projection.parameters - 1) // (projection.out_features + projection.in_features), 1)
