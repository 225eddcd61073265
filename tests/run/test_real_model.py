"""The main job on a real language model (SmolLM2-135M-Instruct)."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import trimtab
from trimtab.compression.budget import Target
from trimtab.compression.methods import make_recipe
from trimtab.models.load import load_model
from trimtab.run.api import Planned
from trimtab.run.job import Job
from trimtab.run.pipeline import compress_to_folder
from trimtab.text.windows import cut_windows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def planned() -> Planned:
    """FLRC at 20 % on 8 windows of 256 tokens of the standard library's manual."""
    model, tokenizer = trimtab.load("demo")
    return trimtab.plan(model, tokenizer, remove=0.2, calibration="pydoc", windows=8, window_length=256)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The same through the command's way, from model to folder."""
    return Job(
        model="demo",
        out=tmp_path_factory.mktemp("real") / "out",
        target=Target(remove=0.2),
        recipe=make_recipe("flrc"),
        calibration=("pydoc",),
        windows=8,
        window_length=256,
        text_windows=4,
    )


LOGITS = """
import sys, torch, trimtab
model, _ = trimtab.load(sys.argv[1])
with torch.no_grad():
    torch.save(model(torch.load(sys.argv[2])).logits, sys.argv[3])
"""


def test_saved_files_compute_what_the_model_in_memory_does(planned: Planned, job: Job, tmp_path: Path) -> None:
    report = compress_to_folder(job)
    metrics = {metric.name: metric for metric in report.metrics}
    perplexity = metrics["perplexity"]
    assert perplexity.before is not None
    assert perplexity.after is not None
    assert 1 < perplexity.after.value / perplexity.before.value < 3
    assert report.coverage == pytest.approx(0.789, abs=0.001)
    assert {row.name: row.rank for row in report.projections} == planned.ranks
    loaded = load_model("demo")
    ids_1T = loaded.tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    in_memory = dataclasses.replace(planned, model=loaded.model).apply()
    torch.save(ids_1T, tmp_path / "ids.pt")
    arguments = [str(job.out), str(tmp_path / "ids.pt"), str(tmp_path / "logits.pt")]
    subprocess.run([sys.executable, "-c", LOGITS, *arguments], check=True)
    with torch.no_grad():
        assert torch.equal(torch.load(tmp_path / "logits.pt"), in_memory(ids_1T).logits)


def test_better_methods_lose_less(planned: Planned) -> None:
    """On a real model the order of the field's results holds: plain SVD breaks it, FLRC loses least of the three."""
    losses = {"flrc": loss(planned)}
    for method in ("svd-llm", "svd"):
        model, tokenizer = trimtab.load("demo")
        losses[method] = loss(trimtab.plan(model, tokenizer, method=method, remove=0.2, statistics=planned.statistics))
    assert losses["flrc"] < losses["svd-llm"] - 0.1
    assert losses["svd-llm"] < losses["svd"] - 3


def loss(plan: Planned) -> float:
    """Nats per token of a copy of the model under a plan, on windows that were not calibrated on."""
    loaded = load_model("demo")
    model = dataclasses.replace(plan, model=loaded.model).apply()
    from trimtab.text.sources import read_text

    ids_NL = cut_windows(loaded.tokenizer, read_text("pydoc"), length=256, limit=16).ids_NL[12:]
    with torch.no_grad():
        return float(model(input_ids=ids_NL, labels=ids_NL).loss)


def test_dequantised_gguf_can_be_saved_and_loads_the_same(tmp_path: Path) -> None:
    from trimtab.models.demo import demo_file

    loaded = load_model(str(demo_file()))
    loaded.save(tmp_path / "plain")
    again = load_model(str(tmp_path / "plain"))
    ids_1T = loaded.tokenizer("Once upon a time", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        assert torch.equal(loaded.model(ids_1T).logits, again.model(ids_1T).logits)
