"""Calibration text for a run, and whether an existing statistics file was made from the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerBase

from trimtab.errors import StatisticsError
from trimtab.run.job import Job
from trimtab.text.sources import read_text
from trimtab.text.windows import SourceNote, Windows, cut_windows

DEFAULT = ("self",)


def check_same_text(found: Windows, job: Job, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise StatisticsError unless the file's windows are those that the job asks for.

    Files and data sets are cut again and compared token by token. What the model wrote itself follows from the
    model and the seed, so those are compared. A job that names no calibration takes what the file has.
    """
    if job.calibration is None:
        return
    if found.length != job.window_length:
        raise _refusal(job, f"windows of {found.length} tokens, not {job.window_length}")
    if len(found.sources) != len(job.calibration):
        raise _refusal(job, f"{_names(found.sources)}, not {', '.join(job.calibration)}")
    start = 0
    for note, spec in zip(found.sources, job.calibration, strict=True):
        _check_source(note, spec, found.ids_NL[start : start + note.windows], job, tokenizer)
        start += note.windows


def _check_source(
    note: SourceNote, spec: str, ids_NL: torch.Tensor, job: Job, tokenizer: PreTrainedTokenizerBase
) -> None:
    if spec == "self" or note.spec == "self":
        if (note.spec, note.windows, note.seed) != (spec, job.windows, job.seed):
            made = f"{note.windows} windows of {note.spec} with seed {note.seed}"
            raise _refusal(job, f"{made}, not {job.windows} of {spec} with seed {job.seed}")
        return
    expected = cut_windows(tokenizer, read_text(spec), length=job.window_length, limit=job.windows, source=spec)
    if not torch.equal(expected.ids_NL, ids_NL):
        raise _refusal(job, f"other text than {spec} with {job.windows} windows has now")


def _names(sources: Sequence[SourceNote]) -> str:
    return ", ".join(note.spec for note in sources)


def _refusal(job: Job, what: str) -> StatisticsError:
    return StatisticsError(f"statistics file {job.statistics} was made from {what}; give another file name")
