"""The types and devices that a model can be loaded in, by the names that users write; checked before heavy work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.errors import OptionError

if TYPE_CHECKING:
    import torch

_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def dtype_of(name: str | None) -> torch.dtype | None:
    """The torch dtype called `bf16`, `fp16` or `fp32`; None (as stored) for None. OptionError for another name."""
    if name is None:
        return None
    if name not in _DTYPES:
        raise OptionError(f"unknown dtype {name!r}: choose one of {', '.join(_DTYPES)}")
    import torch

    found: torch.dtype = getattr(torch, _DTYPES[name])
    return found


def short_name(dtype: torch.dtype) -> str:
    """The short name of a dtype ("bf16"), or the long one of another kind ("float8_e5m2")."""
    long = str(dtype).removeprefix("torch.")
    return next((short for short, name in _DTYPES.items() if name == long), long)


def device_of(name: str) -> torch.device:
    """The device called `cpu`, `cuda`, `cuda:1`, `mps`, ...; OptionError if it is unknown or not here."""
    import torch

    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise OptionError(f"the device {name!r} is not there: use cpu, or see what `trimtab doctor` finds") from None
    return device
