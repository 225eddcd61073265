"""The hidden folder beside the output that holds a run's finished stages until the output is complete.

It is what makes a run survive Ctrl-C, `kill -9` and a full disk: each stage writes its file atomically, and a resumed
run takes up after the last one. The output itself appears in one step, at the end.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from trimtab.errors import OptionError, OutputError
from trimtab.lowrank.output import check_output, is_disk_full
from trimtab.progress import say
from trimtab.run.job import Job, differences


class Workspace:
    """The folder of one run. Use `open_workspace`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.windows = folder / "windows.safetensors"
        self.statistics = folder / "statistics.safetensors"
        self.factors = folder / "factors"
        self.sensitivity = folder / "sensitivity.json"
        self.plan = folder / "plan.json"
        self.checkpoint = folder / "checkpoint"
        self.checkpoint_done = folder / "checkpoint.done"
        self.evaluation = folder / "evaluation.json"
        self._job = folder / "job.json"
        self._stages = folder / "stages.json"

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the seconds of a stage and keep them with the run."""
        start = time.monotonic()
        yield
        self.write_json(self._stages, {**self.stages(), name: round(time.monotonic() - start, 2)})

    def stages(self) -> dict[str, float]:
        """Seconds of every finished stage."""
        return self.read_json(self._stages) if self._stages.exists() else {}

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
    """Make or continue the workspace of a job; it is removed when the block ends without an error.

    Raises:
        OutputError: the output exists (without `overwrite`), cannot be written, another run is at work on it, an
            interrupted run is there and neither `resume` nor `overwrite` is given, or the disk is full.
        OptionError: `resume` with other options than the interrupted run had.
    """
    check_output(job.out, overwrite=overwrite)
    out = job.out.expanduser().resolve()
    workspace = Workspace(out.parent / f".{out.name}.trimtab-run")
    _settle(workspace, job, resume, overwrite)
    with (workspace.folder / "lock").open("a") as lock:
        _lock(lock, workspace)
        with _explaining_full_disk(workspace):
            yield workspace
    shutil.rmtree(workspace.folder, ignore_errors=True)


def _settle(workspace: Workspace, job: Job, resume: bool, overwrite: bool) -> None:
    begun = (workspace.folder / "job.json").exists()
    if begun and resume:
        workspace.check_same(job)
        say(f"resuming: {', '.join(workspace.stages()) or 'nothing'} done before")
        return
    if begun and not overwrite:
        raise OutputError(
            f"an interrupted run is in {workspace.folder}: give --resume to go on, or --overwrite to start anew"
        )
    if resume:
        say("there is no interrupted run to resume: starting from the beginning")
    if workspace.folder.exists():
        with (workspace.folder / "lock").open("a") as lock:
            _lock(lock, workspace)
        shutil.rmtree(workspace.folder)
    workspace.folder.mkdir(parents=True)
    workspace.begin(job)


def _lock(lock: IO[str], workspace: Workspace) -> None:
    """Take the lock; the system gives it back when this process ends, however it ends."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise OutputError(f"another run is at work in {workspace.folder}") from None


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


def once(path: Path, make: Callable[[], None]) -> None:
    """Run `make` unless the file that it makes is there already."""
    if not path.exists():
        make()
        assert path.exists(), path
