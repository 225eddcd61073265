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
    if name != "uniform":  # it is a convention; `make_plan` refuses it where the smallest ranks need more
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
    ("options", "words"), [({"importance": "fischer"}, "fisher, absolute, gradient"), ({"per": "row"}, "sum, mean")]
)
def test_flra_refuses_unknown_words(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        allocate("flra", make(np.random.default_rng(0), [(64, 64)]), Budget(3000), **options)


def test_flra_without_any_importance_is_refused() -> None:
    each = make(np.random.default_rng(0), [(64, 64)])[0]
    silent = Candidate(each.name, 64, 64, each.energy_K, "output", dict.fromkeys(IMPORTANCES, 0.0), None)
    with pytest.raises(OptionError, match="importance of every projection is zero"):
        allocate("flra", [silent], Budget(3000))


@settings(max_examples=150, deadline=None)
@given(models(), st.floats(0.15, 0.97), st.sampled_from([1, 4]))
def test_uniform_is_the_same_share_everywhere_rounded_down_and_legal(
    candidates: list[Candidate], kept: float, multiple: int
) -> None:
    budget = Budget(int(kept * sum(each.dense for each in candidates)), multiple)
    try:
        ranks = allocate("uniform", candidates, budget)
    except OptionError:
        return
    share = budget.parameters / sum(each.dense for each in candidates)
    for each in candidates:
        rank, exact = ranks[each.name], share * each.dense / each.per_rank
        if rank is None:
            assert exact > each.max_rank or multiple > each.max_rank
        else:
            assert rank == max(int(exact) // multiple * multiple, multiple)


def levels(candidates: list[Candidate], parameters: int, power: float) -> dict[str, float | None]:
    """FLRA by its definition, in real numbers: share out; what reaches break-even is dense; share out the rest."""
    dense: set[str] = set()
    while True:
        free = [each for each in candidates if each.name not in dense]
        left = parameters - sum(each.dense for each in candidates if each.name in dense)
        weights = {each.name: each.importances["fisher"] ** power for each in free}
        level = left / sum(weights[each.name] * each.per_rank for each in free)
        over = {each.name for each in free if level * weights[each.name] >= each.dense / each.per_rank}
        if not over:
            return {each.name: level * weights[each.name] if each in free else None for each in candidates}
        dense |= over


@settings(max_examples=100, deadline=None)
@given(models(), st.floats(0.2, 0.9), st.sampled_from([0.25, 0.5, 1.0]))
def test_flra_is_its_definition_up_to_rounding(candidates: list[Candidate], kept: float, power: float) -> None:
    budget = Budget(int(kept * sum(each.dense for each in candidates)))
    expected = levels(candidates, budget.parameters, power)
    if any(rank is not None and rank < 1 for rank in expected.values()):
        return  # where the smallest rank takes part, the definition in real numbers is silent
    found = allocate("flra", candidates, budget, power=power)
    spare = 2 * sum(each.per_rank for each in candidates)  # what rounding of ranks and of break-even can move
    for each in candidates:
        rank, ours = expected[each.name], found[each.name]
        if rank is None:
            assert ours is None or ours == each.max_rank
        elif ours is None:
            assert each.dense - rank * each.per_rank <= spare
        else:
            assert rank * (1 - spare / budget.parameters) - 2 < ours < rank + spare / each.per_rank + 2


def test_flra_gives_what_all_others_leave_to_projections_without_importance() -> None:
    candidates = make(np.random.default_rng(0), [(64, 64)] * 3)
    for each, importance in zip(candidates, (1.0, 0.0, 1e-300), strict=True):
        each.importances["fisher"] = importance  # type: ignore[index]
    low, high = (allocate("flra", candidates, Budget(parameters)) for parameters in (2000, 3 * 4096 - 3000))
    assert (low["p1"], low["p2"]) == (1, 1)
    assert high["p0"] is None
    assert high["p1"] == pytest.approx(high["p2"], abs=1)
    assert 3 * 4096 - 3000 - spent(candidates, high) < 128


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 20.0])
@pytest.mark.parametrize("importances", [(1e300, 1.0, 1e-300), (5e-324, 5e-324, 0.0), (1.0, 1.0, 1.0)])
def test_flra_meets_budgets_at_any_size_of_importance(importances: tuple[float, ...], power: float) -> None:
    candidates = make(np.random.default_rng(0), [(64, 64), (32, 64), (64, 48)])
    for each, importance in zip(candidates, importances, strict=True):
        each.importances["fisher"] = importance  # type: ignore[index]
    for kept in (0.1, 0.5, 0.9):
        budget = Budget(int(kept * sum(each.dense for each in candidates)))
        left = budget.parameters - spent(candidates, allocate("flra", candidates, budget, power=power))
        assert 0 <= left < 128


@pytest.mark.parametrize("name", ["uniform", "flra", "loss-aware"])
@settings(max_examples=50, deadline=None)
@given(candidates=models(), shares=st.tuples(st.floats(0.2, 0.95), st.floats(0.2, 0.95)))
def test_a_larger_budget_never_predicts_more_loss(
    name: str, candidates: list[Candidate], shares: tuple[float, float]
) -> None:
    """Up to one step, since a budget that grows may take one large step in the place of several small ones."""
    dense = sum(each.dense for each in candidates)
    step = max(each.per_rank for each in candidates)
    small, large = sorted(int(share * dense) for share in shares)
    if large - small > step * len(candidates):
        losses = [loss(candidates, allocate(name, candidates, Budget(budget))) for budget in (small, large)]
        assert losses[1] <= losses[0] * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kept", [0.15, 0.5, 0.8, 0.95])
def test_loss_aware_loses_no_more_than_taking_the_best_components_one_by_one(seed: int, kept: float) -> None:
    """The greedy definition: all components by energy per parameter, the best first, until the budget is full.

    With as many projections as real models have; with two or three, the last step of either decides.
    """
    random = np.random.default_rng(seed)
    candidates = make(random, [(int(outputs), int(inputs)) for outputs, inputs in random.integers(16, 97, (60, 2))])
    budget = Budget(int(kept * sum(each.dense for each in candidates)))
    ranks: dict[str, int | None] = {each.name: 1 for each in candidates}
    left = budget.parameters - spent(candidates, ranks)
    order = sorted(
        (-energy / each.per_rank, each.name, index, each.per_rank)
        for each in candidates
        for index, energy in enumerate(each.energy_K[1 : each.max_rank], 1)
    )
    for _, name, index, cost in order:
        if ranks[name] == index and cost <= left:
            ranks[name] = index + 1
            left -= cost
    assert loss(candidates, allocate("loss-aware", candidates, budget)) <= loss(candidates, ranks) * (1 + 1e-9)
