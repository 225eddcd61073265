"""Write a report to a folder (page and JSON), and read the JSON again."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from trimtab.errors import OptionError, OutputError
from trimtab.report.codec import decode, encode
from trimtab.report.data import RunReport

PAGE = "report.html"
DATA = "report.json"
FORMAT = "trimtab-report"
FORMAT_VERSION = 1


def write_report(report: RunReport, folder: str | Path) -> Path:
    """Write `report.html` and `report.json` into `folder` and return the path of report.json.

    Each file is complete or absent, never half written. Raises OutputError where the folder cannot be written.
    """
    from trimtab.report.page import render_page

    folder = Path(folder)
    document = {"format": FORMAT, "version": FORMAT_VERSION, **encode(RunReport, report)}
    data = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    page = render_page(decode(RunReport, json.loads(data)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_atomically(folder / PAGE, page)
        _write_atomically(folder / DATA, data + "\n")
    except OSError as error:
        raise OutputError(f"cannot write the report to {folder}: {error.strerror or error}") from error
    return folder / DATA


def read_report(path: str | Path) -> RunReport:
    """Read a report from report.json, or from the folder that holds it.

    Raises OptionError where the file is missing, is not a report, is damaged, or was written by a newer format.
    """
    path = Path(path)
    file = path / DATA if path.is_dir() else path
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"cannot read the report {file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{file} is not a report: it is not JSON ({error})") from error
    _check_format(file, document)
    try:
        return decode(RunReport, document)
    except (ValueError, OverflowError) as error:
        raise OptionError(f"the report {file} is damaged: {error}") from error


def _check_format(file: Path, document: object) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise OptionError(f'{file} is not a report: it lacks "format": "{FORMAT}"')
    version = document.get("version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise OptionError(
            f"the report {file} has format version {version}; this trimtab reads up to {FORMAT_VERSION}: upgrade it"
        )


def _write_atomically(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
