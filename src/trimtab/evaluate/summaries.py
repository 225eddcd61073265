"""Summaries of dialogues, scored with ROUGE against one or several references.

A file has one JSON object a line with a `dialogue` and its reference in `summary`, or several in `summary1`,
`summary2`, ... (the two forms of DialogSum).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trimtab.errors import TextError
from trimtab.evaluate.generation import Output, generate_batch
from trimtab.evaluate.health import Health, health
from trimtab.evaluate.measure import Measure, bootstrap_mean
from trimtab.evaluate.rows import Row, fields_of, first, read_rows

ROUGE_KINDS = ("rouge1", "rouge2", "rougeL")

PROMPT = "Summarize the following dialogue in one or two sentences.\n\n{dialogue}"


@dataclass(frozen=True)
class SummaryItem:
    """A dialogue and its reference summaries (at least one)."""

    dialogue: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class SummaryResult:
    """ROUGE F1 by kind (`rouge1`, `rouge2`, `rougeL`; 0 to 1), health of the outputs, and the outputs."""

    rouge: dict[str, Measure]
    health: Health
    outputs: tuple[Output, ...]


def read_summaries(path: Path) -> list[SummaryItem]:
    """The dialogues of a file.

    Raises TextError for a missing or empty file, or a row without dialogue or reference (its fields are named).
    """
    return [_item(row, f"{path}, row {number}") for number, row in enumerate(read_rows(path), 1)]


def _item(row: Row, where: str) -> SummaryItem:
    references = [row[key] for key in row if re.fullmatch(r"summary\d*", key) and row[key] not in ("", None)]
    if "dialogue" not in row or not references:
        raise TextError(
            f"{where} has the fields {fields_of(row)}; a summary task needs dialogue, and summary or summary1, ..."
        )
    for text in (row["dialogue"], *references):
        if not isinstance(text, str) or not text.strip():
            raise TextError(f"{where}: its dialogue or a summary is {json.dumps(text)[:40]}, not a text")
    return SummaryItem(row["dialogue"], tuple(references))


def summaries(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    items: Sequence[SummaryItem],
    *,
    limit: int | None = None,
    max_new_tokens: int = 128,
    batch_size: int = 8,
) -> SummaryResult:
    """Let the model summarise the first `limit` dialogues, greedily, in its chat template where it has one.

    ROUGE is rouge-score's F1 with stemming; of several references the best counts, for each kind by itself. The
    95 % interval: percentile bootstrap over dialogues.

    Raises OptionError for a limit below 1, and what `generate_batch` raises.
    """
    items = first(items, limit)
    outputs = generate_batch(
        model,
        tokenizer,
        [PROMPT.format(dialogue=item.dialogue) for item in items],
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        description="summaries",
    )
    scores = rouge_scores([output.text for output in outputs], [item.references for item in items])
    return SummaryResult(
        rouge={kind: bootstrap_mean(values, "F1") for kind, values in scores.items()},
        health=health([output.ids for output in outputs], [output.stopped for output in outputs]),
        outputs=tuple(outputs),
    )


def rouge_scores(texts: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, list[float]]:
    """F1 of each text against the best of its references, by kind of ROUGE (Lin 2004)."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(ROUGE_KINDS), use_stemmer=True)
    scores = [scorer.score_multi(list(own), text) for text, own in zip(texts, references, strict=True)]
    return {kind: [score[kind].fmeasure for score in scores] for kind in ROUGE_KINDS}
