"""Load what a job compresses and refuse, before any long work, what cannot end well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trimtab.compression.allocators import Budget, Candidate, check_feasible
from trimtab.compression.budget import budget_parameters
from trimtab.models.checks import check_compressible, check_finite
from trimtab.models.fingerprint import model_fingerprint
from trimtab.models.load import LoadedModel, load_config, load_model
from trimtab.models.placement import device_of, dtype_of
from trimtab.models.projections import Coverage, Projection, coverage, find_projections
from trimtab.models.source import ModelSource, resolve
from trimtab.progress import say
from trimtab.run.job import Job


@dataclass(frozen=True)
class Prepared:
    """A model that can be compressed, and what follows from it and the job."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    source: ModelSource
    projections: tuple[Projection, ...]
    coverage: Coverage
    budget: Budget
    fingerprint: str


def prepare(job: Job) -> Prepared:
    """Load and check the model of a job.

    Raises:
        ModelError: it cannot be read, is quantised or low-rank already, or has weights that are not finite.
        OptionError: the target cannot be met.
    """
    loaded = load_base(job)
    check_finite(loaded.model)
    projections = find_projections(loaded.model, include_head=job.include_head)
    covered = coverage(loaded.model, projections)
    say(str(covered))
    budget = checked_budget(job, loaded.model, projections)
    fingerprint = model_fingerprint(loaded.model)
    return Prepared(loaded.model, loaded.tokenizer, loaded.source, tuple(projections), covered, budget, fingerprint)


def load_base(job: Job) -> LoadedModel:
    """The uncompressed model of a job, in the dtype that it is compressed in.

    Raises:
        ModelError: it cannot be read, or is quantised or low-rank already.
    """
    device = device_of(job.device)
    check_compressible(load_config(resolve(job.model)))
    loaded = load_model(job.model, dtype=dtype_of(job.dtype), device=device)
    if job.dtype is None and loaded.model.dtype == torch.float16:
        say("the model is stored in fp16, whose gradients overflow; it is read, and will be written, in bf16")
        loaded = load_model(job.model, dtype=torch.bfloat16, device=device)
    return loaded


def checked_budget(job: Job, model: PreTrainedModel, projections: list[Projection]) -> Budget:
    """The budget of a job, which at least the smallest ranks can meet; OptionError if not."""
    budget = Budget(budget_parameters(job.target, model, projections))
    shapes = [(each.name, each.out_features, each.in_features) for each in projections]
    check_feasible([Candidate(*shape, np.empty(0), "weight", {}, None) for shape in shapes], budget, 1)
    return budget
