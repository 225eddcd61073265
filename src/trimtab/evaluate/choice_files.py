"""Read multiple-choice questions: PIQA, ARC in its three circulating forms, and a plain form of our own.

The plain form, one JSON object a line (or a list of them in a `.json` file):

    {"question": "Where do bees live?", "choices": ["in a hive", "in a pond"], "answer": 0}

`answer` is the place of the right choice, counted from 0, or its exact text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.errors import TextError
from trimtab.evaluate.rows import Row, fields_of, read_file, read_rows


@dataclass(frozen=True)
class ChoiceItem:
    """One question, its choices (two or more) and the place of the right one, counted from 0."""

    question: str
    choices: tuple[str, ...]
    answer: int


def read_choices(path: Path) -> list[ChoiceItem]:
    """The questions of a file, its form told from the names of its fields.

    PIQA's labels are taken from a field `label`, else from `NAME-labels.lst` beside `NAME.jsonl`.

    Raises TextError for a missing or empty file, unknown fields (the fields found are named), labels that do not
    match the questions in number, or an answer that is none of the choices.
    """
    rows = read_rows(path)
    if {"goal", "sol1", "sol2"} <= rows[0].keys() and "label" not in rows[0]:
        rows = _with_labels(rows, path)
    return [_item(row, f"{path}, row {number}") for number, row in enumerate(rows, 1)]


def _with_labels(rows: list[Row], path: Path) -> list[Row]:
    """PIQA as published: the labels are lines of 0 or 1 in a file of their own."""
    labels_path = path.with_name(f"{path.stem}-labels.lst")
    if not labels_path.exists():
        raise TextError(f"{path} has no field 'label' and its labels are not beside it in {labels_path.name}")
    labels = read_file(labels_path).split()
    if len(labels) != len(rows):
        raise TextError(f"{labels_path} holds {len(labels)} labels for the {len(rows)} questions of {path.name}")
    return [{**row, "label": label} for row, label in zip(rows, labels, strict=True)]


def _item(row: Row, where: str) -> ChoiceItem:
    for fields, read in _FORMS:
        if set(fields) <= row.keys():
            return _checked(*_parts(read, row, where), where)
    known = "; ".join(", ".join(fields) for fields, _ in _FORMS)
    raise TextError(f"{where} has the fields {fields_of(row)}; a question needs one of these sets: {known}")


def _parts(read: Callable[[Row], tuple[str, list[str], Any]], row: Row, where: str) -> tuple[str, list[str], Any]:
    """Question, choices and answer as the form has them; any other content of the fields is the file's mistake."""
    try:
        return read(row)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise TextError(f"{where}: the contents of its fields {fields_of(row)} are not as expected") from None


def _checked(question: Any, choices: list[str], answer: Any, where: str) -> ChoiceItem:
    if not isinstance(question, str) or not question.strip():
        raise TextError(f"{where} has no question text")
    if len(choices) < 2 or not all(isinstance(choice, str) and choice.strip() for choice in choices):
        raise TextError(f"{where} needs two or more choices, none of them empty")
    if isinstance(answer, str) and answer in choices:
        answer = choices.index(answer)
    if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < len(choices):
        raise TextError(f"{where}: the answer {answer!r} is none of its {len(choices)} choices")
    return ChoiceItem(question.strip(), tuple(choice.strip() for choice in choices), answer)


def _plain(row: Row) -> tuple[str, list[str], Any]:
    return row["question"], list(row["choices"]), row["answer"]


def _piqa(row: Row) -> tuple[str, list[str], Any]:
    return row["goal"], [row["sol1"], row["sol2"]], int(row["label"])


def _arc(row: Row) -> tuple[str, list[str], Any]:
    """ARC as published: {"question": {"stem", "choices": [{"text", "label"}]}, "answerKey"}."""
    choices = row["question"]["choices"]
    labels = [choice["label"] for choice in choices]
    return row["question"]["stem"], [choice["text"] for choice in choices], labels.index(row["answerKey"])


def _arc_columns(row: Row) -> tuple[str, list[str], Any]:
    """ARC as on the hub: {"question", "choices": {"text": [...], "label": [...]}, "answerKey"}."""
    return row["question"], list(row["choices"]["text"]), row["choices"]["label"].index(row["answerKey"])


def _arc_any(row: Row) -> tuple[str, list[str], Any]:
    return _arc(row) if isinstance(row["question"], dict) else _arc_columns(row)


def _arc_instruction(row: Row) -> tuple[str, list[str], Any]:
    """ARC as an instruction: "...: QUESTION\\n\\nAnswer1: TEXT Answer2: TEXT ...\\n\\nAnswer format: ..."."""
    body, answers = re.split(r"\n\s*(?=Answer1:)", row["instruction"], maxsplit=1)
    answers = re.split(r"\n\s*Answer format:", answers, maxsplit=1)[0]
    choices = [part.strip() for part in re.split(r"\s*Answer\d+:", answers)[1:]]
    question = body.split("question:", 1)[-1]
    return question, choices, int(row["answer"].removeprefix("answer")) - 1


_FORMS: tuple[tuple[tuple[str, ...], Callable[[Row], tuple[str, list[str], Any]]], ...] = (
    (("question", "choices", "answer"), _plain),
    (("goal", "sol1", "sol2", "label"), _piqa),
    (("question", "answerKey"), _arc_any),
    (("instruction", "answer"), _arc_instruction),
)
