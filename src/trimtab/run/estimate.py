"""What a job would take: time, memory and size, from headers and a second of measuring; no weight is read.

Legend: L tokens in a window, V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from trimtab.compression.statistics_file import load_statistics
from trimtab.linalg.spectral import symmetric_eigh, thin_svd
from trimtab.models.checks import check_compressible
from trimtab.models.compute_dtype import matrix_rate
from trimtab.models.headers import file_bytes
from trimtab.models.load import load_skeleton
from trimtab.models.placement import device_of, dtype_of, short_name
from trimtab.models.projections import Coverage, Projection, coverage, find_projections
from trimtab.run.calibration import DEFAULT
from trimtab.run.environment import read_bandwidth
from trimtab.run.job import Job
from trimtab.run.measure import BATCH_SIZE, NEW_TOKENS
from trimtab.run.prepare import checked_budget
from trimtab.text.selfwritten import BATCH_SIZE as WRITTEN_TOGETHER

_LIBRARIES_BYTES = 6e8
"""Resident memory of Python with torch and transformers, before any model."""

_SIDE = 384
"""Side of the matrices whose factorisation is timed; the rest is scaled by the cube."""


@dataclass(frozen=True)
class Estimate:
    """What a job would take on this machine; seconds and memory are rough, to about a factor of 1.5."""

    model: str
    coverage: Coverage
    dtype: str
    requested: str
    projection_parameters: tuple[int, int]
    weight_bytes: tuple[int, int]
    source_bytes: int
    seconds: dict[str, float]
    memory_bytes: int

    def to_json(self) -> dict[str, Any]:
        """All fields, and the share that can be touched."""
        return {**asdict(self), "coverage_share": self.coverage.share, "total_seconds": sum(self.seconds.values())}


@dataclass(frozen=True)
class _Machine:
    """Operations a second in the model's dtype and in fp32, bytes a second, seconds of one eigh and one SVD."""

    rate: float
    rate_fp32: float
    bandwidth: float
    eigh_seconds: float
    svd_seconds: float


def estimate(job: Job) -> Estimate:
    """Say what the job would take, reading only configuration and headers.

    Raises:
        ModelError, OptionError: as the job itself would, as far as that can be seen without the weights.
    """
    device = device_of(job.device)
    loaded = load_skeleton(job.model)
    model = loaded.model
    check_compressible(model)
    dtype = dtype_of(job.dtype) or (torch.bfloat16 if model.dtype == torch.float16 else model.dtype)
    nn.Module.to(model, dtype)
    projections = find_projections(model, include_head=job.include_head)
    budget = checked_budget(job, model, projections)
    dense = sum(each.parameters for each in projections)
    whole = sum(each.numel() * each.element_size() for each in model.parameters())
    saved = (dense - budget.parameters) * dtype.itemsize
    return Estimate(
        model=job.model,
        coverage=coverage(model, projections),
        dtype=short_name(dtype),
        requested=str(job.target),
        projection_parameters=(dense, budget.parameters),
        weight_bytes=(whole, whole - saved),
        source_bytes=file_bytes(loaded.source),
        seconds=_seconds(job, model, projections, _machine(dtype, device)),
        memory_bytes=_memory(job, model, projections, whole),
    )


def _machine(dtype: torch.dtype, device: torch.device) -> _Machine:
    a = torch.randn(_SIDE, _SIDE)
    gram = a @ a.T
    rate_fp32 = matrix_rate(torch.float32, device)
    rate = rate_fp32 if dtype == torch.float32 else matrix_rate(dtype, device)
    return _Machine(
        rate, rate_fp32, read_bandwidth(), _timed(lambda: symmetric_eigh(gram)), _timed(lambda: thin_svd(a))
    )


