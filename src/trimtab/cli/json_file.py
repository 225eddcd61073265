"""Write one JSON file that a user named: whole or not at all, and never over another without --overwrite."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from trimtab.errors import OutputError


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse a file that cannot be written, before long work begins.

    Raises OutputError: it exists (and `overwrite` is off), is a folder, or its folder is missing or not writable.
    """
    if path.is_dir():
        raise OutputError(f"{path} is a folder: give the name of a file")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists already and was kept: choose another name or add --overwrite")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise OutputError(f"{path} cannot be written: its folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"{path} cannot be written: its folder {folder} is not writable")


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write `data` into a file beside `path`, then rename it; OutputError, and nothing left, if that fails."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
