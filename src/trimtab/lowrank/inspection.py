"""What a model is made of, from its configuration and the headers of its files: no weight is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from trimtab.lowrank.config import QUANT_METHOD, LowRankConfig
from trimtab.lowrank.ranks import RankMap, projection_parameters, rank_map
from trimtab.lowrank.surgery import densify_in_place
from trimtab.models.headers import TensorHeader, file_bytes, source_headers
from trimtab.models.load import load_skeleton
from trimtab.models.projections import Projection, coverage, find_projections


@dataclass(frozen=True)
class ProjectionFacts:
    """One projection: where it is, its shape, its rank (None: dense), the
    largest rank that saves anything, its parameters and stored bytes, no bias.

    `bytes_dense` and `bytes` are None where the files name their tensors otherwise (GGUF).
    """

    name: str
    layer: int | None
    kind: str
    out_features: int
    in_features: int
    break_even: int
    rank: int | None
    parameters_dense: int
    parameters: int
    bytes_dense: int | None
    bytes: int | None


@dataclass(frozen=True)
class Inspection:
    """A whole model. `_dense` counts are of the same model with every projection dense, in the same types."""

    model: str
    architecture: str
    low_rank: bool
    format_version: int | None
    dtypes: tuple[str, ...]
    projections: tuple[ProjectionFacts, ...]
    projection_parameters_dense: int
    projection_parameters: int
    total_parameters_dense: int
    total_parameters: int
    projection_bytes_dense: int | None
    projection_bytes: int | None
    file_bytes_dense: int | None
    file_bytes: int
    coverage: float
    untouched: dict[str, int]
    made: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON can hold it, and `ranks`: projection name -> rank, null where dense."""
        return {**asdict(self), "ranks": {each.name: each.rank for each in self.projections}}


def inspect_model(spec: str | Path) -> Inspection:
    """Look at a low-rank or an ordinary model.

    Raises:
        ModelError: `spec` is not a model, or its files are damaged.
        CheckpointError: it is low-rank, and its rank map and its files do not agree.
    """
    loaded = load_skeleton(spec)
    model, tensors = loaded.model, source_headers(loaded.source)
    config, ranks, total = _low_rank_config(model), rank_map(model), _parameters(model)
    densify_in_place(model)
    projections = _all_projections(model, ranks)
    facts = tuple(_facts(each, ranks.get(each.name), tensors) for each in projections)
    covered = coverage(model, projections)
    return Inspection(
        model=str(spec),
        architecture=type(model).__name__,
        low_rank=config is not None,
        format_version=None if config is None else config.format_version,
        dtypes=tuple(sorted({tensor.dtype for tensor in tensors.values()})),
        projections=facts,
        projection_parameters_dense=sum(each.parameters_dense for each in facts),
        projection_parameters=sum(each.parameters for each in facts),
        total_parameters_dense=covered.total,
        total_parameters=total,
        **_bytes(facts, file_bytes(loaded.source)),
        coverage=covered.share,
        untouched=covered.untouched,
        made={} if config is None else config.made,
    )


def _bytes(facts: Sequence[ProjectionFacts], whole: int) -> dict[str, Any]:
    """The fields of `Inspection` that count bytes; `whole` is what the weight files have."""
    dense, now = _sum([each.bytes_dense for each in facts]), _sum([each.bytes for each in facts])
    saved = None if dense is None or now is None else dense - now
    return {
        "projection_bytes_dense": dense,
        "projection_bytes": now,
        "file_bytes_dense": None if saved is None else whole + saved,
        "file_bytes": whole,
    }


def _low_rank_config(model: PreTrainedModel) -> LowRankConfig | None:
    settings = getattr(model.config, "quantization_config", None)
    if not isinstance(settings, dict) or settings.get("quant_method") != QUANT_METHOD:
        return None
    return LowRankConfig(**settings)


def _all_projections(model: PreTrainedModel, ranks: RankMap) -> list[Projection]:
    """The projections of the densified model; the head too, where it was low-rank."""
    head = model.get_output_embeddings()
    head_is_low_rank = any(model.get_submodule(name) is head for name in ranks)
    return find_projections(model, include_head=head_is_low_rank)


def _facts(projection: Projection, rank: int | None, tensors: Mapping[str, TensorHeader]) -> ProjectionFacts:
    stored = [tensor for name, tensor in tensors.items() if _belongs(name, projection.name)]
    now = projection_parameters(projection, rank)
    stored_bytes = sum(tensor.bytes for tensor in stored) if stored else None
    return ProjectionFacts(
        name=projection.name,
        layer=projection.layer,
        kind=projection.kind,
        out_features=projection.out_features,
        in_features=projection.in_features,
        break_even=projection.break_even,
        rank=rank,
        parameters_dense=projection.parameters,
        parameters=now,
        bytes_dense=None if stored_bytes is None else round(stored_bytes / now * projection.parameters),
        bytes=stored_bytes,
    )


def _belongs(tensor_name: str, projection_name: str) -> bool:
    """Whether a tensor is the matrix of a projection, or a factor of it (not its bias)."""
    module, _, key = tensor_name.rpartition(".")
    return module == projection_name and key != "bias"


def _parameters(model: nn.Module) -> int:
    """All parameters, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
