from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

import trimtab
from tests.lowrank.conftest import MADE, Checkpoint, logits, make_low_rank
from tests.tiny import ARCHITECTURES, CHAT_TEMPLATE, tiny
from trimtab.lowrank.checkpoint import read_config, save_checkpoint, sha256, verify_files
from trimtab.lowrank.config import LowRankConfig
from trimtab.lowrank.ranks import rank_map


def stored_names(folder: Path) -> list[str]:
    names = []
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            names += list(opened.keys())
    return names


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_plain_transformers_loads_what_was_saved(arch: str, checkpoint: Checkpoint) -> None:
    folder = checkpoint(arch)
    model = AutoModelForCausalLM.from_pretrained(folder)
    torch.testing.assert_close(logits(model), torch.load(f"{folder}.logits"), rtol=0, atol=1e-5)
    assert {name: [{"form": "factored", "rank": rank}] for name, rank in rank_map(model).items()} == (
        read_config(folder).blocks
    )


@pytest.mark.parametrize("arch", ["llama", "gpt2", "opt", "qwen3_moe"])
def test_save_pretrained_of_a_loaded_model_writes_a_checkpoint_again(
    arch: str, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    model, _ = trimtab.load(checkpoint(arch))
    model.save_pretrained(tmp_path)
    verify_files(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(logits(again), logits(model))
    assert read_config(tmp_path).made == MADE
    assert sorted(stored_names(tmp_path)) == sorted(stored_names(checkpoint(arch)))


def test_the_saved_rank_map_is_that_of_the_model_as_it_is_now(checkpoint: Checkpoint, tmp_path: Path) -> None:
    model, _ = trimtab.load(checkpoint("llama"))
    layer = model.get_submodule("model.layers.1.mlp.up_proj")
    assert layer.rank > 0
    model.set_submodule("model.layers.1.mlp.up_proj", layer.dense_module())
    model.save_pretrained(tmp_path)
    assert "model.layers.1.mlp.up_proj" in read_config(checkpoint("llama")).blocks
    assert "model.layers.1.mlp.up_proj" not in read_config(tmp_path).blocks
    torch.testing.assert_close(logits(AutoModelForCausalLM.from_pretrained(tmp_path)), logits(model), rtol=0, atol=1e-5)


@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_small_shards_load_and_are_hashed(arch: str, checkpoint: Checkpoint) -> None:
    folder = checkpoint(arch, torch.float32, "60KB")
    shards = {file.name for file in folder.glob("model-*.safetensors")}
    assert len(shards) > 2
    hashes = json.loads((folder / "config.json").read_text())["quantization_config"]["files"]
    assert set(hashes) == shards | {"model.safetensors.index.json"}
    assert all(sha256(folder / name) == expected for name, expected in hashes.items())
    model, _ = trimtab.load(folder)
    assert torch.equal(logits(model), torch.load(f"{folder}.logits"))


@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_tied_embeddings_are_written_once_and_stay_tied(arch: str, checkpoint: Checkpoint) -> None:
    assert not [name for name in stored_names(checkpoint(arch)) if name.startswith("lm_head")]
    model, _ = trimtab.load(checkpoint(arch))
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_a_low_rank_head_is_saved_and_loaded(tmp_path: Path) -> None:
    from trimtab.lowrank.surgery import factorize_in_place
    from trimtab.models.projections import find_projections

    model, tokenizer = tiny("mistral")
    head = find_projections(model, include_head=True)[-1]
    factorize_in_place(model, head, torch.randn(5, head.in_features), torch.randn(5, head.out_features))
    save_checkpoint(model, tokenizer, tmp_path, made={})
    again, _ = trimtab.load(tmp_path)
    assert rank_map(again) == {"lm_head": 5}
    assert torch.equal(logits(again), logits(model))


def test_tokenizer_chat_template_and_generation_settings_are_kept(tmp_path: Path) -> None:
    model, tokenizer = tiny("llama")
    make_low_rank(model, lambda each: 4)
    model.generation_config.max_new_tokens = 7
    save_checkpoint(model, tokenizer, tmp_path, made=MADE)
    again, loaded = trimtab.load(tmp_path)
    assert again.generation_config.max_new_tokens == 7
    assert loaded.chat_template == CHAT_TEMPLATE
    assert loaded("one small word")["input_ids"] == tokenizer("one small word")["input_ids"]
    assert AutoTokenizer.from_pretrained(tmp_path).eos_token == tokenizer.eos_token


def test_dtype_may_be_chosen_at_load(checkpoint: Checkpoint) -> None:
    model, _ = trimtab.load(checkpoint("llama"), dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert torch.isfinite(logits(model)).all()


def test_a_model_in_memory_can_be_saved_without_us(tmp_path: Path) -> None:
    from trimtab.lowrank.quantizer import attach

    model, _ = tiny("opt")
    make_low_rank(model, lambda each: 4)
    attach(model, {"method": "svd"})
    attach(model)
    model.save_pretrained(tmp_path)
    assert torch.equal(logits(AutoModelForCausalLM.from_pretrained(tmp_path)), logits(model))
    assert read_config(tmp_path).made == {"method": "svd"}


def test_keys_of_a_later_minor_format_are_kept(checkpoint: Checkpoint, tmp_path: Path) -> None:
    settings = json.loads((checkpoint("llama") / "config.json").read_text())["quantization_config"]
    config = LowRankConfig.from_dict({**settings, "colour": {"hue": 3}})
    assert config.to_dict()["colour"] == {"hue": 3}
    assert LowRankConfig.from_dict(config.to_dict()).to_dict() == config.to_dict()


def test_an_ordinary_model_has_no_low_rank_configuration(tmp_path: Path) -> None:
    model, tokenizer = tiny("gpt2")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert read_config(tmp_path) is None
    verify_files(tmp_path)
    assert torch.equal(logits(trimtab.load(tmp_path)[0]), logits(model))


def test_layers_on_disk_are_loaded_when_they_are_needed(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = checkpoint("llama")
    places = {"model.embed_tokens": "cpu", "lm_head": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu"}
    places |= {"model.layers.0": "disk", "model.layers.1": "cpu"}
    model = AutoModelForCausalLM.from_pretrained(folder, device_map=places, offload_folder=tmp_path)
    torch.testing.assert_close(logits(model), torch.load(f"{folder}.logits"), rtol=0, atol=1e-5)
