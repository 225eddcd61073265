"""The verdict: a few plain sentences that follow from the numbers of the run and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.report.data import Measure, Metric, RunReport
from trimtab.report.words import MINUS, count, factor, number, percent, plural, size

QUANTISATION_NOTE = (
    "For scale: plain 8-bit quantisation halves the bytes of a 16-bit file, usually at very little loss, so low rank "
    "is not the first thing to use when only bytes matter. "
    "Small models usually suffer more from low rank than large ones."
)

_BANDS = (
    (1.0, "no loss was measured on this text"),
    (1.02, "hardly a loss on this text"),
    (1.10, "a small loss on this text"),
    (1.35, "a clear loss; try the model on your own task before using it"),
    (2.0, "a heavy loss; expect worse text"),
    (10.0, "the model is badly damaged; remove less, or refine it afterwards"),
    (math.inf, "the model is broken"),
)


@dataclass(frozen=True)
class Change:
    """How a metric changed: in words, and whether that is "better", "worse" or "same" ("none": nobody can say).

    "same" means that the two 95 % intervals overlap; without intervals nobody can say.
    """

    words: str
    direction: str


def verdict(report: RunReport) -> list[str]:
    """The paragraphs of the verdict, the most important first."""
    return [f"{_size_sentence(report)} {_quality_sentence(report)}", *_others_sentence(report)]


def scale_note(report: RunReport) -> list[str]:
    """What plain 8-bit quantisation would do, in general and to this file."""
    return [QUANTISATION_NOTE, *_eight_bit_sentence(report)]


def headline_metric(metrics: Sequence[Metric]) -> Metric | None:
    """The perplexity that grew most, where one was measured before and after."""
    pairs = [metric for metric in metrics if "perplexity" in metric.name.lower() and _ratio(metric) is not None]
    return max(pairs, key=lambda metric: _sortable(_ratio(metric)), default=None)


def change(metric: Metric) -> Change | None:
    """The change of a metric from before to after; None where one of the two is missing."""
    before, after = metric.before, metric.after
    if before is None or after is None:
        return None
    if not (math.isfinite(before.value) and math.isfinite(after.value)):
        broke = metric.better != "none" and math.isfinite(before.value)
        return Change("not finite", "worse" if broke else "none")
    return Change(_change_words(before.value, after.value, metric.unit), _direction(metric, before, after))


def _change_words(before: float, after: float, unit: str) -> str:
    if unit == "share":
        points = (after - before) * 100
        sign = "+" if points >= 0.05 else MINUS if points <= -0.05 else "±"
        return f"{sign}{abs(points):.1f}\u00a0points"
    if before > 0 and after > 0:
        return times(after / before)
    difference = after - before
    return f"{'+' if difference >= 0 else ''}{number(difference)}"


def times(ratio: float) -> str:
    """A ratio as a factor: × 1.40."""
    return f"×\u00a0{factor(ratio)}"


def _direction(metric: Metric, before: Measure, after: Measure) -> str:
    if metric.better == "none" or any(map(math.isnan, (before.low, before.high, after.low, after.high))):
        return "none"
    if after.low <= before.high and before.low <= after.high:
        return "same"
    grew = after.value > before.value
    return "worse" if grew == (metric.better == "lower") else "better"


def _size_sentence(report: RunReport) -> str:
    before, after = report.sizes.file_bytes_before, report.sizes.file_bytes_after
    if after >= before:
        return f"The file did not get smaller ({size(before)} before, {size(after)} after)."
    share = percent((before - after) / before)
    gone = percent(report.realised)
    return f"{_done(report)}{gone} of the projection parameters are gone and the whole file is {share} smaller."


def _done(report: RunReport) -> str:
    """What was done, as the beginning of a sentence; nothing where no projection is listed."""
    every, factored = len(report.projections), sum(row.rank is not None for row in report.projections)
    if not every:
        return ""
    verb = "was" if factored == 1 else "were"
    return f"{count(factored)} of {plural(every, 'projection')} {verb} replaced by low-rank factors: "


def _quality_sentence(report: RunReport) -> str:
    metric = headline_metric(report.metrics)
    if metric is not None:
        return _perplexity_sentence(metric)
    if any(metric.after is not None for metric in report.metrics):
        return "Perplexity was not measured before and after; see the other measures below for what was lost."
    return (
        "Quality was not measured in this run, so nothing here says how good the model still is: run "
        "trimtab evaluate on the output before using it."
    )


def _perplexity_sentence(metric: Metric) -> str:
    ratio = _ratio(metric)
    assert ratio is not None
    assert metric.before is not None
    assert metric.after is not None
    on = f" ({metric.text})" if metric.text else ""
    if not math.isfinite(ratio):
        return f"Perplexity{on} is not a finite number any more: the model is broken."
    words = next(words for most, words in _BANDS if ratio <= most)
    values = f"from {number(metric.before.value)} to {number(metric.after.value)}"
    if ratio <= 1:
        return f"Perplexity{on} goes {values}: {words}."
    sentence = f"Perplexity{on} rises {values}, {factor(ratio)} times as high: {words}."
    if _direction(metric, metric.before, metric.after) == "same":
        sentence += " The two intervals overlap: measure on more text before relying on the exact size of the change."
    return sentence


def _others_sentence(report: RunReport) -> list[str]:
    main = headline_metric(report.metrics)
    judged = [
        (_full_name(metric, report.metrics), found.direction)
        for metric in report.metrics
        if metric is not main and (found := change(metric)) is not None and found.direction != "none"
    ]
    if not judged:
        return []
    sentences = [
        f"{word.capitalize()} beyond the 95\u00a0% intervals: {'; '.join(names)}."
        for word in ("worse", "better")
        if (names := [name for name, direction in judged if direction == word])
    ]
    unsure = sum(direction == "same" for _, direction in judged)
    if unsure:
        those = plural(unsure, "other measure")
        sentences.append(f"The intervals of {those} overlap, so this run cannot tell whether it cost anything there.")
    return [" ".join(sentences)]


def _full_name(metric: Metric, metrics: Sequence[Metric]) -> str:
    """The name of a metric, with its text where another one has the same name."""
    twins = sum(other.name == metric.name for other in metrics)
    return f"{metric.name} ({metric.text})" if twins > 1 and metric.text else metric.name


def _eight_bit_sentence(report: RunReport) -> list[str]:
    sizes = report.sizes
    width = sizes.file_bytes_before / sizes.total_parameters_before if sizes.total_parameters_before else 0
    if not 1.8 < width < 2.2:
        return []
    eight, reached = sizes.file_bytes_before // 2, sizes.file_bytes_after
    if reached <= eight:
        return []
    return [f"Plain 8-bit would make this file about {size(eight)}; this run makes it {size(reached)}."]


def _ratio(metric: Metric) -> float | None:
    if metric.before is None or metric.after is None or not metric.before.value > 0:
        return None
    return metric.after.value / metric.before.value


def _sortable(ratio: float | None) -> float:
    return math.inf if ratio is None or math.isnan(ratio) else ratio
