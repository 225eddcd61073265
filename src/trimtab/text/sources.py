"""Read a text that a user names: a file, JSON lines, a dataset, or the standard library's own manual."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trimtab.errors import TextError

FIELDS = ("text", "dialogue", "question", "content")
"""Where a record (a JSON object, a row of a dataset) may have its text; the first that is there counts."""

MOST_CHARACTERS = 20_000_000
"""A dataset is read no further than this; data sets can be larger than a disk."""

_JSON_ENDINGS = (".json", ".jsonl")
_FILE_ENDINGS = (*_JSON_ENDINGS, ".txt", ".md", ".csv", ".tsv", ".parquet", ".gz")


def read_text(spec: str) -> str:
    """Read the text that `spec` names; the documents of a collection are joined by a blank line.

    `pydoc`: the English text of the standard library's `pydoc_data.topics` (always there, no network).
    A `.jsonl` or `.json` file: one of `FIELDS` of each record. Any other file: UTF-8 text.
    Else a dataset of the `datasets` library: `name[:configuration][:split]`, split `train` when not given.

    Raises:
        TextError: missing, empty, not text, not UTF-8, no known field, or an unknown dataset.
    """
    if spec == "pydoc":
        return _pydoc()
    path = Path(spec).expanduser()
    if path.is_dir():
        raise TextError(f"text {spec} is a folder; give a file")
    if path.is_file():
        text = _join(_json_documents(path)) if path.suffix in _JSON_ENDINGS else _read_file(path)
    elif path.suffix in _FILE_ENDINGS or path.is_absolute() or spec.startswith("."):
        raise TextError(f"text file {spec} does not exist")
    else:
        text = _join(_dataset_documents(spec))
    if not text.strip():
        raise TextError(f"text {spec} is empty")
    return text


def _pydoc() -> str:
    from pydoc_data.topics import topics

    return _join(topics.values())


def _join(documents: Iterable[str]) -> str:
    return "\n\n".join(documents)


def _read_file(path: Path) -> str:
    """The UTF-8 text of `path`, line ends as `\\n`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TextError(f"text file {path} cannot be read: {error.strerror}") from error
    if b"\0" in content:
        raise TextError(f"text file {path} is binary (or UTF-16); give UTF-8 text")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(f"text file {path} is not UTF-8 (byte {error.start}); convert it to UTF-8") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _json_documents(path: Path) -> Iterator[str]:
    text = _read_file(path)
    if path.suffix == ".json":
        records = _parse(text, str(path))
        if not isinstance(records, list):
            raise TextError(f"{path} holds a JSON {type(records).__name__}; give a list of objects")
        numbered = enumerate(records, 1)
    else:
        lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
        numbered = ((number, _parse(line, f"{path}, line {number}")) for number, line in lines)  # type: ignore[assignment]
    for number, record in numbered:
        yield record if isinstance(record, str) else record_text(record, f"{path}, record {number}")


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TextError(f"{where} is not JSON: {error}") from error


def record_text(record: Any, where: str) -> str:
    """The text of one record; `where` names it in the error."""
    if not isinstance(record, dict):
        raise TextError(f"{where} is a {type(record).__name__}, not an object with a text")
    for field in FIELDS:
        if isinstance(record.get(field), str):
            return record[field]
    raise TextError(f"{where} has none of the fields {', '.join(FIELDS)}; it has {', '.join(record) or 'none'}")


def _dataset_documents(spec: str) -> Iterator[str]:
    try:
        import datasets
    except ImportError as error:
        raise TextError(
            f"text {spec!r} is not a file; to read a dataset of that name: pip install 'trimtab[data]'"
        ) from error
    name, configuration, split = _dataset_name(spec)
    try:
        rows = datasets.load_dataset(name, configuration, split=split, streaming=True)
        yield from _first_documents(rows, spec)
    except TextError:
        raise
    except Exception as error:  # the library raises many kinds: no such set, no such split, no network
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TextError(f"text {spec!r} is neither a file nor a dataset that can be loaded: {reason}") from error


def _dataset_name(spec: str) -> tuple[str, str | None, str]:
    """Split `name[:configuration][:split]`; a lone second part is a split if it is called like one."""
    name, *rest = spec.split(":")
    if len(rest) > 2 or not all((name, *rest)):
        raise TextError(f"dataset {spec!r}: write name[:configuration][:split]")
    if len(rest) == 1 and re.match(r"(train|validation|test)\b", rest[0]):
        return name, None, rest[0]
    configuration, split = (*rest, None, None)[:2]
    return name, configuration, split or "train"


def _first_documents(rows: Iterable[Any], spec: str) -> Iterator[str]:
    """The rows' texts, as far as `MOST_CHARACTERS`."""
    characters = 0
    for number, row in enumerate(rows, 1):
        text = record_text(row, f"dataset {spec}, row {number}")
        yield text
        characters += len(text)
        if characters > MOST_CHARACTERS:
            return
