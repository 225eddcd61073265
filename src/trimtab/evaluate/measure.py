"""A number that was measured, with its count and a 95 % interval, and the three ways an interval is made here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


@dataclass(frozen=True)
class Measure:
    """One measured number.

    `low` and `high` bound the 95 % interval; both are NaN where `count` is too small for one (a single item).
    `count` is the number of independent items behind it (windows, questions, outputs), `unit` what it is in.
    """

    value: float
    low: float
    high: float
    count: int
    unit: str


def weighted_mean(values: Sequence[float], weights: Sequence[int], unit: str) -> Measure:
    """Mean of item means, each weighted by how many observations it holds; Student-t interval over the items.

    With w_i the normalised weights and m the weighted mean, the squared standard error is
    N / (N - 1) * sum w_i^2 (x_i - m)^2, the ratio estimator (Cochran, Sampling Techniques, section 6.4); for
    equal weights it is the usual s^2 / N. Items count as independent: neighbouring windows of one document
    are slightly correlated, which makes the interval a little too narrow.
    """
    from scipy.special import stdtrit

    x, w = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    w = w / w.sum()
    mean, count = float(w @ x), len(x)
    if count < 2:
        return Measure(mean, math.nan, math.nan, count, unit)
    error = math.sqrt(count / (count - 1) * float((w**2) @ (x - mean) ** 2))
    reach = float(stdtrit(count - 1, 0.975)) * error
    return Measure(mean, mean - reach, mean + reach, count, unit)


def bootstrap_mean(values: Sequence[float], unit: str, *, resamples: int = 2000, seed: int = 0) -> Measure:
    """Mean over items; percentile bootstrap interval (Efron 1979): `resamples` draws of N items with replacement.

    No shape of the distribution is assumed, so it suits scores between 0 and 1. The seed is fixed: the same
    values always give the same interval.
    """
    x = np.asarray(values, dtype=np.float64)
    count = len(x)
    if count < 2:
        return Measure(float(x.mean()) if count else math.nan, math.nan, math.nan, count, unit)
    random = np.random.default_rng(seed)
    means = [x[random.integers(0, count, count)].mean() for _ in range(resamples)]
    low, high = np.quantile(means, (0.025, 0.975))
    return Measure(float(x.mean()), float(low), float(high), count, unit)


def proportion(hits: int, count: int, unit: str = "share") -> Measure:
    """Share of `count` yes-or-no items that were a yes; Wilson score interval (Wilson 1927).

    Unlike the mean plus or minus two standard errors it stays within 0 and 1 and is honest at 0 and at 1.
    """
    if count == 0:
        return Measure(math.nan, math.nan, math.nan, 0, unit)
    share, square = hits / count, _Z**2
    centre = (share + square / (2 * count)) / (1 + square / count)
    reach = _Z / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    low, high = max(0.0, centre - reach), min(1.0, centre + reach)
    return Measure(share, min(low, share), max(high, share), count, unit)  # at 0 and 1 rounding must not cross it


def exponential(measure: Measure, unit: str) -> Measure:
    """The measure's exponential; the interval is carried through the exponential, so it is not symmetric."""
    with np.errstate(over="ignore"):
        value, low, high = (float(np.exp(part)) for part in (measure.value, measure.low, measure.high))
    return Measure(value, low, high, measure.count, unit)
