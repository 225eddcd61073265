from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lowrank.conftest import Checkpoint
from trimtab.errors import OutputError
from trimtab.lowrank import output
from trimtab.lowrank.densify import densify
from trimtab.lowrank.output import check_output, fresh_folder


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "config.json").write_text("old")
    (folder / "notes.txt").write_text("mine")
    return folder


def test_appears_when_it_is_complete_and_not_before(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with fresh_folder(out) as folder:
        assert folder.parent == out.parent
        (folder / "sub").mkdir()
        (folder / "sub" / "a").write_text("1")
        assert not out.exists()
    assert contents(out) == {"sub/a": "1"}
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_files_and_folder_get_the_usual_permissions(tmp_path: Path) -> None:
    with fresh_folder(tmp_path / "out") as folder:
        (folder / "a").touch(mode=0o600)
    (tmp_path / "plain").touch()
    (tmp_path / "plain_folder").mkdir()
    assert (tmp_path / "out" / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain_folder").stat().st_mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_fails_or_is_interrupted_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def work() -> None:
        with fresh_folder(tmp_path / "out") as folder:
            (folder / "a").write_text("1")
            raise error

    with pytest.raises(error):
        work()
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_kept(model_folder: Path) -> None:
    for refuse in (lambda: fresh_folder(model_folder).__enter__(), lambda: check_output(model_folder)):
        with pytest.raises(OutputError, match="exists already"):
            refuse()
    assert contents(model_folder) == {"config.json": "old", "notes.txt": "mine"}


def test_a_folder_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    def work() -> None:
        with fresh_folder(tmp_path / "out") as folder:
            (folder / "a").write_text("1")
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "b").write_text("2")

    with pytest.raises(OutputError, match="exists already"):
        work()
    assert contents(tmp_path) == {"out/b": "2"}


@pytest.mark.parametrize("can_exchange", [True, False])
def test_overwrite_swaps_when_the_new_one_is_complete(
    model_folder: Path, can_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange:  # a system without renameat2
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    with fresh_folder(model_folder, overwrite=True) as folder:
        (folder / "config.json").write_text("new")
        assert contents(model_folder)["config.json"] == "old"
    assert contents(model_folder) == {"config.json": "new"}
    assert [path.name for path in model_folder.parent.iterdir()] == ["out"]


def test_overwrite_keeps_the_old_one_when_the_new_one_fails(model_folder: Path) -> None:
    def work() -> None:
        with fresh_folder(model_folder, overwrite=True) as folder:
            (folder / "config.json").write_text("new")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        work()
    assert contents(model_folder) == {"config.json": "old", "notes.txt": "mine"}


def test_overwrite_follows_a_link(model_folder: Path) -> None:
    link = model_folder.parent / "link"
    link.symlink_to(model_folder)
    with fresh_folder(link, overwrite=True) as folder:
        (folder / "config.json").write_text("new")
    assert link.is_symlink()
    assert contents(model_folder) == {"config.json": "new"}


def test_overwrite_spares_what_is_not_a_model_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("2")
    for name, words in (("file", "is a file"), ("home", "no config.json")):
        with pytest.raises(OutputError, match=words):
            check_output(tmp_path / name, overwrite=True)
    assert contents(tmp_path) == {"file": "1", "home/thesis": "2"}


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    with pytest.raises(OutputError, match="cannot be written: File exists"):
        check_output(tmp_path / "file" / "out")


def test_a_folder_without_permission_to_write() -> None:
    base = Path(tempfile.mkdtemp())
    base.chmod(0o555)
    program = f"""
import os
from trimtab.errors import OutputError
from trimtab.lowrank.output import check_output
if os.geteuid() == 0:
    os.setuid(65534)  # the rights of root would hide the failure
try:
    check_output({str(base / "out")!r})
except OutputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    base.chmod(0o755)
    shutil.rmtree(base)
    assert done.stdout.startswith(f"{base / 'out'} cannot be written: Permission denied"), done.stderr


@contextmanager
def files_may_have_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_may_not_grow_is_a_full_disk(checkpoint: Checkpoint, tmp_path: Path) -> None:
    source, out = checkpoint("llama"), tmp_path / "out"
    with pytest.raises(OutputError, match=f"no space left while writing {out}"), files_may_have_at_most(100_000):
        densify(source, out)
    assert list(tmp_path.iterdir()) == []
    densify(source, out)
    assert out.is_dir()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_full(checkpoint: Checkpoint, small_disk: Path) -> None:
    with pytest.raises(OutputError, match=f"no space left while writing {small_disk / 'out'}"):
        densify(checkpoint("llama"), small_disk / "out")
    assert list(small_disk.iterdir()) == []


def test_what_safetensors_says_of_a_full_disk_is_understood() -> None:
    assert output.is_disk_full(RuntimeError("I/O error: No space left on device (os error 28)"))
    assert not output.is_disk_full(RuntimeError("I/O error: Input/output error (os error 5)"))


KILLED = """
import sys, time
from trimtab.lowrank.output import fresh_folder
with fresh_folder(sys.argv[1], overwrite=True) as folder:
    (folder / "config.json").write_text("new")
    print("half", flush=True)
    time.sleep(600)
"""


def test_kill_leaves_nothing_at_out_and_the_next_run_works(
    model_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fresh = model_folder.parent / "fresh"
    for out in (fresh, model_folder):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(out)], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "half\n"
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    assert not fresh.exists()
    assert contents(model_folder) == {"config.json": "old", "notes.txt": "mine"}
    with fresh_folder(fresh) as folder:
        (folder / "a").write_text("1")
    assert contents(fresh) == {"a": "1"}
    assert "an interrupted run left" in capfd.readouterr().err


DENSIFY = "import sys; from trimtab.lowrank.densify import densify; densify(sys.argv[1], sys.argv[2])"


def test_kill_at_any_moment_of_a_real_save_leaves_all_or_nothing(checkpoint: Checkpoint, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", DENSIFY, str(checkpoint("llama")), str(out)]
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not unfinished_files(tmp_path) and child.poll() is None:
        time.sleep(0.001)
    child.kill()
    child.wait()
    if out.exists():  # the child was faster
        assert {"model.safetensors", "config.json", "tokenizer.json", "README.md"} <= set(contents_names(out))
    else:
        assert unfinished_files(tmp_path)


def unfinished_files(folder: Path) -> list[str]:
    """Files in temporary folders; unlike glob, `os.walk` does not mind that one vanishes meanwhile."""
    return [name for path, _, names in os.walk(folder) if ".out.unfinished-" in path for name in names]


def contents_names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]
