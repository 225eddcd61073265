"""Intervals, against scipy and against their formulas."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trimtab.evaluate.measure import Measure, bootstrap_mean, exponential, proportion, weighted_mean

finite = st.floats(-1e3, 1e3)


@given(st.integers(1, 400).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count))))
def test_a_share_has_wilsons_interval(hits_of: tuple[int, int]) -> None:
    hits, count = hits_of
    found = proportion(hits, count)
    expected = stats.binomtest(hits, count).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= found.low <= found.value <= found.high + 1e-15 <= 1 + 1e-15
    assert found.value == hits / count
    assert found.count == count


@given(st.lists(finite, min_size=2, max_size=30))
def test_equal_weights_give_the_textbook_interval(values: list[float]) -> None:
    found = weighted_mean(values, [7] * len(values), "x")
    mean, error = np.mean(values), stats.sem(values)
    reach = stats.t.ppf(0.975, len(values) - 1) * error
    assert (found.value, found.low, found.high) == pytest.approx((mean, mean - reach, mean + reach), abs=1e-6)


def test_weights_count_observations() -> None:
    values, weights = [1.0, 2.0, 4.0], [5, 3, 2]
    found = weighted_mean(values, weights, "x")
    mean = (5 * 1 + 3 * 2 + 2 * 4) / 10
    assert found.value == pytest.approx(mean)
    square = 3 / 2 * sum((w / 10) ** 2 * (x - mean) ** 2 for w, x in zip(weights, values, strict=True))
    reach = stats.t.ppf(0.975, 2) * math.sqrt(square)
    assert (found.low, found.high) == pytest.approx((mean - reach, mean + reach))
    assert found.count == 3


def test_the_weighted_interval_covers_the_truth_about_95_times_in_100() -> None:
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        weights = random.integers(20, 60, 12)
        values = random.normal(3.0, 1 / np.sqrt(weights))
        found = weighted_mean(values.tolist(), weights.tolist(), "x")
        covered += found.low <= 3.0 <= found.high
    assert 925 <= covered <= 975


def test_the_bootstrap_is_percentiles_of_resampled_means() -> None:
    values = np.random.default_rng(3).beta(2, 5, 40)
    found = bootstrap_mean(values.tolist(), "F1")
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.005)
    assert found.value == pytest.approx(values.mean())
    assert found == bootstrap_mean(values.tolist(), "F1")  # the same values, the same interval


def test_equal_values_give_an_interval_of_no_width() -> None:
    for found in (bootstrap_mean([2.0] * 5, "x"), weighted_mean([2.0] * 5, [1, 2, 3, 4, 5], "x")):
        assert (found.low, found.value, found.high) == pytest.approx((2.0, 2.0, 2.0))


@pytest.mark.parametrize(
    "found", [weighted_mean([2.0], [9], "x"), bootstrap_mean([2.0], "x")], ids=["weighted", "bootstrap"]
)
def test_one_item_has_a_value_and_no_interval(found: Measure) -> None:
    assert found.value == 2.0
    assert found.count == 1
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_no_items_have_no_value() -> None:
    for found in (proportion(0, 0), bootstrap_mean([], "x")):
        assert found.count == 0
        assert all(math.isnan(part) for part in (found.value, found.low, found.high))


def test_the_exponential_carries_the_interval() -> None:
    found = exponential(Measure(1.0, 0.5, 2.0, 4, "nats"), "perplexity")
    assert dataclasses.astuple(found) == pytest.approx((math.e, math.exp(0.5), math.exp(2.0), 4, "perplexity"))
    assert exponential(Measure(1e4, 1.0, 1e5, 4, "nats"), "perplexity").value == math.inf
