"""Interruptions at any moment: nothing half-written, nothing lost, and the resumed run ends as if nothing happened."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.run.conftest import MakeJob
from trimtab.compression.budget import Target
from trimtab.compression.methods import make_recipe
from trimtab.errors import OptionError, OutputError, StatisticsError, TextError
from trimtab.run import build, measure, pipeline
from trimtab.run.job import Job
from trimtab.run.pipeline import compress_to_folder

STAGES = ("windows.safetensors", "statistics.safetensors", "factors/*.safetensors", "report.json", "checkpoint/*")


def command(job: Job) -> list[str]:
    numbers = ["--windows", "4", "--window-length", "32", "--text-windows", "4", "--remove", "0.3"]
    texts = ["--calibration", job.calibration[0], "--text", job.text]
    return [sys.executable, "-m", "trimtab", "compress", job.model, str(job.out), *numbers, *texts]


def workspace_of(job: Job) -> Path:
    return job.out.parent / f".{job.out.name}.trimtab-run"


@pytest.mark.parametrize("stage", STAGES)
def test_after_kill_the_run_goes_on_and_writes_the_same_weights(stage: str, job: MakeJob, tmp_path: Path) -> None:
    asked, whole = job(), job(out=tmp_path / "whole")
    threads = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}  # rounding depends on them
    child = subprocess.Popen(command(asked), env=threads, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not list(workspace_of(asked).glob(stage)) and child.poll() is None:
        time.sleep(0.0005)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not asked.out.exists()
    report = compress_to_folder(asked, resume=True)
    assert not list(tmp_path.glob(".out*"))
    compress_to_folder(whole)
    resumed, expected = (load_file(each.out / "model.safetensors") for each in (asked, whole))
    assert resumed.keys() == expected.keys()
    assert all((resumed[name] == expected[name]).all() for name in expected)
    assert report.metrics


def test_ctrl_c_says_so_and_keeps_what_is_finished(job: MakeJob) -> None:
    asked = job()
    child = subprocess.Popen(command(asked), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while not list(workspace_of(asked).glob("statistics.safetensors")) and child.poll() is None:
        time.sleep(0.0005)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate()
    assert child.returncode == 130
    assert "Traceback" not in said
    assert "interrupted" in said.splitlines()[-1]
    assert not asked.out.exists()
    assert workspace_of(asked).exists()


@pytest.mark.parametrize("module_and_name", [(build, "save_checkpoint"), (measure, "evaluate_against")])
def test_finished_stages_are_not_run_again(
    module_and_name: tuple[object, str],
    job: MakeJob,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = job()
    with monkeypatch.context() as broken:
        broken.setattr(*module_and_name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            compress_to_folder(asked)
    monkeypatch.setattr(build, "collect", interrupt)
    monkeypatch.setattr(build, "calibration_windows", interrupt)
    report = compress_to_folder(asked, resume=True)
    assert "resuming" in capsys.readouterr().err
    assert {"calibration text", "statistics", "factors"} <= {stage.name for stage in report.stages}


def interrupt(*_args: object, **_options: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_run_is_not_overlooked(job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(build, "save_checkpoint", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compress_to_folder(job())
    with pytest.raises(OutputError, match="--resume to go on, or --overwrite"):
        compress_to_folder(job())
    with pytest.raises(OptionError, match=r"remove.*0\.3.*0\.5"):
        compress_to_folder(job(remove=0.5), resume=True)
    assert compress_to_folder(job(remove=0.5), overwrite=True).realised >= 0.5


def test_a_mistake_before_the_first_stage_leaves_nothing_behind(job: MakeJob, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no rank map"):
        compress_to_folder(job(remove=0.9999))
    assert not list(tmp_path.glob(".out*"))
    compress_to_folder(job())


def test_resume_with_nothing_to_resume_just_runs(job: MakeJob, capsys: pytest.CaptureFixture[str]) -> None:
    compress_to_folder(job(), resume=True)
    assert "no interrupted run" in capsys.readouterr().err


def test_two_runs_for_one_output_do_not_disturb_each_other(job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def second_run(*_args: object, **_options: object) -> None:
        monkeypatch.undo()
        compress_to_folder(job())

    monkeypatch.setattr(build, "save_checkpoint", second_run)
    with pytest.raises(OutputError, match="another run is at work"):
        compress_to_folder(job())


def test_a_full_disk_keeps_the_finished_stages(job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(build, "save_checkpoint", full)
        with pytest.raises(OutputError, match=r"no space left.*--resume"):
            compress_to_folder(job())
    assert not job().out.exists()
    assert compress_to_folder(job(), resume=True).metrics


def test_an_existing_output_is_kept(job: MakeJob) -> None:
    compress_to_folder(job())
    before = {path.name: path.read_bytes() for path in job().out.iterdir()}
    with pytest.raises(OutputError, match="exists already"):
        compress_to_folder(job(remove=0.5))
    with pytest.raises(OptionError):
        compress_to_folder(job(remove=0.9999), overwrite=True)
    assert {path.name: path.read_bytes() for path in job().out.iterdir()} == before
    compress_to_folder(job(remove=0.5), overwrite=True)
    assert (job().out / "model.safetensors").read_bytes() != before["model.safetensors"]


def test_a_folder_that_is_no_model_is_never_overwritten(job: MakeJob) -> None:
    job().out.mkdir()
    (job().out / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="not a model folder"):
        compress_to_folder(job(), overwrite=True)
    assert (job().out / "thesis.txt").read_text() == "years of work"


class TestStatisticsFile:
    """A file of other statistics is refused, by fingerprint."""

    def test_of_another_model(self, job: MakeJob, tmp_path: Path) -> None:
        path = tmp_path / "statistics.safetensors"
        compress_to_folder(job(statistics=path, out=tmp_path / "a"))
        with pytest.raises(StatisticsError, match="another model"):
            compress_to_folder(job("qwen2", statistics=path))
        with pytest.raises(StatisticsError, match="another model or in another dtype"):
            compress_to_folder(job(statistics=path, dtype="bf16"))

    def test_of_another_text(self, job: MakeJob, tmp_path: Path, text: Path) -> None:
        path = tmp_path / "statistics.safetensors"
        compress_to_folder(job(statistics=path, out=tmp_path / "a"))
        text.write_text(text.read_text().replace("sea", "see"))
        for different in (job(), job(windows=2), job(window_length=16), job(calibration=None, seed=1)):
            if different.calibration is not None:
                with pytest.raises(StatisticsError, match="was made from"):
                    compress_to_folder(Job(**{**vars(different), "statistics": path}))
        with pytest.raises(StatisticsError, match="was made from"):
            compress_to_folder(job(statistics=path, calibration=("self",)))

    def test_damaged_or_something_else(self, job: MakeJob, tmp_path: Path) -> None:
        path = tmp_path / "statistics.safetensors"
        compress_to_folder(job(statistics=path, out=tmp_path / "a"))
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(StatisticsError, match="cannot be read"):
            compress_to_folder(job(statistics=path))
        path.write_text("hello")
        with pytest.raises(StatisticsError, match="cannot be read"):
            compress_to_folder(job(statistics=path))
        with pytest.raises(StatisticsError, match="is a folder"):
            compress_to_folder(job(statistics=tmp_path))
        with pytest.raises(OutputError, match="cannot be written"):
            compress_to_folder(job(statistics=tmp_path / "nowhere" / "file"))


def test_unusable_text_is_found_before_the_model_is_loaded(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "prepare", interrupt)
    (tmp_path / "empty").write_text("")
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    (tmp_path / "latin").write_bytes("é".encode("latin-1") * 100)
    for name, words in (("empty", "empty"), ("binary", "binary"), ("latin", "not UTF-8"), ("gone.txt", "not exist")):
        with pytest.raises(TextError, match=words):
            compress_to_folder(job(calibration=(str(tmp_path / name),)))
        with pytest.raises(TextError, match=words):
            compress_to_folder(job(text=str(tmp_path / name)))


def test_the_same_job_is_known_by_its_identity() -> None:
    def make(**fields: object) -> Job:
        plain = {"model": "m", "out": Path("o"), "target": Target(remove=0.1), "recipe": make_recipe()}
        return Job(**{**plain, **fields})  # type: ignore[arg-type]

    assert make().identity() == make(command="other", text="elsewhere", evaluate=False).identity()
    others = [make(seed=1), make(windows=3), make(target=Target(keep=0.9)), make(recipe=make_recipe("svd"))]
    others.append(make(recipe=make_recipe(settings=["allocator.power=0.9"])))
    assert len({str(each.identity()) for each in [make(), *others]}) == 6
