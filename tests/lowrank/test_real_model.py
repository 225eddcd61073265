"""The whole way with SmolLM2-135M-Instruct."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.lowrank.conftest import make_low_rank
from trimtab.lowrank.checkpoint import save_checkpoint
from trimtab.lowrank.densify import densify
from trimtab.lowrank.output import fresh_folder
from trimtab.models.load import LoadedModel

COMPARE = """
import sys, torch
import trimtab
from transformers import AutoModelForCausalLM
reference = torch.load(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[2], dtype=reference["logits"].dtype)
with torch.no_grad():
    print((model(reference["ids"]).logits.float() - reference["logits"].float()).abs().max().item())
"""


@pytest.mark.slow
def test_logits_of_the_saved_files_are_those_of_the_model_in_memory(smollm: LoadedModel, tmp_path: Path) -> None:
    model = copy.deepcopy(smollm.model)
    make_low_rank(model, lambda each: each.break_even // 2 if each.layer % 10 == 0 else None)
    ids_BT = smollm.tokenizer("A ship turns with a small surface.", return_tensors="pt")["input_ids"]
    for dtype, tolerance in ((torch.bfloat16, 0.0), (torch.float32, 1e-5)):
        out = tmp_path / str(dtype)
        for parameter in model.parameters():  # `model.to` would round the rotary frequencies too
            parameter.data = parameter.data.to(dtype)
        with fresh_folder(out) as folder:
            save_checkpoint(model, smollm.tokenizer, folder, made={}, max_shard_size="100MB")
        with torch.no_grad():
            torch.save({"ids": ids_BT, "logits": model(ids_BT).logits}, tmp_path / "reference")
        command = [sys.executable, "-c", COMPARE, str(tmp_path / "reference"), str(out)]
        threads = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=threads)
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) <= tolerance
    densify(out, tmp_path / "dense")
    assert (tmp_path / "dense" / "model.safetensors").stat().st_size > 4 * 134_515_008
