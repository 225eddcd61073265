"""The main job: `trimtab compress MODEL OUT`."""

from __future__ import annotations

import os
from pathlib import Path

from trimtab.errors import OutputError, StatisticsError
from trimtab.lowrank.checkpoint import read_config
from trimtab.lowrank.output import publish
from trimtab.models.headers import weight_files
from trimtab.progress import say
from trimtab.report.codec import decode, encode
from trimtab.report.data import RunReport
from trimtab.report.write import write_report
from trimtab.run.build import build
from trimtab.run.job import Job
from trimtab.run.measure import measure
from trimtab.run.prepare import prepare
from trimtab.run.summary import card, finished
from trimtab.run.workspace import LOAD, Workspace, open_workspace
from trimtab.text.sources import read_text


def compress_to_folder(job: Job, *, resume: bool = False, overwrite: bool = False) -> RunReport:
    """Compress a model into the folder `job.out`: checkpoint, model card, report.html and report.json.

    The folder appears complete, in one step, at the end. An interrupted run goes on with `resume`; what it had
    finished is not done again.

    Raises:
        TrimtabError: one of its children, for anything that the user can mend; an existing output is kept as it was.
    """
    _check_files(job)
    with open_workspace(job, resume=resume, overwrite=overwrite) as workspace:
        if not workspace.has_checkpoint:
            with workspace.stage(LOAD):
                prepared = prepare(job)
            build(job, prepared, workspace)
            del prepared
        report = _measured(job, workspace)
        _write_about(job, report, workspace.checkpoint)
        publish(workspace.checkpoint, job.out, overwrite=overwrite)
    return report


def _check_files(job: Job) -> None:
    """Refuse what is wrong with the files of a job before a model is loaded."""
    if job.evaluate:
        read_text(job.text)
    for spec in job.calibration or ():
        if spec != "self":
            read_text(spec)
    if job.statistics is not None:
        _check_statistics_path(job.statistics)


def _check_statistics_path(path: Path) -> None:
    if path.is_dir():
        raise StatisticsError(f"statistics file {path} is a folder: give the name of a file")
    folder = path.absolute().parent
    if not path.exists() and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise OutputError(f"statistics file {path} cannot be written: {folder} is not a folder that can be written to")


def _measured(job: Job, workspace: Workspace) -> RunReport:
    """The finished report, measured on the checkpoint's files (once, for the same text)."""
    report = decode(RunReport, workspace.read_json(workspace.draft))
    if job.evaluate:
        wanted = {"text": job.text, "windows": job.text_windows}
        kept = workspace.read_json(workspace.evaluation) if workspace.evaluation.exists() else {}
        if kept.get("on") != wanted:
            with workspace.stage("evaluation"):
                report = measure(job, report, workspace.checkpoint)
                workspace.write_json(workspace.evaluation, {"on": wanted, "report": encode(RunReport, report)})
        else:
            report = decode(RunReport, kept["report"])
    written = sum(file.stat().st_size for file in weight_files(workspace.checkpoint))
    return finished(report, workspace.stages(), written)


def _write_about(job: Job, report: RunReport, folder: Path) -> None:
    """Put the report and the model card beside the weights."""
    config = read_config(folder)
    assert config is not None
    write_report(report, folder)
    (folder / "README.md").write_text(card(job, report, config.made["base_fingerprint"]), "utf-8")
    say(f"report: {job.out / 'report.html'}")
