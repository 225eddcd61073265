"""Find the projections of a model (its large weight matrices) by structure, never by a list of architectures.

A projection is an `nn.Linear` or GPT-2's transposed `Conv1D` inside one of the decoder's layers. Embeddings, the
head, routers, and anything narrower than `SMALLEST_SIDE` on either side are not projections.

Shapes: O output features, I input features; w_OI maps x_I to y_O as `w_OI @ x_I`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from trimtab.errors import ModelError

SMALLEST_SIDE = 16
"""Matrices with fewer features than this on either side are left alone: there is next to nothing to save."""


@dataclass(frozen=True)
class Projection:
    """One weight matrix of the model: its module's path, its shape, and how its module keeps it."""

    name: str
    out_features: int
    in_features: int
    bias: bool
    transposed: bool

    @property
    def parameters(self) -> int:
        """Parameters of the dense matrix, O * I (without bias)."""
        return self.out_features * self.in_features

    @property
    def break_even(self) -> int:
        """The largest rank R whose two factors, R * (O + I) parameters, are no more than the dense matrix."""
        return self.parameters // (self.out_features + self.in_features)

    @property
    def layer(self) -> int | None:
        """The layer's number (the first number in the path), or None for the head."""
        return next((int(part) for part in self.name.split(".") if part.isdigit()), None)

    @property
    def kind(self) -> str:
        """The last part of the path, e.g. `q_proj`."""
        return self.name.rsplit(".", 1)[-1]


def find_projections(model: PreTrainedModel, *, include_head: bool = False) -> list[Projection]:
    """All projections of `model`, in the order of its modules; a module that is used twice is listed once.

    Raises:
        ModelError: there is none, or the head is asked for and is the same tensor as the embeddings.
    """
    shared = _shared_weights(model)
    found = [
        _projection(name, module)
        for name, module in _layer_modules(model)
        if _is_projection(module) and id(module.weight) not in shared and not _is_router(module, model)
    ]
    if not found:
        raise ModelError(f"{type(model).__name__} has no projection (nn.Linear or Conv1D) inside decoder layers")
    if include_head:
        found.append(_head_projection(model, shared))
    return found


def weight(model: nn.Module, projection: Projection) -> Tensor:
    """The projection's matrix w_OI: a view of the model's own weight, detached from the graph."""
    stored = model.get_submodule(projection.name).get_parameter("weight").detach()
    return stored.T if projection.transposed else stored


@torch.no_grad()
def set_weight(model: nn.Module, projection: Projection, w_OI: Tensor) -> None:
    """Write `w_OI` into the model in place, in the dtype and on the device that the weight has."""
    target = weight(model, projection)
    assert w_OI.shape == target.shape, (w_OI.shape, target.shape)
    target.copy_(w_OI)


def _layer_modules(model: PreTrainedModel) -> Iterator[tuple[str, nn.Module]]:
    """Modules of the text decoder that are inside a numbered layer, with their full paths."""
    decoder = model.get_decoder()
    prefix = next(name for name, module in model.named_modules() if module is decoder)
    for name, module in decoder.named_modules():
        if any(part.isdigit() for part in name.split(".")):
            yield f"{prefix}.{name}".removeprefix("."), module


def _is_projection(module: nn.Module) -> bool:
    if not isinstance(module, nn.Linear | Conv1D):
        return False
    return module.weight.dim() == 2 and min(module.weight.shape) >= SMALLEST_SIDE


def _is_router(module: nn.Module, model: PreTrainedModel) -> bool:
    """A linear layer that picks experts: as many outputs as the configuration has experts."""
    config = model.config.get_text_config()
    names = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    experts = {getattr(config, name, None) for name in names}
    return getattr(module, "out_features", None) in experts - {None}


def _projection(name: str, module: nn.Module) -> Projection:
    transposed = isinstance(module, Conv1D)
    rows, columns = module.get_parameter("weight").shape
    out_features, in_features = (columns, rows) if transposed else (rows, columns)
    return Projection(name, out_features, in_features, getattr(module, "bias", None) is not None, transposed)


def _head_projection(model: PreTrainedModel, shared: set[int]) -> Projection:
    head = model.get_output_embeddings()
    if head is None or not _is_projection(head):
        raise ModelError(f"{type(model).__name__} has no head that is a linear layer")
    if id(head.weight) in shared:
        raise ModelError("the head shares its weight with the embeddings, so it cannot be compressed alone")
    return _projection(next(name for name, module in model.named_modules() if module is head), head)


def _shared_weights(model: nn.Module) -> set[int]:
    """Identities of the parameters that more than one module holds."""
    owners = Counter(id(parameter) for module in model.modules() for parameter in module.parameters(recurse=False))
    return {key for key, count in owners.items() if count > 1}


@dataclass(frozen=True)
class Coverage:
    """Parameters, each counted once: how many projections hold, how many there are, and what the others are."""

    touchable: int
    total: int
    untouched: dict[str, int]

    @property
    def share(self) -> float:
        """The fraction of all parameters that the compressor can touch."""
        return self.touchable / self.total

    def __str__(self) -> str:
        line = f"{self.touchable:,} of {self.total:,} parameters ({self.share:.1%}) are in projections"
        if not self.untouched:
            return line
        rest = ", ".join(f"{what} {count:,}" for what, count in self.untouched.items())
        return f"{line}; left as they are: {rest}"


def coverage(model: PreTrainedModel, projections: Sequence[Projection]) -> Coverage:
    """Count the parameters of `model` that `projections` hold, and sort the others by what they are.

    The kinds: embeddings (also a head that shares their weight), head, experts (3-D), small matrices (routers and
    the like), norms and biases, convolutions. The largest comes first.
    """
    touched = {id(model.get_submodule(each.name).get_parameter("weight")) for each in projections}
    seen: set[int] = set()
    untouched: Counter[str] = Counter()
    touchable = 0
    for module in _embeddings_first(model):
        for parameter in module.parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            if id(parameter) in touched:
                touchable += parameter.numel()
            else:
                untouched[_kind(model, module, parameter.dim())] += parameter.numel()
    rest = dict(untouched.most_common())
    return Coverage(touchable, touchable + sum(rest.values()), rest)


def _embeddings_first(model: nn.Module) -> list[nn.Module]:
    """All modules, embeddings first, so that a weight they share with the head counts as theirs."""
    return sorted(model.modules(), key=lambda module: not isinstance(module, nn.Embedding))


def _kind(model: PreTrainedModel, module: nn.Module, dimensions: int) -> str:
    if isinstance(module, nn.Embedding):
        return "embeddings"
    if module is model.get_output_embeddings():
        return "head"
    if dimensions < 2:
        return "norms and biases"
    if dimensions == 2:
        return "small or shared matrices (routers and the like)"
    return "experts (3-D)" if dimensions == 3 and "xpert" in type(module).__name__ else "convolutions"
