"""Dataclasses to strict JSON and back, by their field types.

JSON has no NaN and no infinity: such a float is written as the string "NaN", "Infinity" or "-Infinity".
"""

from __future__ import annotations

import dataclasses
import math
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def encode(kind: Any, value: Any) -> Any:
    """Turn `value`, of the annotated type `kind`, into what `json.dumps(..., allow_nan=False)` accepts.

    A dataclass is read by field name, so any object with these attributes will do. Raises TypeError or AttributeError
    for a value that does not fit.
    """
    if dataclasses.is_dataclass(kind):
        return {name: encode(hint, getattr(value, name)) for name, hint in _fields(kind)}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else encode(_not_none(arguments), value)
    if origin is list:
        return [encode(arguments[0], item) for item in value]
    if origin is dict:
        return {str(key): encode(arguments[1], item) for key, item in value.items()}
    if kind is float:
        return _encode_float(float(value))
    return kind(value) if kind in (int, str) else value


def decode(kind: Any, value: Any) -> Any:
    """The inverse of `encode`; unknown keys are ignored, a missing key takes the field's default.

    Raises ValueError, which names the field, where `value` is not of that shape.
    """
    if dataclasses.is_dataclass(kind):
        return _decode_fields(kind, value)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else decode(_not_none(arguments), value)
    if origin is list:
        return [decode(arguments[0], item) for item in _of(list, value)]
    if origin is dict:
        return {key: decode(arguments[1], item) for key, item in _of(dict, value).items()}
    if origin is Literal:
        return _one_of(value, arguments)
    return _decode_plain(kind, value)


def _fields(kind: Any) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(field.name, hints[field.name]) for field in dataclasses.fields(kind)]


def _decode_fields(kind: Any, value: Any) -> Any:
    found = {}
    for name, hint in _fields(kind):
        if name not in _of(dict, value):
            continue
        try:
            found[name] = decode(hint, value[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    try:
        return kind(**found)
    except TypeError as error:
        missing = [field.name for field in dataclasses.fields(kind) if field.name not in found and _is_required(field)]
        raise ValueError(f"a {kind.__name__} lacks {', '.join(missing)}") from error


def _decode_plain(kind: Any, value: Any) -> Any:
    """A str or a number as it is; a float also from an integer and from the names of what JSON cannot write."""
    if kind is float and value in _NOT_FINITE:
        return float(value)
    fits = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
    if not fits:
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return kind(value)


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value


def _not_none(arguments: tuple[Any, ...]) -> Any:
    (kind,) = (argument for argument in arguments if argument is not type(None))
    return kind


def _encode_float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _one_of(value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise ValueError(f"'{value}' is none of {', '.join(map(str, allowed))}")
    return value


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
