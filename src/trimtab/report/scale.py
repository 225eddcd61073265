"""Axes: where a value lies between 0 and 1, and which round values deserve a tick."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.report import words
from trimtab.report.data import SHARE


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic axis from `low` to `high` (low < high; both positive where logarithmic)."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """The position of a value: 0 at `low`, 1 at `high`, held inside that."""
        low, high = self._inner(self.low), self._inner(self.high)
        inner = self._inner(max(value, self.low)) if self.log else value
        return min(1.0, max(0.0, (inner - low) / (high - low)))

    def _inner(self, value: float) -> float:
        return math.log10(value) if self.log else value


def drawable(value: float) -> bool:
    """Whether an axis can show the value: finite, and where not zero, far from the ends of what a float can hold."""
    return value == 0 or 1e-300 <= abs(value) <= 1e300


def linear_axis(values: Sequence[float], *, from_zero: bool = False, ticks: int = 4) -> Axis:
    """A linear axis around drawable `values` that begins and ends at round ticks."""
    low, high = (0.0, max(0.0, *values)) if from_zero else (min(values), max(values))
    if high <= low:
        pad = abs(high) * 0.1 or 1.0
        low, high = (low if from_zero else low - pad), high + pad
    step = _round_step((high - low) / ticks)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = tuple(float(f"{index * step:.12g}") for index in range(first, last + 1))
    return Axis(marks[0], marks[-1], False, marks)


def log_axis(values: Sequence[float], *, ticks: int = 5) -> Axis:
    """A logarithmic axis around positive drawable `values`, from one power of ten to another."""
    first = math.floor(math.log10(min(values)) + 1e-9)
    last = math.ceil(math.log10(max(values)) - 1e-9)
    last = max(last, first + 1)
    every = max(1, math.ceil((last - first) / ticks))
    marks = tuple(10.0**power for power in range(first, last + 1, every))
    return Axis(10.0**first, 10.0**last, True, marks)


def tick_words(axis: Axis, tick: float, unit: str) -> str:
    """A tick in its unit with no more digits than the distance between ticks needs."""
    if axis.log:
        return words.power_of_ten(tick)
    factor = 100 if unit == SHARE else 1
    step = (axis.ticks[1] - axis.ticks[0]) * factor
    digits = next((digits for digits in range(5) if abs(round(step, digits) - step) < step * 1e-6), 5)
    if step >= 1e5 or digits == 5:
        return words.number(tick * factor) + (f"{words.SPACE}%" if unit == SHARE else "")
    return words.percent(tick, digits) if unit == SHARE else f"{tick:,.{digits}f}".replace("-", words.MINUS)


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(nice * power for nice in (1, 2, 2.5, 5, 10) if nice * power >= step * (1 - 1e-9))
