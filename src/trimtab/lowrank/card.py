"""The model card (README.md) of a low-rank checkpoint: what it is, how it was made, what it cost, how to load it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from trimtab import __version__

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@dataclass(frozen=True)
class Number:
    """One measured number before and after, ready to be read: `Number("perplexity", "WikiText-2", "29.6", "37.3")`.

    `interval` and `count` say how sure it is, e.g. "36.1 to 38.6" and "8,176 tokens".
    """

    name: str
    text: str
    before: str
    after: str
    interval: str = ""
    count: str = ""


@dataclass(frozen=True)
class Card:
    """What a model card says. `base_model` is a hub id where there is one; `numbers` may be empty."""

    title: str
    base_model: str
    base_fingerprint: str
    method: str
    command: str
    removed: float
    projection_parameters: tuple[int, int]
    total_parameters: tuple[int, int]
    file_bytes: tuple[int, int]
    calibration: str
    versions: dict[str, str]
    numbers: Sequence[Number] = ()
    license: str | None = None
    warnings: Sequence[str] = field(default=())


def model_card(card: Card) -> str:
    """The text of README.md, with the front matter that model hubs read."""
    parts = [
        _front_matter(card),
        f"# {card.title}",
        _what(card),
        _table(("", "before", "after"), _sizes(card)),
        "## What it cost",
        _numbers(card),
        "## How to load it",
        _LOADING,
        "## How it was made",
        f"```\n{card.command}\n```",
        _table(("", ""), _facts(card)),
    ]
    parts += ["## Warnings", "\n".join(f"- {warning}" for warning in card.warnings)] if card.warnings else []
    return "\n\n".join(parts) + "\n"


_LOADING = """\
The checkpoint needs Trimtab, which teaches `transformers` its low-rank layers:

```python
import trimtab
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("PATH")
tokenizer = AutoTokenizer.from_pretrained("PATH")
```

Without `import trimtab` loading fails (on the size of the first low-rank weight). For other tools,
`trimtab densify PATH OUT` writes an ordinary checkpoint of the same model, as large as the original."""


def _front_matter(card: Card) -> str:
    lines = ["library_name: transformers", "pipeline_tag: text-generation"]
    if card.license:
        lines.append(f"license: {card.license}")
    if _HUB_ID.fullmatch(card.base_model):
        lines += [f"base_model: {card.base_model}", "base_model_relation: quantized"]
    lines += ["tags:", "- trimtab", "- low-rank", "- model-compression"]
    return "\n".join(["---", *lines, "---"])


def _what(card: Card) -> str:
    return (
        f"A low-rank copy of `{card.base_model}`: **{card.removed:.1%}** of the parameters of its projections (the "
        f"large weight matrices of its layers) were removed with the method `{card.method}`. It was not trained again."
    )


def _sizes(card: Card) -> list[tuple[str, ...]]:
    def row(name: str, pair: tuple[int, int]) -> tuple[str, ...]:
        return (name, *(f"{value:,}" for value in pair))

    return [
        row("parameters in projections", card.projection_parameters),
        row("parameters, whole model", card.total_parameters),
        row("bytes of the weight files", card.file_bytes),
    ]


def _numbers(card: Card) -> str:
    if not card.numbers:
        return "Nothing was measured when this checkpoint was written; `trimtab evaluate` measures it."
    head = ("measure", "on", "before", "after", "95 % interval (after)", "count")
    return _table(head, [(n.name, n.text, n.before, n.after, n.interval, n.count) for n in card.numbers])


def _facts(card: Card) -> list[tuple[str, ...]]:
    versions = ", ".join(f"{name} {version}" for name, version in card.versions.items())
    return [
        ("base model", f"`{card.base_model}`"),
        ("sha256 of the base model's parameters", f"`{card.base_fingerprint}`"),
        ("sha256 of the weight files", "in `config.json`, `quantization_config.files`"),
        ("calibration", card.calibration),
        ("versions", versions or f"trimtab {__version__}"),
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
