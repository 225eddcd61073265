"""Factorizers: one matrix and what is known about it in, nested factors and their spectrum out. One file each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from trimtab.compression.registry import Registry

Units = Literal["weight", "output", "loss"]


@dataclass(frozen=True)
class Knowledge:
    """What was measured about one projection; None where it was not collected.

    `input_gram_II` is the mean of x x^T over tokens, `output_gram_OO` the mean of g g^T with g the gradient of
    the summed next-token loss for the projection's output, `input_mean_I` the mean of |x|.
    """

    input_gram_II: Tensor | None = None
    output_gram_OO: Tensor | None = None
    input_mean_I: Tensor | None = None


@dataclass(frozen=True)
class Factors:
    """Nested factors of one projection: W ~ u_RO[:r].T @ v_RI[:r] for every r <= R.

    `energy_K` holds all min(O, I) squared singular values, descending: the error of rank r is the sum of those
    from r on. `units` says what it is an error of: the weight, the projection's mean squared output, or (half of it)
    the loss in nats per token.
    """

    u_RO: Tensor
    v_RI: Tensor
    energy_K: Tensor
    units: Units


Factorize = Callable[[Tensor, Knowledge, int, Any], Factors]

factorizers: Registry[Factorize] = Registry(
    "factorizer",
    tuple(f"trimtab.compression.factorizers.{name}" for name in ("svd", "asvd", "whitened", "two_sided")),
    "trimtab.factorizers",
)