def _timed(work: Callable[[], object]) -> float:
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _seconds(job: Job, model: PreTrainedModel, projections: list[Projection], machine: _Machine) -> dict[str, float]:
    """Seconds of every stage that the job would run."""
    windows, one_window = len(job.calibration or DEFAULT) * job.windows, _forward(model, job.window_length, machine)
    found = {}
    if not (job.statistics and job.statistics.exists()):
        if "self" in (job.calibration or DEFAULT):
            found["calibration text"] = _writing(model, job.windows, job.window_length, WRITTEN_TOGETHER, machine)
        passes = 3 if job.recipe.needs & {"fisher", "output_gram"} else 1
        grams = _gram_operations(job, model, projections) * windows * job.window_length / machine.rate_fp32
        faster = max(machine.rate, machine.rate_fp32) if job.device == "cpu" else machine.rate  # see `fastest_dtype`
        found["statistics"] = windows * passes * one_window * machine.rate / faster + grams
    else:
        windows = len(load_statistics(job.statistics).windows)
    found["factors"] = sum(_factor_seconds(each, "output_gram" in job.recipe.needs, machine) for each in projections)
    if "sensitivity" in job.recipe.needs:
        options = job.recipe.allocator_options
        tried = len(projections) * len(options.ratios)
        found["sensitivity"] = tried * min(options.windows, windows) * one_window
    if job.evaluate:
        found["evaluation"] = 2 * job.text_windows * one_window + 2 * _writing(model, 8, NEW_TOKENS, 8, machine)
    return {name: round(value, 1) for name, value in found.items()}


def _forward(model: PreTrainedModel, tokens: int, machine: _Machine) -> float:
    """Seconds to read one window: two operations for each token and weight that is multiplied (the head too)."""
    head = model.get_output_embeddings()
    tables = sum(each.weight.numel() for each in model.modules() if isinstance(each, nn.Embedding))
    tied = head is not None and head.weight is model.get_input_embeddings().weight
    multiplied = model.num_parameters() - tables + (head.weight.numel() if tied and head is not None else 0)
    return 2 * tokens * multiplied / machine.rate


def _writing(model: PreTrainedModel, texts: int, length: int, together: int, machine: _Machine) -> float:
    """Seconds to write token by token: every step reads all weights, multiplies, and costs each layer some calls."""
    batches = -(-texts // together)
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", 1)
    read = sum(each.numel() * each.element_size() for each in model.parameters()) / machine.bandwidth
    step = read + _forward(model, min(texts, together), machine) + layers * _LAYER_CALLS_SECONDS
    return batches * length * step


_LAYER_CALLS_SECONDS = 7e-4
"""Time that Python and the kernels' starts take in one layer for one token."""


def _gram_operations(job: Job, model: PreTrainedModel, projections: list[Projection]) -> float:
    """Operations a token for all Grams, in fp32."""
    inputs = sum(2 * side**2 for side in _input_sides(model, projections))
    outputs = sum(2 * each.out_features**2 for each in projections)
    wants_outputs = job.statistics is not None or "output_gram" in job.recipe.needs
    return inputs + (outputs if wants_outputs else 0)


def _input_sides(model: PreTrainedModel, projections: list[Projection]) -> list[int]:
    """The width of every input Gram; projections that read the same tensor share one."""
    inputs: list[torch.Tensor] = []

    def note(_module: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        if not any(given[0] is seen for seen in inputs):
            inputs.append(given[0])

    handles = [model.get_submodule(each.name).register_forward_pre_hook(note) for each in projections]
    try:
        with torch.no_grad():
            model(input_ids=torch.zeros(1, 8, dtype=torch.long, device="meta"), use_cache=False)
    except Exception:  # a model that cannot run without weights: count one for each projection, which is too many
        return [each.in_features for each in projections]
    finally:
        for handle in handles:
            handle.remove()
    return [each.shape[-1] for each in inputs]


def _factor_seconds(projection: Projection, two_sided: bool, machine: _Machine) -> float:
    inner, outer = projection.in_features, projection.out_features
    eigh = machine.eigh_seconds * (inner**3 + (outer**3 if two_sided else 0)) / _SIDE**3
    return eigh + machine.svd_seconds * min(inner, outer) ** 2 * max(inner, outer) / _SIDE**3


def _memory(job: Job, model: PreTrainedModel, projections: list[Projection], whole: int) -> int:
    """The larger of what collecting statistics and what evaluating needs."""
    vocabulary, tokens = model.config.get_text_config().vocab_size, job.window_length
    sides = _input_sides(model, projections)
    if job.statistics is not None or "output_gram" in job.recipe.needs:
        sides += [each.out_features for each in projections]
    grams = sum(4 * side**2 for side in sides)
    activations = 2 * model.dtype.itemsize * tokens * sum(each.in_features + each.out_features for each in projections)
    collecting = whole + grams + activations + 4 * 4 * tokens * vocabulary
    evaluating = 2 * whole + BATCH_SIZE * tokens * vocabulary * 2 * model.dtype.itemsize + 4 * 4 * tokens * vocabulary
    return int(_LIBRARIES_BYTES + max(collecting, evaluating if job.evaluate else 0))
