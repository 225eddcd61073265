"""Read the rows of a JSON or JSON-lines file, each a mistake away from one clear line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from trimtab.errors import OptionError, TextError

Row = dict[str, Any]
Item = TypeVar("Item")


def read_rows(path: Path) -> list[Row]:
    """The objects of a `.json` file (one list) or of a JSON-lines file (one object a line, blank lines skipped).

    Raises TextError when the file is missing, empty, not UTF-8, not JSON, or holds something else than objects.
    """
    text = read_file(path)
    if not text.strip():
        raise TextError(f"{path} is empty")
    rows = _one_document(path, text) if text.lstrip().startswith("[") else _lines(path, text)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise TextError(f"{path}: row {number} is {json.dumps(row)[:40]}, not an object with named fields")
        if not is_unicode(json.dumps(row, ensure_ascii=False)):
            raise TextError(f"{path}: row {number} holds half of a surrogate pair, which is no character")
    if not rows:
        raise TextError(f"{path} holds an empty list")
    return rows


def read_file(path: Path) -> str:
    """The UTF-8 text of a file; TextError naming the file where that cannot be had."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise TextError(f"{path} does not exist") from None
    except UnicodeDecodeError:
        raise TextError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror}") from None


def is_unicode(text: str) -> bool:
    """Whether every character of `text` is one (no lone surrogate), so that a tokenizer can read it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def first(items: Sequence[Item], limit: int | None) -> Sequence[Item]:
    """The first `limit` items, all of them without a limit; OptionError for a limit below 1."""
    if limit is not None and limit < 1:
        raise OptionError(f"the limit must be at least 1, not {limit}")
    return items[:limit]


def fields_of(row: Row) -> str:
    """The row's field names for an error message."""
    return ", ".join(row) or "none"


def _one_document(path: Path, text: str) -> list[Any]:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TextError(f"{path} is not valid JSON: {error.msg} at line {error.lineno}") from None


def _lines(path: Path, text: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise TextError(f"{path}, line {number} is not valid JSON: {error.msg}") from None
    return rows
