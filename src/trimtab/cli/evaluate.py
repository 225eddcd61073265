"""`trimtab evaluate`: measure a model, alone or beside the one it came from."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimtab.errors import OptionError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from trimtab.evaluate.run import Evaluation
    from trimtab.text.windows import Windows

_HARNESS = "lm-eval:"


def command(
    model: Annotated[str, typer.Argument(help="Hub id, folder, .gguf file, or 'demo'.")],
    against: Annotated[str | None, typer.Option(help="The uncompressed model: is measured beside.")] = None,
    text: Annotated[str, typer.Option(help="Perplexity on this: a file, a dataset, or 'pydoc'.")] = "pydoc",
    window_length: Annotated[int, typer.Option(help="Tokens in a window.")] = 512,
    windows: Annotated[int, typer.Option(help="How many windows, from the start of the text.")] = 16,
    stride: Annotated[int | None, typer.Option(help="Let windows overlap: start one every so many tokens.")] = None,
    summaries: Annotated[Path | None, typer.Option(help="Dialogues with references, JSON lines: ROUGE.")] = None,
    choices: Annotated[str | None, typer.Option(help="PIQA, ARC or plain file, or lm-eval:task1,task2.")] = None,
    prompts: Annotated[Path | None, typer.Option(help="Prompts to answer, one a line (16 are built in).")] = None,
    health: Annotated[bool, typer.Option(help="Let the model answer prompts: does it stop, repeat?")] = True,
    limit: Annotated[int | None, typer.Option(help="Only the first so many summaries and choices.")] = None,
    max_new_tokens: Annotated[int, typer.Option(help="The longest answer or summary.")] = 128,
    json: Annotated[Path | None, typer.Option(help="Write all numbers to this file.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the JSON file if it exists.")] = False,
    dtype: Annotated[str | None, typer.Option(help="bf16, fp16 or fp32; as stored by default.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    batch_size: Annotated[int, typer.Option(help="Windows, choices or prompts at a time.")] = 8,
) -> None:
    """Measure a model: perplexity, divergence, multiple choice, summaries, health of what it writes."""
    from trimtab.cli.json_file import check_target, write_json

    _check_numbers(windows=windows, limit=limit, batch_size=batch_size, max_new_tokens=max_new_tokens)
    _check_lengths(window_length, stride)
    if json is not None:
        check_target(json, overwrite)
    tasks = _read_tasks(choices, summaries, prompts, health, limit)
    tasks.generation = {"limit": limit, "max_new_tokens": max_new_tokens, "batch_size": batch_size}
    work = _Work(model, against, text, window_length, windows, stride, dtype, device, tasks)
    start = time.monotonic()
    result = work.run()
    _print(result, work)
    if json is not None:
        write_json(json, {**result.to_json(), **work.about(), "seconds": round(time.monotonic() - start, 1)})


@dataclass
class _Tasks:
    """What is measured besides the text: keyword arguments of `evaluate`, and on which files."""

    arguments: dict[str, Any] = field(default_factory=dict)
    on: dict[str, str] = field(default_factory=dict)
    generation: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Work:
    model: str
    against: str | None
    text: str
    window_length: int
    windows: int
    stride: int | None
    dtype: str | None
    device: str
    tasks: _Tasks
    fingerprint: str = ""

    def run(self) -> Evaluation:
        """Read the text, load what is measured, measure."""
        from trimtab.evaluate.run import evaluate, evaluate_against
        from trimtab.lowrank.load import load
        from trimtab.models.placement import device_of, dtype_of
        from trimtab.text.sources import read_text

        where: dict[str, Any] = {"dtype": dtype_of(self.dtype), "device": device_of(self.device)}
        content = read_text(self.text)
        model, tokenizer = load(self.model, **where)
        windows = self._cut(tokenizer, content)
        options = {"windows": windows, "stride": self.stride, **self.tasks.arguments, **self.tasks.generation}
        if self.against is None:
            return evaluate(model, tokenizer, **options)
        base, base_tokenizer = load(self.against, **where)
        return evaluate_against(model, tokenizer, base, base_tokenizer, **options)

    def _cut(self, tokenizer: PreTrainedTokenizerBase, content: str) -> Windows:
        from trimtab.progress import say
        from trimtab.text.windows import cut_windows

        found = cut_windows(tokenizer, content, length=self.window_length, limit=self.windows, source=self.text)
        if len(found) < self.windows:
            say(f"{self.text} gave {len(found)} windows of {self.window_length} tokens, not {self.windows}")
        steps = "" if self.stride is None else f", one every {self.stride} tokens"
        self.tasks.on = {"text": f"{self.text}, {len(found)} x {self.window_length} tokens{steps}", **self.tasks.on}
        self.fingerprint = found.fingerprint
        return found

    def about(self) -> dict[str, Any]:
        """What the numbers are of, for the JSON file."""
        from importlib.metadata import version

        return {
            "model": self.model,
            "against": self.against,
            "on": self.tasks.on,
            "text_fingerprint": self.fingerprint,
            "dtype": self.dtype or "as stored",
            "device": self.device,
            **self.tasks.generation,
            "command": sys.argv,
            "versions": {name: version(name) for name in ("trimtab", "torch", "transformers")},
        }


def _check_numbers(**numbers: int | None) -> None:
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise OptionError(f"--{name.replace('_', '-')} must be at least 1, not {value}")


def _check_lengths(window_length: int, stride: int | None) -> None:
    if window_length < 2:
        raise OptionError(
            f"--window-length must be at least 2, not {window_length}: one token leaves nothing to predict"
        )
    if stride is not None and not 1 <= stride <= window_length:
        raise OptionError(f"--stride must lie between 1 and the window length {window_length}, not {stride}")


def _read_tasks(
    choices: str | None, summaries: Path | None, prompts: Path | None, health: bool, limit: int | None
) -> _Tasks:
    """Read every file before a model is loaded, so that a mistake costs no time."""
    tasks = _Tasks()
    if choices is not None:
        _read_choices(tasks, choices, limit)
    if summaries is not None:
        from trimtab.evaluate.summaries import read_summaries

        tasks.arguments["summaries"] = items = read_summaries(summaries)
        tasks.on["summaries"] = _first(str(summaries), len(items), limit)
    if prompts is not None or (health and summaries is None):
        from trimtab.evaluate.prompts import PROMPTS, read_prompts

        asked = read_prompts(prompts) if prompts is not None else PROMPTS
        tasks.arguments["prompts"] = asked
        tasks.on["answers"] = f"{prompts or 'built-in'}, {len(asked)} prompts"
    return tasks


def _read_choices(tasks: _Tasks, choices: str, limit: int | None) -> None:
    if choices.startswith(_HARNESS):
        from trimtab.evaluate.harness import check_installed

        names = [name.strip() for name in choices.removeprefix(_HARNESS).split(",") if name.strip()]
        if not names:
            raise OptionError("--choices lm-eval: names no task: write for example lm-eval:piqa,arc_easy")
        check_installed()
        tasks.arguments["harness"] = names
        tasks.on["choices"] = f"lm-eval {', '.join(names)}"
    else:
        from trimtab.evaluate.choice_files import read_choices

        tasks.arguments["choices"] = items = read_choices(Path(choices))
        tasks.on["choices"] = _first(choices, len(items), limit)


def _first(name: str, count: int, limit: int | None) -> str:
    return f"{name}, all {count}" if limit is None or limit >= count else f"{name}, first {limit} of {count}"


def _print(result: Evaluation, work: _Work) -> None:
    from trimtab.cli.measures_table import measures_table

    print(work.model if work.against is None else f"{work.model} against {work.against}", end="\n\n")
    print(measures_table(result.measures), end="\n\n")
    for what, on in work.tasks.on.items():
        print(f"{what}: {on}")
    if result.tokens is not None:
        print(f"predictions behind the perplexity: {result.tokens:,}")
