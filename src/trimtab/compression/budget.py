"""How much may be left: a share removed, a share kept, or the size of the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from trimtab.errors import OptionError
from trimtab.models.projections import Projection

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_HEADER_BYTES_PER_TENSOR = 160


@dataclass(frozen=True)
class Target:
    """What the user asked for; exactly one is given. `size` is the bytes of the weight files."""

    remove: float | None = None
    keep: float | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("remove", "keep", "size") if getattr(self, name) is not None]
        if len(given) != 1:
            raise OptionError(f"say how much in one way: --remove, --keep or --target-size, not {len(given)} of them")
        for name in ("remove", "keep"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise OptionError(f"--{name} is a fraction between 0 and 1 (such as 0.1), not {value:g}")

    def __str__(self) -> str:
        if self.size is not None:
            return f"--target-size {self.size / 1e6:.1f}MB"
        return f"--remove {self.remove:g}" if self.remove is not None else f"--keep {self.keep:g}"


def parse_size(text: str) -> int:
    """Read "90MB", "1.5GB" or "700MiB" as a number of bytes; raise OptionError for anything else."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", text)
    if not match or match[2].lower() not in _UNITS:
        raise OptionError(f"--target-size is a size such as 90MB, 1.5GB or 700MiB, not '{text}'")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def budget_parameters(target: Target, model: nn.Module, projections: Sequence[Projection]) -> int:
    """Return how many parameters the projections may have together.

    For a target size, everything else that the file holds (in the model's dtype) is subtracted first.

    Raises:
        OptionError: the size cannot be reached, or is not smaller than the model.
    """
    dense = sum(projection.parameters for projection in projections)
    if target.remove is not None:
        return int((1 - target.remove) * dense)
    if target.keep is not None:
        return int(target.keep * dense)
    assert target.size is not None
    whole, rest, width = _bytes(model, projections)
    if target.size >= whole:
        raise OptionError(f"{target} is not smaller than the model, which has {whole / 1e6:.1f} MB in this dtype")
    if target.size <= rest:
        raise OptionError(f"{target} cannot be reached: what is not in projections alone has {rest / 1e6:.1f} MB")
    return int((target.size - rest) / width)


def _bytes(model: nn.Module, projections: Sequence[Projection]) -> tuple[int, int, int]:
    """Bytes of the whole model's file, of all but the projections' weights, and of one projection parameter."""
    names = {f"{projection.name}.weight" for projection in projections}
    tensors = dict(model.named_parameters())
    header = _HEADER_BYTES_PER_TENSOR * (len(tensors) + 2 * len(names))
    rest = header + sum(t.numel() * t.element_size() for name, t in tensors.items() if name not in names)
    weights = [tensors[name] for name in sorted(names)]
    whole = rest + sum(weight.numel() * weight.element_size() for weight in weights)
    return whole, rest, weights[0].element_size()
