"""`trimtab methods`: what there is to choose from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.compression.registry import Method, Registry


def command() -> None:
    """List methods, factorizers and allocators, with their options, defaults and sources."""
    from trimtab.compression.allocators import allocators
    from trimtab.compression.factorizers import factorizers
    from trimtab.compression.methods import METHODS

    print("methods (--method): a factorizer with an allocator")
    for name, pair in METHODS.items():
        print(f"  {name:<12}{pair.factorizer} + {pair.allocator}: {pair.summary}")
    _print_registry("factorizers (--factorizer), options as --set factorizer.NAME=VALUE", factorizers)
    _print_registry("allocators (--allocator), options as --set allocator.NAME=VALUE", allocators)


def _print_registry(title: str, registry: Registry[Any]) -> None:
    print(f"\n{title}")
    for name, method in sorted(registry.all().items()):
        print(f"  {name:<12}{method.summary}")
        print(f"  {'':<12}from: {method.reference}")
        for line in _option_lines(method):
            print(f"  {'':<12}{line}")


def _option_lines(method: Method[Any]) -> list[str]:
    fields = dataclasses.fields(method.options)
    return [f"option {field.name} = {_text(field.default)}" for field in fields]


def _text(value: Any) -> str:
    return ",".join(f"{part:g}" for part in value) if isinstance(value, tuple) else str(value)
