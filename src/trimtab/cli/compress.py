"""`trimtab compress`: the main job."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trimtab.run.job import Job


def command(
    model: Annotated[str, typer.Argument(help="Hub id, folder, .gguf file, or 'demo'.")],
    out: Annotated[Path, typer.Argument(help="The folder to write: checkpoint, model card, report.")],
    remove: Annotated[float | None, typer.Option(help="Fraction of projection parameters to remove, as 0.1.")] = None,
    keep: Annotated[float | None, typer.Option(help="Or: the fraction of them to keep.")] = None,
    target_size: Annotated[str | None, typer.Option(help="Or: the size of the weight files, as 90MB.")] = None,
    method: Annotated[str, typer.Option(help="flrc, svd-llm, asvd, svd, two-sided (see `methods`).")] = "flrc",
    factorizer: Annotated[str | None, typer.Option(help="Another factorizer than the method's.")] = None,
    allocator: Annotated[str | None, typer.Option(help="Another allocator than the method's.")] = None,
    set: Annotated[list[str] | None, typer.Option(help="An option, as allocator.power=0.5; repeatable.")] = None,
    calibration: Annotated[
        list[str] | None,
        typer.Option(help="self (the default), a text file, JSON lines, 'pydoc' or a dataset; repeatable."),
    ] = None,
    windows: Annotated[int, typer.Option(help="Calibration windows from each source.")] = 32,
    window_length: Annotated[int, typer.Option(help="Tokens in a window.")] = 512,
    seed: Annotated[int, typer.Option(help="Seed of the text that the model writes itself.")] = 0,
    dtype: Annotated[str | None, typer.Option(help="bf16 or fp32; as stored by default.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    include_head: Annotated[bool, typer.Option("--include-head", help="Compress the head too, if untied.")] = False,
    statistics: Annotated[Path | None, typer.Option(help="Keep statistics here, or take them from here.")] = None,
    text: Annotated[str, typer.Option(help="Measure the result on this text.")] = "pydoc",
    text_windows: Annotated[int, typer.Option(help="Windows of that text.")] = 16,
    evaluate: Annotated[bool, typer.Option(help="Measure the saved result beside the original.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read headers only; estimate time, memory, size.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it is a model folder.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the report's data to this file too.")] = None,
) -> None:
    """Compress a model by low rank, measure what that cost, and write checkpoint and report to OUT."""
    from trimtab.cli.json_file import check_target
    from trimtab.compression.budget import Target, parse_size
    from trimtab.compression.methods import make_recipe
    from trimtab.run.job import Job

    if json is not None:
        check_target(json, overwrite)
    job = Job(
        model=model,
        out=out,
        target=Target(remove, keep, None if target_size is None else parse_size(target_size)),
        recipe=make_recipe(method, factorizer=factorizer, allocator=allocator, settings=set or ()),
        calibration=tuple(calibration) if calibration else None,
        windows=windows,
        window_length=window_length,
        seed=seed,
        dtype=dtype,
        device=device,
        include_head=include_head,
        statistics=statistics,
        text=text,
        text_windows=text_windows,
        evaluate=evaluate,
        command=shlex.join(["trimtab", *sys.argv[1:]]),
    )
    if dry_run:
        _estimate(job, json)
    else:
        _compress(job, resume, overwrite, json)


def _compress(job: Job, resume: bool, overwrite: bool, json: Path | None) -> None:
    from trimtab.cli.json_file import write_json
    from trimtab.cli.run_table import print_report
    from trimtab.report.codec import encode
    from trimtab.report.data import RunReport
    from trimtab.run.pipeline import compress_to_folder

    report = compress_to_folder(job, resume=resume, overwrite=overwrite)
    if json is not None:
        write_json(json, encode(RunReport, report))
    print_report(report, job.out)


def _estimate(job: Job, json: Path | None) -> None:
    from trimtab.cli.json_file import write_json
    from trimtab.cli.run_table import print_estimate
    from trimtab.run.estimate import estimate

    found = estimate(job)
    if json is not None:
        write_json(json, found.to_json())
    print_estimate(found)
