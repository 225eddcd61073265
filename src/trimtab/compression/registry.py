"""How a method plugs in: a frozen dataclass of options, one function, one line of registration.

Other packages add theirs through the entry-point groups `trimtab.factorizers` and `trimtab.allocators`: an entry
point is a module whose import registers the method.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from trimtab.errors import OptionError

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Method(Generic[Function]):
    """One registered method: its function, its options, where it comes from and what it needs to know.

    `needs` names the statistics that must have been collected (see `trimtab.compression.statistics.KINDS`). `units`
    says what a factorizer's energies are errors of, and which of them an allocator can compare (none: it does not
    look at them).
    """

    name: str
    function: Function
    options: type
    reference: str
    needs: frozenset[str]
    units: frozenset[str]
    summary: str

    def make_options(self, values: Mapping[str, Any]) -> Any:
        """Build the options; raise OptionError for an unknown key or a value of the wrong kind."""
        known = {field.name: field for field in dataclasses.fields(self.options)}
        for key in values:
            if key not in known:
                raise OptionError(f"{self.name} has no option '{key}'{offer(key, known)}")
        return self.options(**{key: _convert(self.name, known[key], value) for key, value in values.items()})


class Registry(Generic[Function]):
    """The methods of one kind ("factorizer", "allocator"), by name."""

    def __init__(self, kind: str, builtin: tuple[str, ...], group: str) -> None:
        self.kind = kind
        self._builtin = builtin
        self._group = group
        self._methods: dict[str, Method[Function]] = {}
        self._loaded = False

    def register(
        self,
        name: str,
        *,
        options: type,
        reference: str,
        needs: Iterable[str] = (),
        units: Iterable[str] = (),
    ) -> Callable[[Function], Function]:
        """Decorate the function of a method. `reference` says where the method was published."""

        def add(function: Function) -> Function:
            if name in self._methods and self._methods[name].function is not function:
                raise OptionError(f"{self.kind} '{name}' is registered already")
            summary = (function.__doc__ or "").strip().split("\n")[0]
            self._methods[name] = Method(
                name, function, options, reference, frozenset(needs), frozenset(units), summary
            )
            return function

        return add

    def get(self, name: str) -> Method[Function]:
        """Return a method; an unknown name raises OptionError with the known names and the nearest one."""
        methods = self.all()
        if name not in methods:
            raise OptionError(f"unknown {self.kind} '{name}'{offer(name, methods)}")
        return methods[name]

    def all(self) -> dict[str, Method[Function]]:
        """Return every method, built-in and from other packages, by name."""
        if not self._loaded:
            self._loaded = True
            for module in self._builtin:
                importlib.import_module(module)
            for entry_point in entry_points(group=self._group):
                _load(entry_point)
        return self._methods


def _load(entry_point: EntryPoint) -> None:
    """Import a method of another package; if that fails, say so and go on without it."""
    try:
        entry_point.load()
    except Exception as error:
        warnings.warn(f"{entry_point.group} '{entry_point.name}' cannot be loaded: {error!r}", stacklevel=2)


def check_range(option: str, value: float, low: float, high: float = math.inf) -> None:
    """Raise OptionError unless low <= value <= high (NaN is in no range)."""
    if not low <= value <= high:
        limits = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise OptionError(f"option '{option}' is {limits}, not {value:g}")


def check_choice(option: str, value: str, known: Sequence[str]) -> None:
    """Raise OptionError unless `value` is one of `known`."""
    if value not in known:
        raise OptionError(f"option '{option}' is one of {', '.join(known)}, not '{value}'")


def offer(name: str, known: Mapping[str, Any]) -> str:
    """Say which known name is nearest, and all that are known."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    names = ", ".join(sorted(known)) or "none"
    return f"; did you mean '{near[0]}'? (known: {names})" if near else f" (known: {names})"


def _convert(method: str, field: dataclasses.Field[Any], value: Any) -> Any:
    """Read a value given as text on the command line in the type of the option's default."""
    kind: Any = type(field.default)
    if not isinstance(value, str) or kind is str:
        return value
    try:
        if kind is bool:
            return {"true": True, "false": False}[value.lower()]
        if kind is tuple:
            return tuple(float(part) for part in value.split(","))
        return kind(value)
    except (ValueError, KeyError):
        raise OptionError(f"option '{field.name}' of {method} wants {kind.__name__}, not '{value}'") from None
