"""From a model to a low-rank checkpoint in the workspace: text, statistics, factors, ranks, files. Each stage once."""

from __future__ import annotations

import shutil
from pathlib import Path

from trimtab.compression import sensitivity
from trimtab.compression.plan import apply_plan, factorize_all, make_plan
from trimtab.compression.statistics import KINDS, Statistics, collect, few_tokens_warning
from trimtab.compression.statistics_file import check_kinds, check_model, load_statistics, save_statistics
from trimtab.compression.store import FolderStore
from trimtab.errors import OutputError
from trimtab.lowrank.checkpoint import save_checkpoint
from trimtab.progress import say
from trimtab.report.codec import encode
from trimtab.report.data import RunReport
from trimtab.run.calibration import DEFAULT, check_same_text
from trimtab.run.job import Job
from trimtab.run.made import how_it_was_made
from trimtab.run.prepare import Prepared
from trimtab.run.summary import draft
from trimtab.run.workspace import Workspace
from trimtab.text.calibration import calibration_windows
from trimtab.text.windows import Windows


def build(job: Job, prepared: Prepared, workspace: Workspace) -> None:
    """Write the checkpoint and the draft of the report into the workspace; the model is changed in place."""
    statistics = _statistics(job, prepared, workspace)
    notes = warnings(statistics, prepared)
    for note in notes:
        say(f"warning: {note}")
    store = FolderStore(workspace.factors)
    with workspace.stage("factors"):
        factorize_all(prepared.model, prepared.projections, statistics, job.recipe, store)
    table = _sensitivity(job, prepared, statistics, store, workspace)
    with workspace.stage("ranks"):
        plan = make_plan(prepared.model, prepared.projections, statistics, job.recipe, store, prepared.budget, table)
        workspace.write_json(workspace.draft, encode(RunReport, draft(job, prepared, statistics, plan, notes)))
    say(f"{plan.removed:.2%} of the projections' parameters go ({job.target} was asked for)")
    with workspace.stage("checkpoint"):
        apply_plan(prepared.model, plan, store)
        shutil.rmtree(workspace.checkpoint, ignore_errors=True)
        workspace.checkpoint.mkdir()
        said = {"base_model": job.model, "requested": str(job.target), "command": job.command}
        made = how_it_was_made(job.recipe, statistics, plan, **said)
        save_checkpoint(prepared.model, prepared.tokenizer, workspace.checkpoint, made=made)
    workspace.checkpoint_is_complete()


def _statistics(job: Job, prepared: Prepared, workspace: Workspace) -> Statistics:
    """The statistics of the job: from the user's file, from the interrupted run, or collected now."""
    path = job.statistics or workspace.statistics
    needs = job.recipe.needs & KINDS
    if path.exists():
        statistics = load_statistics(path)
        check_model(statistics, prepared.fingerprint, path)
        check_kinds(statistics, needs, path)
        check_same_text(statistics.windows, job, prepared.tokenizer)
        say(f"statistics of {statistics.windows.tokens:,} tokens taken from {path}")
    else:
        windows = _windows(job, prepared, workspace)
        kinds = KINDS if job.statistics else needs  # a file is made to be used again, perhaps by another method
        with workspace.stage("statistics"):
            statistics = collect(
                prepared.model, list(prepared.projections), windows, kinds=kinds, model_fingerprint=prepared.fingerprint
            )
            _save(statistics, path)
    return statistics


def _save(statistics: Statistics, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_statistics(statistics, path)
    except PermissionError as error:
        raise OutputError(f"statistics file {path} cannot be written: {error.strerror}") from error


def warnings(statistics: Statistics, prepared: Prepared) -> list[str]:
    """What the user should know about the calibration text."""
    few = few_tokens_warning(statistics.windows.tokens, list(prepared.projections))
    unseen = [name for name, energy in _input_energies(statistics).items() if energy == 0]
    found = [*statistics.windows.warnings, *([few] if few else [])]
    if unseen:
        found.append(f"no calibration token reached {', '.join(unseen[:3])}{' ...' if len(unseen) > 3 else ''}")
    return found


def _input_energies(statistics: Statistics) -> dict[str, float]:
    return {
        name: float(statistics.input_grams[group].diagonal().sum())
        for name, group in statistics.groups.items()
        if group in statistics.input_grams
    }


def _windows(job: Job, prepared: Prepared, workspace: Workspace) -> Windows:
    if workspace.windows.exists():
        return Windows.load(workspace.windows)
    with workspace.stage("calibration text"):
        windows = calibration_windows(
            job.calibration or DEFAULT,
            prepared.model,
            prepared.tokenizer,
            windows=job.windows,
            length=job.window_length,
            seed=job.seed,
        )
        windows.save(workspace.windows)
    return windows


def _sensitivity(
    job: Job, prepared: Prepared, statistics: Statistics, store: FolderStore, workspace: Workspace
) -> sensitivity.Table | None:
    """What ASVD's search needs to know: one run of the model for every projection and ratio."""
    if "sensitivity" not in job.recipe.needs:
        return None
    options = job.recipe.allocator_options
    few = Windows(statistics.windows.ids_NL[: options.windows])
    with workspace.stage("sensitivity"):
        return sensitivity.measure(
            prepared.model, prepared.projections, store, few, options.ratios, workspace.sensitivity
        )
