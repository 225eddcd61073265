"""Every kind of damage gives one clear line, by `trimtab.load` and by plain `from_pretrained`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, LlamaForCausalLM

import trimtab
from tests.lowrank.conftest import Checkpoint
from trimtab.errors import CheckpointError, TrimtabError

WEIGHTS, CONFIG = "model.safetensors", "config.json"
FACTOR = "model.layers.0.mlp.up_proj.block0_u"


def loaders(folder: Path) -> list[Callable[[], Any]]:
    return [lambda: AutoModelForCausalLM.from_pretrained(folder), lambda: trimtab.load(folder)]


def refusal(load: Callable[[], Any]) -> str:
    with pytest.raises(CheckpointError) as caught:
        load()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.fixture
def folder(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    """A copy of the low-rank Llama that may be damaged; without hashes, as `save_pretrained` would write it."""
    copy = shutil.copytree(checkpoint("llama"), tmp_path / "copy")
    edit_settings(copy, lambda settings: settings.update(files={}))
    return copy


def edit_settings(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads((folder / CONFIG).read_text())
    change(content["quantization_config"])
    (folder / CONFIG).write_text(json.dumps(content))


def edit_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


@pytest.mark.parametrize("key", ["block0_u", "block0_v", "weight"])
def test_a_missing_tensor(folder: Path, key: str) -> None:
    name = f"model.layers.0.mlp.up_proj.{key}"
    edit_tensors(folder, lambda tensors: tensors.pop(name))
    for load in loaders(folder):
        assert refusal(load) == f"the checkpoint is incomplete: no file holds the tensor {name}"


def test_a_missing_bias(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint("gpt2"), tmp_path / "copy")
    edit_tensors(folder, lambda tensors: tensors.pop("transformer.h.0.mlp.c_fc.bias"))
    assert "transformer.h.0.mlp.c_fc.bias" in refusal(loaders(folder)[0])


def test_a_tensor_of_another_shape(folder: Path) -> None:
    edit_tensors(folder, lambda tensors: tensors.update({FACTOR: tensors[FACTOR][:-1].clone()}))
    for load in loaders(folder):
        assert FACTOR in (line := refusal(load))
        assert "shape" in line


def test_a_rank_map_that_is_not_that_of_the_files(folder: Path) -> None:
    edit_settings(folder, lambda settings: settings["blocks"]["model.layers.0.mlp.up_proj"][0].update(rank=3))
    for load in loaders(folder):
        assert "config.json says [3, 64]" in refusal(load)


def test_a_projection_left_out_of_the_rank_map_is_not_made_up(folder: Path) -> None:
    edit_settings(folder, lambda settings: settings["blocks"].pop("model.layers.0.mlp.up_proj"))
    for load in loaders(folder):
        assert "model.layers.0.mlp.up_proj.block0_" in refusal(load)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda settings: settings.update(format_version=2), "format 2"),
        (lambda settings: settings.update(format_version="1.0"), "format '1.0'"),
        (
            lambda settings: settings["blocks"].update({"model.layers.9.x": [{"form": "factored", "rank": 1}]}),
            "layers.9",
        ),
        (lambda settings: settings["blocks"].update({"model.norm": [{"form": "factored", "rank": 1}]}), "RMSNorm"),
        (lambda settings: settings["blocks"].update({"lm_head": [{"form": "pivoted", "rank": 1}]}), "pivoted"),
        (lambda settings: settings["blocks"].update({"lm_head": [{"rank": 1}]}), "lm_head"),
        (lambda settings: settings["blocks"].update({"lm_head": []}), "no block"),
        (lambda settings: settings["blocks"].update({"lm_head": "full"}), "lm_head"),
        (lambda settings: settings.update(blocks=[1]), "blocks"),
        (lambda settings: settings.update(files="all"), "files"),
    ],
)
def test_settings_that_cannot_be_used(folder: Path, change: Callable[[dict[str, Any]], Any], words: str) -> None:
    edit_settings(folder, change)
    for load in loaders(folder):
        assert words in refusal(load)


@pytest.mark.parametrize("position", [0.5, 0.999])
def test_a_flipped_bit(checkpoint: Checkpoint, tmp_path: Path, position: float) -> None:
    folder = shutil.copytree(checkpoint("llama"), tmp_path / "copy")
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[int(position * len(data))] ^= 1
    (folder / WEIGHTS).write_bytes(data)
    assert f"{folder / WEIGHTS} is damaged" in refusal(lambda: trimtab.load(folder))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.9])
def test_a_truncated_file(folder: Path, share: float) -> None:
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[: int(share * len(data))])
    assert str(folder / WEIGHTS) in refusal(loaders(folder)[0])
    with pytest.raises(TrimtabError, match="truncated"):
        trimtab.load(folder)


def test_a_missing_shard(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint("llama", torch.float32, "60KB"), tmp_path / "copy")
    shard = sorted(folder.glob("model-*.safetensors"))[1]
    shard.unlink()
    assert f"{shard.name} is missing" in refusal(lambda: trimtab.load(folder))


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_a_config_that_is_no_table(folder: Path, text: str) -> None:
    (folder / CONFIG).write_text(text)
    assert CONFIG in refusal(lambda: trimtab.load(folder))


def test_a_state_dict_that_lacks_a_factor(folder: Path) -> None:
    state = load_file(folder / WEIGHTS)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    del state[FACTOR]
    config = AutoConfig.from_pretrained(folder)
    assert FACTOR in refusal(lambda: LlamaForCausalLM.from_pretrained(None, config=config, state_dict=state))


def test_a_dense_model_cannot_be_made_low_rank_by_loading_it(checkpoint: Checkpoint, tmp_path: Path) -> None:
    from tests.tiny import save_tiny
    from trimtab.lowrank.config import LowRankConfig

    with pytest.raises(ValueError, match="pre-quantized"):
        AutoModelForCausalLM.from_pretrained(save_tiny("llama", tmp_path), quantization_config=LowRankConfig())
