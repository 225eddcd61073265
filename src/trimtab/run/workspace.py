"""The hidden folder beside the output that holds a run's finished stages until the output is complete.

It is what makes a run survive Ctrl-C, `kill -9` and a full disk: each stage writes its file atomically, and a resumed
run takes up after the last one. The output itself appears in one step, at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from trimtab.errors import OptionError, OutputError
from trimtab.lowrank.output import check_output, is_disk_full
from trimtab.progress import say
from trimtab.run.job import Job, differences
from trimtab.run.memory import peak_bytes, reset_peak

LOAD = "load"
"""The stage that leaves nothing behind."""


@dataclass(frozen=True)
class StageUse:
    """Seconds that a stage took, and the largest resident memory of the process meanwhile."""

    seconds: float
    peak_bytes: int


class Workspace:
    """The folder of one run. Use `open_workspace`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.windows = folder / "windows.safetensors"
        self.statistics = folder / "statistics.safetensors"
        self.factors = folder / "factors"
        self.sensitivity = folder / "sensitivity.json"
        self.draft = folder / "report.json"
        self.checkpoint = folder / "checkpoint"
        self._checkpoint_done = folder / "checkpoint.done"
        self.evaluation = folder / "evaluation.json"
        self._job = folder / "job.json"
        self._stages = folder / "stages.json"

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure seconds and peak memory of a stage, say them, and keep them with the run."""
        start = time.monotonic()
        reset_peak()
        yield
        used = StageUse(round(time.monotonic() - start, 2), peak_bytes())
        say(f"{name}: {used.seconds:.1f} s, peak memory {used.peak_bytes / 1e9:.2f} GB")
        self.write_json(self._stages, {**self._read_stages(), name: asdict(used)})

    @property
    def begun(self) -> bool:
        """Whether anything is finished that is worth keeping."""
        return bool(set(self._read_stages()) - {LOAD})

    def stages(self) -> dict[str, StageUse]:
        """What every finished stage used, in the order in which they ran."""
        return {name: StageUse(**used) for name, used in self._read_stages().items()}

    def _read_stages(self) -> dict[str, Any]:
        return self.read_json(self._stages) if self._stages.exists() else {}

    @property
    def has_checkpoint(self) -> bool:
        """Whether the checkpoint is there and complete."""
        return self._checkpoint_done.exists() and self.checkpoint.exists()

    def checkpoint_is_complete(self) -> None:
        """Note that the checkpoint need not be written again."""
        self._checkpoint_done.touch()

    def write_json(self, path: Path, value: Any) -> None:
        """Write a file of the workspace atomically."""
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(value), "utf-8")
        os.replace(partial, path)

    def read_json(self, path: Path) -> Any:
        """Read a file of the workspace."""
        return json.loads(path.read_text("utf-8"))

    def begin(self, job: Job) -> None:
        """Write down what is being made."""
        self.write_json(self._job, job.identity())

    def check_same(self, job: Job) -> None:
        """Raise OptionError when the interrupted run was asked for something else."""
        different = differences(self.read_json(self._job), job.identity())
        if different:
            raise OptionError(
                f"the interrupted run in {self.folder} was started with other options ({'; '.join(different)}); "
                "give the same ones, or --overwrite to start anew"
            )


@contextmanager
def open_workspace(job: Job, *, resume: bool, overwrite: bool) -> Iterator[Workspace]:
    """Make or continue the workspace of a job. It is removed when the block ends well, or with nothing finished.

    Raises:
        OutputError: the output exists (without `overwrite`), cannot be written, another run is at work on it, an
            interrupted run is there and neither `resume` nor `overwrite` is given, or the disk is full.
        OptionError: `resume` with other options than the interrupted run had.
    """
    check_output(job.out, overwrite=overwrite)
    out = job.out.expanduser().resolve()
    workspace = Workspace(out.parent / f".{out.name}.trimtab-run")
    with _locked(workspace):
        try:
            _settle(workspace, job, resume, overwrite)
            with _explaining_full_disk(workspace):
                yield workspace
        except BaseException:
            if workspace.begun:
                say(f"what is finished is kept in {workspace.folder}; --resume goes on from there")
            else:
                shutil.rmtree(workspace.folder, ignore_errors=True)
            raise
        shutil.rmtree(workspace.folder, ignore_errors=True)


def _settle(workspace: Workspace, job: Job, resume: bool, overwrite: bool) -> None:
    if workspace.begun and resume:
        workspace.check_same(job)
        say(f"resuming: {', '.join(workspace.stages())} done before")
        return
    if workspace.begun and not overwrite:
        raise OutputError(
            f"an interrupted run is in {workspace.folder}: give --resume to go on, or --overwrite to start anew"
        )
    if resume:
        say("there is no interrupted run to resume: starting from the beginning")
    shutil.rmtree(workspace.folder, ignore_errors=True)
    workspace.folder.mkdir(parents=True)
    workspace.begin(job)


@contextmanager
def _locked(workspace: Workspace) -> Iterator[None]:
    """Keep other runs away from the workspace; the lock goes when this process ends, however it ends."""
    path = workspace.folder.with_name(workspace.folder.name + ".lock")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise OutputError(f"another run is at work in {workspace.folder}") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


@contextmanager
def _explaining_full_disk(workspace: Workspace) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if is_disk_full(error):
            raise OutputError(
                f"no space left on the disk of {workspace.folder.parent}; the finished stages are kept: "
                "make room and give --resume"
            ) from error
        raise
