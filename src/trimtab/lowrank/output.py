"""An output folder that appears whole or not at all.

Everything is written into a hidden folder beside the wanted one, and renamed when it is complete.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.errors import OutputError
from trimtab.progress import say

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_WORDS = tuple(os.strerror(number) for number in _FULL)
_UNFINISHED = ".unfinished-"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def fresh_folder(out: Path | str, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty temporary folder that becomes `out` when the block ends well.

    When the block raises, or is interrupted, the temporary folder is removed and `out` is as it was. With
    `overwrite`, a model folder at `out` is swapped for the new one in one step, and removed after it.

    Raises:
        OutputError: `out` exists (or, with `overwrite`, is something else than a model folder), the folder above it
            cannot be written, or the disk is full.
    """
    target = _target(out)
    _check_free(target, overwrite)
    temporary = _temporary_beside(target)
    _mention_unfinished(temporary)
    try:
        yield temporary
        publish(temporary, target, overwrite=overwrite)
    except Exception as error:
        if is_disk_full(error):
            raise OutputError(
                f"no space left while writing {target}; nothing was kept, make room and try again"
            ) from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_output(out: Path | str, *, overwrite: bool = False) -> None:
    """Refuse, before any work, an `out` that `fresh_folder` would refuse.

    Raises:
        OutputError: as `fresh_folder`.
    """
    target = _target(out)
    _check_free(target, overwrite)
    _temporary_beside(target).rmdir()


def publish(folder: Path, out: Path | str, *, overwrite: bool = False) -> None:
    """Rename a complete `folder` to `out`, on the same file system, in one step; `folder` is gone afterwards.

    Raises:
        OutputError: `out` is there (and may not be replaced).
    """
    _finish_files(folder)
    _put_in_place(folder, _target(out), overwrite)
    shutil.rmtree(folder, ignore_errors=True)


def _target(out: Path | str) -> Path:
    """The absolute path; of an existing link, what it points at."""
    return Path(out).expanduser().resolve()


def _check_free(target: Path, overwrite: bool) -> None:
    """Refuse what is at `target`, unless it may be replaced."""
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise OutputError(f"{target} exists already and was left as it is; choose another folder, or --overwrite")
    if not target.is_dir():
        raise OutputError(f"{target} is a file, not a model folder; it is not overwritten")
    if any(target.iterdir()) and not (target / "config.json").is_file():
        raise OutputError(f"{target} is not a model folder (it has no config.json); it is not overwritten")


def _temporary_beside(target: Path) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}{_UNFINISHED}", dir=target.parent))
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror} ({error.filename})") from error
    temporary.chmod(0o777 & ~_umask())
    return temporary


def _mention_unfinished(temporary: Path) -> None:
    """Say which temporary folders for the same output earlier runs left when they were killed."""
    pattern = glob.escape(temporary.name.rpartition("-")[0]) + "-*"
    for left in sorted(set(temporary.parent.glob(pattern)) - {temporary}):
        say(f"an interrupted run left {left}; remove it unless another run is still writing it")


def _finish_files(folder: Path) -> None:
    """Give every file the usual permissions, and have the system write it to the disk (which may turn out full)."""
    mode = 0o666 & ~_umask()
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.chmod(mode)  # safetensors makes its files readable by their owner only
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _put_in_place(temporary: Path, target: Path, overwrite: bool) -> None:
    """Rename `temporary` to `target`; what is there is swapped out and then removed with the temporary name."""
    _check_free(target, overwrite)
    if not target.exists():
        os.rename(temporary, target)
    elif not _exchange(temporary, target):
        old = target.with_name(f".{target.name}.old-{os.getpid()}")
        os.rename(target, old)
        try:
            os.rename(temporary, target)
        except OSError:
            os.rename(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two folders in one step; False where the system cannot (then nothing has changed)."""
    if sys.platform != "linux":
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    paths = os.fsencode(first), os.fsencode(second)
    return bool(renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is a full disk; safetensors says so in words only."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if any(words in str(error) for words in _FULL_WORDS):
            return True
        error = error.__cause__ or error.__context__
    return False
