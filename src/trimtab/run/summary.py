"""A run as a report and as a model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from torch import Tensor

from trimtab.compression.plan import Plan
from trimtab.compression.statistics import Statistics
from trimtab.lowrank.card import Card, Number, model_card
from trimtab.lowrank.ranks import projection_parameters
from trimtab.models.demo import demo_file
from trimtab.models.headers import file_bytes
from trimtab.models.source import ModelSource
from trimtab.report import words
from trimtab.report.data import Measure, Metric, ProjectionRow, RunReport, Sizes, Stage
from trimtab.run.environment import versions
from trimtab.run.job import Job
from trimtab.run.prepare import Prepared
from trimtab.run.workspace import StageUse

_DEMO_NAME, _DEMO_LICENSE = "SmolLM2-135M-Instruct", "apache-2.0"


def draft(job: Job, prepared: Prepared, statistics: Statistics, plan: Plan, warnings: Sequence[str]) -> RunReport:
    """All that is known of a run before its checkpoint is written and measured."""
    return RunReport(
        title=model_name(job),
        model=job.model,
        command=job.command,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        method=job.recipe.method,
        factorizer=job.recipe.factorizer,
        allocator=job.recipe.allocator,
        requested=str(job.target),
        realised=plan.removed,
        coverage=prepared.coverage.share,
        sizes=_sizes(prepared, plan),
        projections=projection_rows(plan, statistics.importances.get("fisher", {})),
        calibration=_calibration(statistics),
        versions=versions(),
        warnings=[*warnings, *_size_warnings(prepared)],
    )


def finished(report: RunReport, stages: Mapping[str, StageUse], file_bytes_after: int) -> RunReport:
    """The report with what the run used and the size of the file that it wrote."""
    return replace(
        report,
        sizes=replace(report.sizes, file_bytes_after=file_bytes_after),
        stages=[Stage(name, used.seconds) for name, used in stages.items()],
        peak_memory_bytes=max((used.peak_bytes for used in stages.values()), default=0),
    )


def projection_rows(plan: Plan, importances: Mapping[str, float]) -> list[ProjectionRow]:
    """One row a projection: its rank, its parameters, its importance and what it is expected to lose."""
    return [
        ProjectionRow(
            name=each.name,
            layer=each.layer,
            kind=each.kind,
            out_features=each.out_features,
            in_features=each.in_features,
            rank=plan.ranks[each.name],
            parameters_before=each.parameters,
            parameters_after=projection_parameters(each, plan.ranks[each.name]),
            importance=importances.get(each.name),
            predicted_loss=plan.predicted[each.name],
        )
        for each in plan.projections
    ]


def card(job: Job, report: RunReport, fingerprint: str) -> str:
    """The text of the checkpoint's README.md."""
    sizes = report.sizes
    return model_card(
        Card(
            title=f"{report.title}, {report.realised:.0%} of its projections removed",
            base_model=f"{_DEMO_NAME} (trimtab's demo)" if job.model == "demo" else job.model,
            base_fingerprint=fingerprint,
            method=report.method,
            command=report.command,
            removed=report.realised,
            projection_parameters=(sizes.projection_parameters_before, sizes.projection_parameters_after),
            total_parameters=(sizes.total_parameters_before, sizes.total_parameters_after),
            file_bytes=(sizes.file_bytes_before, sizes.file_bytes_after),
            calibration=", ".join(f"{key} {value}" for key, value in report.calibration.items()),
            versions=report.versions,
            numbers=[_number(metric) for metric in report.metrics],
            license=_DEMO_LICENSE if job.model == "demo" else None,
            warnings=report.warnings,
        )
    )


def model_name(job: Job) -> str:
    """What people call the model of a job."""
    return _DEMO_NAME if job.model == "demo" else Path(job.model).expanduser().resolve().name


def _number(metric: Metric) -> Number:
    def text(measure: Measure | None) -> str:
        return "" if measure is None else words.measured(measure.value, metric.unit)

    after, interval, count = metric.after, "", ""
    if after:
        interval = f"{text(replace(after, value=after.low))} to {text(replace(after, value=after.high))}"
        count = words.count(after.count)
    return Number(metric.name, metric.text, text(metric.before), text(after), interval, count)


def _sizes(prepared: Prepared, plan: Plan) -> Sizes:
    """Parameters and bytes; a file's bytes are those of its tensors, until it is written."""
    parameters = dict(prepared.model.named_parameters())
    total, total_bytes = sum(each.numel() for each in parameters.values()), sum(map(_bytes, parameters.values()))
    before, after = sum(each.parameters for each in plan.projections), plan.parameters
    width = parameters[f"{plan.projections[0].name}.weight"].element_size()
    return Sizes(
        projection_parameters_before=before,
        projection_parameters_after=after,
        total_parameters_before=total,
        total_parameters_after=total - before + after,
        projection_bytes_before=before * width,
        projection_bytes_after=after * width,
        file_bytes_before=total_bytes,
        file_bytes_after=total_bytes - (before - after) * width,
    )


def _calibration(statistics: Statistics) -> dict[str, str]:
    windows = statistics.windows
    facts = {
        "text": " + ".join(note.spec for note in windows.sources),
        "windows": f"{len(windows)} of {windows.length} tokens",
        "tokens": words.count(windows.tokens),
        "sha256 of the token ids": windows.fingerprint[:16],
    }
    seeds = {str(note.seed) for note in windows.sources if note.seed is not None}
    return facts | ({"seed": ", ".join(sorted(seeds))} if seeds else {})


def _size_warnings(prepared: Prepared) -> list[str]:
    """Say so where the model's own file is a smaller, quantised one."""
    unpacked, packed = sum(_bytes(each) for each in prepared.model.parameters()), _gguf_bytes(prepared.source)
    if packed is None or packed >= unpacked:
        return []
    return [
        f"the model came from a quantised GGUF file of {words.size(packed)}; sizes here are of the unpacked model, and "
        f"the compressed checkpoint is not quantised: it may be larger than that file"
    ]


def _gguf_bytes(source: ModelSource) -> int | None:
    """Bytes of the GGUF file that the model came from, if it did."""
    if source.kind == "demo":
        return demo_file().stat().st_size
    return None if source.gguf_file is None else file_bytes(source)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
