"""Allocators: budgets met, proportions kept, optima found."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.compression.allocators import Budget, Candidate, allocators, spent
from trimtab.compression.statistics import IMPORTANCES
from trimtab.errors import OptionError

SIDES = st.integers(16, 96)


@st.composite
def models(draw: st.DrawFn) -> list[Candidate]:
    """One to twelve projections with falling spectra of very different sizes."""
    number = draw(st.integers(1, 12))
    seed = draw(st.integers(0, 2**31))
    return make(np.random.default_rng(seed), [(draw(SIDES), draw(SIDES)) for _ in range(number)])


def make(random: np.random.Generator, shapes: list[tuple[int, int]]) -> list[Candidate]:
    return [
        Candidate(
            f"p{index}",
            outputs,
            inputs,
            np.sort(random.exponential(size=min(outputs, inputs)))[::-1] ** 4 * 10 ** random.normal(),
            "loss",
            dict.fromkeys(IMPORTANCES, float(10 ** random.normal())),
            1.0,
        )
        for index, (outputs, inputs) in enumerate(shapes)
    ]


def allocate(name: str, candidates: list[Candidate], budget: Budget, **options: object) -> dict[str, int | None]:
    method = allocators.get(name)
    return method.function(candidates, budget, method.options(**options))


@settings(max_examples=150, deadline=None)
@given(models(), st.floats(0.15, 0.97), st.sampled_from(["uniform", "flra", "loss-aware"]), st.sampled_from([1, 1, 4]))
def test_a_budget_is_never_exceeded_and_ranks_are_legal(
    candidates: list[Candidate], kept: float, name: str, multiple: int
) -> None:
    budget = Budget(int(kept * sum(each.dense for each in candidates)), multiple)
    try:
        ranks = allocate(name, candidates, budget)
    except OptionError:
        return
    if name != "uniform" or multiple == 1:
        assert spent(candidates, ranks) <= budget.parameters
    for each in candidates:
        rank = ranks[each.name]
        assert rank is None or (1 <= rank <= each.max_rank and rank % multiple == 0)


@settings(max_examples=150, deadline=None)
@given(models(), st.floats(0.15, 0.97), st.sampled_from(["flra", "loss-aware"]))
def test_a_budget_is_met_to_within_one_step(candidates: list[Candidate], kept: float, name: str) -> None:
    budget = Budget(int(kept * sum(each.dense for each in candidates)))
    ranks = allocate(name, candidates, budget)
    left = budget.parameters - spent(candidates, ranks)
    steps = [each.per_rank for each in candidates if ranks[each.name] is not None and ranks[each.name] < each.max_rank]
    to_dense = [each.dense - each.cost(each.max_rank) for each in candidates if ranks[each.name] == each.max_rank]
    assert left < max(steps + to_dense, default=1)


def test_flra_gives_ranks_in_proportion_to_importance_and_dense_from_break_even_on() -> None:
    candidates = make(np.random.default_rng(3), [(64, 64)] * 6)
    for each, importance in zip(candidates, (1.0, 2.0, 4.0, 8.0, 16.0, 1000.0), strict=True):
        each.importances["fisher"] = importance  # type: ignore[index]
    dense = sum(each.dense for each in candidates)
    ranks = allocate("flra", candidates, Budget(int(0.45 * dense)), power=1.0)
    assert ranks["p5"] is None
    free = [ranks[f"p{index}"] for index in range(5)]
    level = free[3] / 8
    assert free == pytest.approx([level, 2 * level, 4 * level, 8 * level, 16 * level], abs=1.5) or free[4] is None
    equal = allocate("flra", candidates, Budget(int(0.45 * dense)), power=0.0)
    assert max(equal.values()) - min(equal.values()) <= 1


def test_flra_is_monotone_in_the_budget() -> None:
    candidates = make(np.random.default_rng(5), [(64, 48), (32, 64), (96, 96), (48, 48)])
    dense = sum(each.dense for each in candidates)
    costs = [
        spent(candidates, allocate("flra", candidates, Budget(int(kept * dense)))) for kept in np.arange(0.1, 1, 0.05)
    ]
    assert costs == sorted(costs)


@pytest.mark.parametrize("seed", range(8))
def test_loss_aware_is_the_optimum_up_to_the_last_step(seed: int) -> None:
    """Against every map of three small projections."""
    candidates = make(np.random.default_rng(seed), [(16, 17), (18, 16), (16, 20)])
    budget = Budget(int(0.6 * sum(each.dense for each in candidates)))
    choices = [[*range(1, each.max_rank + 1), None] for each in candidates]
    maps = [dict(zip((each.name for each in candidates), some, strict=True)) for some in itertools.product(*choices)]
    best = min(loss(candidates, some) for some in maps if spent(candidates, some) <= budget.parameters)
    found = allocate("loss-aware", candidates, budget)
    bigger = Budget(budget.parameters - max(each.per_rank for each in candidates))
    without_a_step = min(loss(candidates, some) for some in maps if spent(candidates, some) <= bigger.parameters)
    assert best <= loss(candidates, found) <= without_a_step * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(models(), st.floats(0.2, 0.95))
def test_loss_aware_predicts_no_more_loss_than_uniform(candidates: list[Candidate], kept: float) -> None:
    budget = Budget(int(kept * sum(each.dense for each in candidates)))
    uniform, aware = (allocate(name, candidates, budget) for name in ("uniform", "loss-aware"))
    assert loss(candidates, aware) <= loss(candidates, uniform) * (1 + 1e-9) + 1e-15


def loss(candidates: list[Candidate], ranks: dict[str, int | None]) -> float:
    return sum(
        0.5 * float(each.energy_K[ranks[each.name] :].sum()) for each in candidates if ranks[each.name] is not None
    )


def test_loss_aware_refuses_errors_that_cannot_be_compared() -> None:
    each = make(np.random.default_rng(0), [(32, 32)])[0]
    plain = Candidate(each.name, 32, 32, each.energy_K, "weight", {}, None)
    with pytest.raises(OptionError, match="two-sided or whitened"):
        allocate("loss-aware", [plain], Budget(900))


@pytest.mark.parametrize("name", ["uniform", "flra", "loss-aware"])
def test_a_budget_that_no_map_meets_says_what_is_possible(name: str) -> None:
    candidates = make(np.random.default_rng(0), [(64, 64), (32, 64)])
    with pytest.raises(OptionError, match=r"rank 1 everywhere already needs 224; remove at most 0\.9635"):
        allocate(name, candidates, Budget(100))


def test_sensitivity_takes_the_smallest_share_below_one_threshold() -> None:
    shares = (0.4, 0.6, 0.8)
    tables = {"p0": (50.0, 20.0, 11.0), "p1": (12.0, 11.0, 10.5), "p2": (1000.0, 900.0, 800.0)}
    candidates = [
        Candidate(
            each.name,
            64,
            64,
            each.energy_K,
            "output",
            {f"sensitivity {share:g}": value for share, value in zip(shares, tables[each.name], strict=True)},
            None,
        )
        for each in make(np.random.default_rng(0), [(64, 64)] * 3)
    ]
    dense = 3 * 64 * 64
    ranks = allocate("sensitivity", candidates, Budget(int(0.8 * dense)), ratios=shares)
    assert ranks == {"p0": 25, "p1": 19, "p2": None}  # the threshold is 11
    with pytest.raises(OptionError, match="give smaller ones"):
        allocate("sensitivity", candidates, Budget(int(0.2 * dense)), ratios=shares)


@pytest.mark.parametrize(
    ("options", "words"), [({"importance": "fischer"}, "fisher, absolute, gradient"), ({"per": "row"}, "sum or mean")]
)
def test_flra_refuses_unknown_words(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        allocate("flra", make(np.random.default_rng(0), [(64, 64)]), Budget(3000), **options)


def test_flra_without_any_importance_is_refused() -> None:
    each = make(np.random.default_rng(0), [(64, 64)])[0]
    silent = Candidate(each.name, 64, 64, each.energy_K, "output", dict.fromkeys(IMPORTANCES, 0.0), None)
    with pytest.raises(OptionError, match="importance of every projection is zero"):
        allocate("flra", [silent], Budget(3000))
