from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import trimtab
from tests.lowrank.conftest import Checkpoint, logits
from tests.tiny import CHAT_TEMPLATE, save_tiny, tiny
from trimtab.errors import CheckpointError, OutputError
from trimtab.lowrank.densify import densify

LOAD = """
import sys, torch
torch.set_num_threads(1)
from transformers import AutoModelForCausalLM
ids_BT = torch.arange(3, 3 + 2 * 24).reshape(2, 24) % 320
for folder in sys.argv[1:]:
    with torch.no_grad():
        torch.save(AutoModelForCausalLM.from_pretrained(folder)(ids_BT).logits, folder + ".dense_logits")
assert "trimtab" not in sys.modules
"""
ARCHITECTURES = ("llama", "gpt2", "opt", "phi3", "qwen3_moe")


def test_the_result_loads_without_trimtab_and_computes_the_same(checkpoint: Checkpoint, tmp_path: Path) -> None:
    for arch in ARCHITECTURES:
        densify(checkpoint(arch), tmp_path / arch)
    command = [sys.executable, "-c", LOAD, *(str(tmp_path / arch) for arch in ARCHITECTURES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for arch in ARCHITECTURES:
        expected = torch.load(f"{checkpoint(arch)}.logits")
        torch.testing.assert_close(torch.load(tmp_path / f"{arch}.dense_logits"), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_result_has_the_tensors_and_settings_of_the_original(
    arch: str, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    densify(checkpoint(arch), tmp_path / "dense")
    save_tiny(arch, tmp_path / "original")
    dense, original = (load_file(tmp_path / name / "model.safetensors") for name in ("dense", "original"))
    assert {name: tensor.shape for name, tensor in dense.items()} == {
        name: tensor.shape for name, tensor in original.items()
    }
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("dense", "original")]
    assert configs[0] == configs[1]
    assert trimtab.load(tmp_path / "dense")[1].chat_template == CHAT_TEMPLATE


def test_bfloat16_stays_bfloat16(checkpoint: Checkpoint, tmp_path: Path) -> None:
    densify(checkpoint("llama", torch.bfloat16), tmp_path / "dense")
    model, _ = trimtab.load(tmp_path / "dense")
    assert model.dtype == torch.bfloat16
    expected = torch.load(f"{checkpoint('llama', torch.bfloat16)}.logits").float()
    assert (logits(model).float() - expected).norm() / expected.norm() < 0.05


def test_a_loaded_model_can_be_made_dense_in_memory(checkpoint: Checkpoint, tmp_path: Path) -> None:
    model, _ = trimtab.load(checkpoint("opt"))
    expected = logits(model)
    model.dequantize()
    torch.testing.assert_close(logits(model), expected, rtol=1e-4, atol=1e-4)
    assert not hasattr(model.config, "quantization_config")
    assert {type(module).__name__ for module in model.modules()} == {
        type(module).__name__ for module in tiny("opt")[0].modules()
    }


def test_refusals(checkpoint: Checkpoint, tmp_path: Path) -> None:
    ordinary = save_tiny("llama", tmp_path / "ordinary")
    with pytest.raises(CheckpointError, match="no low-rank layers"):
        densify(ordinary, tmp_path / "dense")
    assert not (tmp_path / "dense").exists()
    with pytest.raises(OutputError, match="exists already"):
        densify(checkpoint("llama"), ordinary)


def test_a_checkpoint_may_be_overwritten_by_its_own_dense_form(checkpoint: Checkpoint, tmp_path: Path) -> None:
    from shutil import copytree

    folder = copytree(checkpoint("llama"), tmp_path / "model")
    densify(folder, folder, overwrite=True)
    torch.testing.assert_close(
        logits(trimtab.load(folder)[0]), torch.load(f"{checkpoint('llama')}.logits"), rtol=1e-4, atol=1e-4
    )
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
