"""The model, the texts and the ways to measure that the benchmarks share."""

from __future__ import annotations

import copy
import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from trimtab.compression.plan import Plan, apply_plan
from trimtab.compression.store import Store
from trimtab.evaluate.forward import bos_rule
from trimtab.evaluate.measure import Measure
from trimtab.evaluate.perplexity import perplexity
from trimtab.models.load import LoadedModel
from trimtab.run.environment import versions
from trimtab.text.sources import read_text
from trimtab.text.windows import Windows, cut_windows


@dataclass(frozen=True)
class Texts:
    """Files of the data folder: WikiText-2 as plain text, DialogSum as JSON lines with a field `dialogue`."""

    folder: Path

    def calibration(self, loaded: LoadedModel, windows: int, length: int) -> Windows:
        """The first windows of WikiText-2's validation part."""
        return self._cut(loaded, "wikitext2/valid.txt", windows, length)

    def tests(self, loaded: LoadedModel, windows: int = 16, length: int = 512) -> dict[str, Windows]:
        """What is measured: the first windows of WikiText-2's test part and of DialogSum's test dialogues."""
        return {
            "WikiText-2": self._cut(loaded, "wikitext2/test.txt", windows, length),
            "DialogSum": self._cut(loaded, "dialogsum/dialogsum.test.jsonl", windows, length),
        }

    def _cut(self, loaded: LoadedModel, name: str, windows: int, length: int) -> Windows:
        text = read_text(str(self.folder / name))
        return cut_windows(loaded.tokenizer, text, length=length, limit=windows, source=name)


def measure(model: PreTrainedModel, loaded: LoadedModel, texts: dict[str, Windows]) -> dict[str, Measure]:
    """Perplexity on every text."""
    return {
        name: perplexity(model, windows, batch_size=1, bos_id=bos_rule(loaded.tokenizer)).perplexity
        for name, windows in texts.items()
    }


def compressed(loaded: LoadedModel, plan: Plan, store: Store) -> PreTrainedModel:
    """A copy of the model with the plan applied."""
    model = copy.deepcopy(loaded.model)
    apply_plan(model, plan, store)
    return model


def machine() -> dict[str, str]:
    """Where a benchmark ran."""
    return {**versions(), "machine": platform.machine(), "threads": str(torch.get_num_threads())}


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def write(folder: Path, name: str, data: object, table: str) -> None:
    """Write NAME.json and NAME.md."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    (folder / f"{name}.md").write_text(table, "utf-8")
    print(table)


def number(value: float) -> str:
    """Three digits, or a power of ten."""
    if value >= 1e4:
        return f"{value:.0e}".replace("e+0", "e")
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
