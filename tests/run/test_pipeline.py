"""The main job, end to end, on every architecture and method."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import trimtab
from tests.run.conftest import MakeJob
from tests.tiny import ARCHITECTURES, VOCABULARY
from trimtab.compression.methods import METHODS, make_recipe
from trimtab.lowrank.checkpoint import read_config
from trimtab.lowrank.ranks import rank_map
from trimtab.models.load import load_model
from trimtab.models.projections import find_projections
from trimtab.report.write import read_report
from trimtab.run.pipeline import compress_to_folder

IDS_BT = torch.arange(3, 3 + 2 * 24).reshape(2, 24) % VOCABULARY


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_becomes_a_smaller_loadable_checkpoint(arch: str, job: MakeJob) -> None:
    asked = job(arch)
    report = compress_to_folder(asked)
    base, (model, tokenizer) = load_model(asked.model).model, trimtab.load(asked.out)
    projections = find_projections(base)
    dense = sum(each.parameters for each in projections)
    ranks = rank_map(model)
    kept = sum(
        ranks[each.name] * (each.out_features + each.in_features) if each.name in ranks else each.parameters
        for each in projections
    )
    widest = max(each.out_features + each.in_features for each in projections)
    assert 0.7 * dense - widest < kept <= 0.7 * dense
    assert report.realised == pytest.approx(1 - kept / dense)
    assert model.num_parameters() == base.num_parameters() - dense + kept == report.sizes.total_parameters_after
    weights = sum(each.numel() * each.element_size() for each in load_file(asked.out / "model.safetensors").values())
    assert 0 < report.sizes.file_bytes_after - weights < 0.2 * weights + 30_000
    assert torch.isfinite(model(IDS_BT).logits).all()
    assert tokenizer.chat_template is not None
    assert {metric.name for metric in report.metrics} >= {"perplexity", "KL to the uncompressed model"}
    assert read_report(asked.out) == report
    assert "# " in (asked.out / "README.md").read_text()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_meets_the_budget_and_the_report_says_what_it_did(method: str, job: MakeJob) -> None:
    asked = job(method=method)
    report = compress_to_folder(asked)
    assert 0.3 <= report.realised < 0.4
    assert (report.method, report.factorizer, report.allocator) == (
        method,
        METHODS[method].factorizer,
        METHODS[method].allocator,
    )
    measured = [row.measured_loss for row in report.projections if row.rank is not None]
    assert all(0 < loss < 1.5 for loss in measured)
    assert all(row.measured_loss == 0 for row in report.projections if row.rank is None)
    config = read_config(asked.out)
    assert config.made["method"] == method
    assert config.made["removed"] == pytest.approx(report.realised, abs=1e-6)


def test_the_predicted_loss_is_what_the_calibration_text_shows(job: MakeJob) -> None:
    """Measured on the calibration text itself, the loss of the local outputs is the predicted one."""
    report = compress_to_folder(job(method="svd-llm"))
    for row in report.projections:
        if row.rank is not None:
            assert row.measured_loss == pytest.approx(row.predicted_loss, rel=2e-3)


LOGITS = """
import sys, torch, trimtab
model, _ = trimtab.load(sys.argv[1])
torch.save(model(torch.load(sys.argv[2])).logits, sys.argv[3])
"""


@pytest.mark.parametrize(("dtype", "tolerance"), [("fp32", 1e-5), ("bf16", 0.0)])
def test_a_new_process_computes_what_the_model_in_memory_did(
    dtype: str, tolerance: float, job: MakeJob, tmp_path: Path
) -> None:
    asked = job(dtype=dtype)
    compress_to_folder(asked)
    loaded = load_model(asked.model, dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[dtype])
    text = Path(asked.calibration[0]).read_text()
    windows = trimtab_windows(loaded.tokenizer, text, asked.windows, asked.window_length)
    in_memory = trimtab.compress(loaded.model, loaded.tokenizer, remove=0.3, calibration=windows)
    torch.save(IDS_BT, tmp_path / "ids.pt")
    arguments = [str(asked.out), str(tmp_path / "ids.pt"), str(tmp_path / "logits.pt")]
    subprocess.run([sys.executable, "-c", LOGITS, *arguments], check=True)
    with torch.no_grad():
        difference = (torch.load(tmp_path / "logits.pt") - in_memory(IDS_BT).logits).abs().max()
    assert difference <= tolerance


def trimtab_windows(tokenizer, text, windows, length):  # type: ignore[no-untyped-def]
    from trimtab.text.windows import cut_windows

    return cut_windows(tokenizer, text, length=length, limit=windows)


def test_a_statistics_file_serves_other_budgets_and_methods(job: MakeJob, tmp_path: Path) -> None:
    path = tmp_path / "statistics.safetensors"
    first = compress_to_folder(job(statistics=path, out=tmp_path / "first"))
    written = path.stat().st_mtime_ns
    again = compress_to_folder(job(statistics=path, out=tmp_path / "again"))
    other = compress_to_folder(job(method="two-sided", remove=0.5, statistics=path, out=tmp_path / "other"))
    assert path.stat().st_mtime_ns == written
    assert [row.rank for row in first.projections] == [row.rank for row in again.projections]
    assert other.realised >= 0.5
    assert "statistics" not in {stage.name for stage in other.stages}


def test_self_written_calibration_and_two_sources_at_once(job: MakeJob, text: Path, tmp_path: Path) -> None:
    report = compress_to_folder(job(calibration=None))
    assert report.calibration["text"] == "self"
    mixed = compress_to_folder(job(calibration=("self", str(text)), out=tmp_path / "mixed"))
    assert mixed.calibration["text"] == f"self + {text}"
    assert mixed.calibration["windows"].startswith("8 of 32")
    config = read_config(tmp_path / "mixed")
    assert [source["windows"] for source in config.made["calibration"]["sources"]] == [4, 4]


def test_too_little_text_is_warned_about(job: MakeJob) -> None:
    report = compress_to_folder(job(windows=1000))
    assert any("windows" in warning for warning in report.warnings)
    few = compress_to_folder(job(windows=2, out=job().out.with_name("few")))
    assert any("calibration tokens" in warning for warning in few.warnings)


def test_a_target_size_is_met_by_the_file_itself(job: MakeJob) -> None:
    from trimtab.compression.budget import Target

    whole = sum(file.stat().st_size for file in Path(job().model).glob("*.safetensors"))
    target = int(whole * 0.85)
    compress_to_folder(job(target=Target(size=target)))
    written = sum(file.stat().st_size for file in job().out.glob("*.safetensors"))
    assert 0.9 * target < written <= target


def test_free_choice_of_factorizer_and_allocator(job: MakeJob) -> None:
    recipe = make_recipe(factorizer="whitened", allocator="loss-aware", settings=["factorizer.floor=1e-6"])
    report = compress_to_folder(job(recipe=recipe))
    assert report.method == "custom"
    assert read_config(job().out).made["factorizer"] == {"name": "whitened", "floor": 1e-6}


def test_without_evaluation_nothing_is_measured_and_the_report_says_so(job: MakeJob) -> None:
    report = compress_to_folder(job(evaluate=False))
    assert report.metrics == []
    assert json.loads((job().out / "report.json").read_text())["metrics"] == []


def test_an_fp16_model_is_read_and_written_in_bf16(job: MakeJob, tmp_path: Path) -> None:
    from tests.tiny import save_tiny

    folder = save_tiny("llama", tmp_path / "fp16", dtype=torch.float16)
    compress_to_folder(job(model=str(folder)))
    model, _ = trimtab.load(job().out)
    assert model.dtype == torch.bfloat16
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32


def test_measuring_on_the_calibration_text_is_warned_about(job: MakeJob, tmp_path: Path) -> None:
    same = compress_to_folder(job(out=tmp_path / "same"))
    assert any("also calibrated on" in warning for warning in same.warnings)
    other = compress_to_folder(job(text="pydoc", out=tmp_path / "other"))
    assert not any("also calibrated on" in warning for warning in other.warnings)
