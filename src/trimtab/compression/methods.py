"""What `--method` stands for, and how a recipe is put together from names and settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from trimtab.compression.allocators import allocators
from trimtab.compression.factorizers import factorizers
from trimtab.compression.registry import offer
from trimtab.errors import OptionError


@dataclass(frozen=True)
class Pair:
    """A named pair of factorizer and allocator."""

    factorizer: str
    allocator: str
    summary: str


METHODS = {
    "flrc": Pair("whitened", "flra", "whitened factors, ranks by Fisher importance (FLRC, EMNLP 2025, re-derived)"),
    "svd-llm": Pair("whitened", "uniform", "whitened factors, the same share everywhere (SVD-LLM, ICLR 2025)"),
    "asvd": Pair("asvd", "sensitivity", "activation-scaled SVD, ranks by running the model (ASVD, 2023): slow"),
    "svd": Pair("svd", "uniform", "plain truncated SVD, the same share everywhere: the baseline"),
    "two-sided": Pair("two-sided", "loss-aware", "inputs and gradients whitened, least predicted loss: the best here"),
}


@dataclass(frozen=True)
class Recipe:
    """A factorizer and an allocator with their options (frozen dataclasses), ready to use."""

    method: str
    factorizer: str
    allocator: str
    factorizer_options: Any
    allocator_options: Any

    @property
    def needs(self) -> frozenset[str]:
        """The statistics that must be collected: kinds of `statistics.KINDS`, and perhaps "sensitivity"."""
        return factorizers.get(self.factorizer).needs | allocators.get(self.allocator).needs


def make_recipe(
    method: str = "flrc",
    *,
    factorizer: str | None = None,
    allocator: str | None = None,
    settings: Iterable[str] = (),
) -> Recipe:
    """Return the recipe of a method, or of a free pair.

    Args:
        settings: texts like "allocator.power=0.5" or "factorizer.damping=0.1".

    Raises:
        OptionError: an unknown method, factorizer, allocator or option, a value that cannot be, or an allocator
            that cannot compare what the factorizer measures.
    """
    if method not in METHODS:
        raise OptionError(f"unknown method '{method}'{offer(method, METHODS)}")
    pair = METHODS[method]
    chosen = {"factorizer": factorizer or pair.factorizer, "allocator": allocator or pair.allocator}
    _check_units(chosen["factorizer"], chosen["allocator"])
    values = _split(settings)
    name = method if (chosen["factorizer"], chosen["allocator"]) == (pair.factorizer, pair.allocator) else "custom"
    return Recipe(
        name,
        chosen["factorizer"],
        chosen["allocator"],
        factorizers.get(chosen["factorizer"]).make_options(values["factorizer"]),
        allocators.get(chosen["allocator"]).make_options(values["allocator"]),
    )


def _check_units(factorizer: str, allocator: str) -> None:
    units, comparable = factorizers.get(factorizer).units, allocators.get(allocator).units
    if comparable and not units <= comparable:
        good = [name for name, each in factorizers.all().items() if each.units & comparable]
        raise OptionError(
            f"the {allocator} allocator cannot compare the errors of the factorizer {factorizer} across projections: "
            f"use it with {' or '.join(sorted(good))}"
        )


def _split(settings: Iterable[str]) -> dict[str, dict[str, str]]:
    values: dict[str, dict[str, str]] = {"factorizer": {}, "allocator": {}}
    for setting in settings:
        key, equals, value = setting.partition("=")
        kind, dot, option = key.partition(".")
        if not (equals and dot and option and kind in values):
            raise OptionError(f"a setting looks like allocator.power=0.5 or factorizer.damping=0.1, not '{setting}'")
        values[kind][option] = value
    return values
