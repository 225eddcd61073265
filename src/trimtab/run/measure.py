"""Measure the saved checkpoint against the uncompressed model, and put the numbers into the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trimtab.evaluate.projection_error import projection_errors
from trimtab.evaluate.prompts import PROMPTS
from trimtab.evaluate.run import Evaluation, Sample, evaluate_against
from trimtab.lowrank.load import load
from trimtab.lowrank.ranks import low_rank_layers
from trimtab.progress import say
from trimtab.report import data
from trimtab.run.job import Job
from trimtab.run.prepare import load_base
from trimtab.text.sources import read_text
from trimtab.text.windows import cut_windows

PROMPT_COUNT, NEW_TOKENS = 8, 64
ERROR_WINDOWS = 4
BATCH_SIZE = 8

_METRICS: tuple[tuple[str, str, str, str], ...] = (
    ("perplexity", "perplexity", "", "lower"),
    ("kl_to_base", "KL to the uncompressed model", "nats a token", "lower"),
    ("stopped", "stopped by itself", data.SHARE, "none"),
    ("repeated_4grams", "repeated 4-grams", data.SHARE, "lower"),
    ("mean_length", "mean length", "tokens", "none"),
)
"""Measure of the evaluation, its name and unit for people, which way is better."""


def measure(job: Job, report: data.RunReport, folder: Path) -> data.RunReport:
    """The report with metrics, samples and the measured loss of every projection, all of the files in `folder`.

    Both models are loaded from their files; what was in memory is not used.
    """
    base = load_base(job)
    model, tokenizer = load(folder, dtype=base.model.dtype, device=base.model.device)
    windows = cut_windows(
        base.tokenizer, read_text(job.text), length=job.window_length, limit=job.text_windows, source=job.text
    )
    found = evaluate_against(
        model,
        tokenizer,
        base.model,
        base.tokenizer,
        windows=windows,
        prompts=PROMPTS[:PROMPT_COUNT],
        max_new_tokens=NEW_TOKENS,
        batch_size=BATCH_SIZE,
    )
    errors = projection_errors(model, base.model, list(low_rank_layers(model)), windows.ids_NL[:ERROR_WINDOWS])
    on_text = f"{job.text}, {len(windows)} windows of {windows.length} tokens"
    return replace(
        report,
        projections=[replace(row, measured_loss=errors.get(row.name, 0.0)) for row in report.projections],
        metrics=_metrics(found, on_text),
        samples=_samples(found.base_samples, found.samples),
        warnings=[*report.warnings, *_same_text_warning(job, report)],
    )


def _same_text_warning(job: Job, report: data.RunReport) -> list[str]:
    """Say so where the model was measured on the text that it was calibrated on."""
    if job.text not in report.calibration["text"].split(" + "):
        return []
    warning = (
        f"measured on {job.text}, which it was also calibrated on: expect a larger loss on other text (see --text)"
    )
    say(f"warning: {warning}")
    return [warning]


def _metrics(found: Evaluation, on_text: str) -> list[data.Metric]:
    on_prompts = f"{PROMPT_COUNT} built-in prompts, at most {NEW_TOKENS} new tokens"
    metrics = []
    for key, name, unit, better in _METRICS:
        on = on_text if key in ("perplexity", "kl_to_base") else on_prompts
        before, after = found.measures.get(f"base_{key}"), found.measures.get(key)
        metrics.append(data.Metric(name, unit, better, on, _plain(before), _plain(after)))  # type: ignore[arg-type]
    return metrics


def _plain(measure: object) -> data.Measure | None:
    """The evaluation's measure as the report's."""
    if measure is None:
        return None
    return data.Measure(*(getattr(measure, name) for name in ("value", "low", "high", "count")))


def _samples(before: Sequence[Sample], after: Sequence[Sample]) -> list[data.Sample]:
    return [
        data.Sample(one.prompt, one.output.text, other.output.text) for one, other in zip(before, after, strict=True)
    ]
