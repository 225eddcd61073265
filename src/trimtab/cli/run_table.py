"""Show a finished run, and an estimate of one, to people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.report import words

if TYPE_CHECKING:
    from trimtab.report.data import Measure, RunReport
    from trimtab.run.estimate import Estimate


def print_report(report: RunReport, out: Path) -> None:
    """What went, what it cost, where it is."""
    sizes = report.sizes
    print(f"\n{report.title}: {report.method} ({report.factorizer} + {report.allocator})")
    print(
        f"  projections   {_change(sizes.projection_parameters_before, sizes.projection_parameters_after)} parameters"
    )
    print(f"  whole model   {_change(sizes.total_parameters_before, sizes.total_parameters_after)} parameters")
    before, after = words.size(sizes.file_bytes_before), words.size(sizes.file_bytes_after)
    print(f"  weight files  {before} -> {after}")
    for metric in report.metrics:
        print(f"  {metric.name}: {_values(metric.before, metric.after, metric.unit)}  ({metric.text})")
    seconds = words.seconds(sum(stage.seconds for stage in report.stages))
    print(f"  took {seconds}, at most {words.size(report.peak_memory_bytes)} of memory")
    for warning in report.warnings:
        print(f"  warning: {warning}")
    print(f"\nthe report is {out / 'report.html'}; to load the model: import trimtab; trimtab.load('{out}')")


def print_estimate(found: Estimate) -> None:
    """What a run would take."""
    dense, left = found.projection_parameters
    print(f"{found.model} in {found.dtype}: {found.coverage}")
    print(f"  {found.requested}: projections {_change(dense, left)} parameters")
    print(f"  weight files: {words.size(found.weight_bytes[0])} -> {words.size(found.weight_bytes[1])}", end="")
    print(f" (the model's own files have {words.size(found.source_bytes)})")
    stages = ", ".join(f"{name} {words.seconds(value)}" for name, value in found.seconds.items())
    print(f"  time: about {words.seconds(sum(found.seconds.values()))} ({stages})")
    print(f"  memory: about {words.size(found.memory_bytes)}")


def _change(before: int, after: int) -> str:
    return f"{words.count(before)} -> {words.count(after)} ({words.removed(before, after)})"


def _values(before: Measure | None, after: Measure | None, unit: str) -> str:
    shown = [words.measured(each.value, unit) for each in (before, after) if each is not None]
    return f"{' -> '.join(shown)} {unit if unit != 'share' else ''}".rstrip()
