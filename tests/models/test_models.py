"""Finding projections, loading, and refusing what cannot be compressed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.tiny import ARCHITECTURES, save_tiny, tiny
from trimtab.errors import ModelError
from trimtab.models.checks import check_compressible, check_finite
from trimtab.models.fingerprint import model_fingerprint
from trimtab.models.load import load_model, load_skeleton
from trimtab.models.projections import coverage, find_projections, set_weight, weight

GATED = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
KINDS = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma3"), GATED),
    "phi3": {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"},
    "gpt2": {"c_attn", "c_proj", "c_fc"},
    "opt": {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"},
    "gpt_neox": {"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"},
    "qwen3_moe": {"q_proj", "k_proj", "v_proj", "o_proj"},
}
BIASED = {"gpt2", "opt", "gpt_neox"}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_projections_are_found_by_structure(arch: str) -> None:
    model, _ = tiny(arch)
    found = find_projections(model)
    assert {each.kind for each in found} == KINDS[arch]
    per_layer = 8 // 2 if arch in ("phi3", "gpt2", "gpt_neox", "qwen3_moe") else len(KINDS[arch])
    assert len(found) == 2 * per_layer
    assert {each.layer for each in found} == {0, 1}
    assert all(each.transposed == (arch == "gpt2") for each in found)
    assert all(each.bias for each in found) == (arch in BIASED)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_weight_is_the_matrix_that_maps_inputs_to_outputs(arch: str) -> None:
    model, _ = tiny(arch)
    for each in find_projections(model):
        module, w_OI = model.get_submodule(each.name), weight(model, each)
        assert w_OI.shape == (each.out_features, each.in_features)
        x_TI = torch.randn(5, each.in_features)
        bias = module.bias if each.bias else 0
        assert torch.allclose(module(x_TI), x_TI @ w_OI.T + bias, atol=1e-5)
        new_OI = torch.randn_like(w_OI)
        set_weight(model, each, new_OI)
        assert torch.equal(weight(model, each), new_OI)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_share_that_can_be_touched_counts_every_parameter_once(arch: str) -> None:
    model, _ = tiny(arch)
    found = find_projections(model)
    covered = coverage(model, found)
    assert covered.total == sum(each.numel() for each in model.parameters())
    assert covered.touchable == sum(each.parameters for each in found)
    assert f"{covered.share:.1%}" in str(covered)
    assert ("experts (3-D)" in covered.untouched) == (arch == "qwen3_moe")


def test_the_head_is_a_projection_only_when_asked_and_untied() -> None:
    untied, _ = tiny("mistral")
    assert "lm_head" not in {each.name for each in find_projections(untied)}
    assert find_projections(untied, include_head=True)[-1].name == "lm_head"
    with pytest.raises(ModelError, match="shares its weight"):
        find_projections(tiny("llama")[0], include_head=True)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_skeleton_has_the_shapes_without_the_weights(arch: str, tmp_path: Path) -> None:
    folder = save_tiny(arch, tmp_path)
    skeleton, loaded = load_skeleton(folder).model, load_model(folder).model
    assert find_projections(skeleton) == find_projections(loaded)
    assert all(each.is_meta for each in skeleton.parameters())
    assert {name: each.shape for name, each in skeleton.named_parameters()} == {
        name: each.shape for name, each in loaded.named_parameters()
    }


class TestRefused:
    def test_paths(self, tmp_path: Path) -> None:
        (tmp_path / "file.bin").write_bytes(b"x")
        for spec, words in (
            ("./gone", "does not exist"),
            (tmp_path, "config.json"),
            (tmp_path / "file.bin", "not a .gguf"),
        ):
            with pytest.raises(ModelError, match=words):
                load_model(spec)

    def test_damaged_gguf(self, tmp_path: Path) -> None:
        (tmp_path / "a.gguf").write_bytes(b"GGUF" + b"\0" * 60)
        with pytest.raises(ModelError, match=r"a\.gguf"):
            load_model(tmp_path / "a.gguf")

    def test_without_tokenizer(self, tmp_path: Path) -> None:
        save_tiny("llama", tmp_path)
        for path in tmp_path.glob("tokenizer*"):
            path.unlink()
        with pytest.raises(ModelError, match="tokenizer"):
            load_model(tmp_path)

    def test_missing_and_cut_weights(self, tmp_path: Path) -> None:
        file = save_tiny("llama", tmp_path) / "model.safetensors"
        whole = file.read_bytes()
        tensors = load_file(file)
        del tensors["model.layers.0.mlp.up_proj.weight"]
        save_file(tensors, file, {"format": "pt"})
        with pytest.raises(ModelError, match=r"1 tensors.*up_proj"):
            load_model(tmp_path)
        for damaged in (whole[:-10], whole[:50], b""):
            file.write_bytes(damaged)
            with pytest.raises(ModelError, match=r"model\.safetensors"):
                load_model(tmp_path)
        file.unlink()
        with pytest.raises(ModelError, match="no weights"):
            load_model(tmp_path)

    @pytest.mark.parametrize("method", ["gptq", "bitsandbytes", "awq", "lowrank"])
    def test_quantised(self, method: str) -> None:
        model, _ = tiny("llama")
        model.config.quantization_config = {"quant_method": method}
        with pytest.raises(ModelError, match="already"):
            check_compressible(model)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_weights_that_are_not_finite_are_named(self, value: float) -> None:
        model, _ = tiny("gpt2")
        check_finite(model)
        model.transformer.h[1].mlp.c_fc.weight.data[3, 3] = value
        with pytest.raises(ModelError, match=r"transformer\.h\.1\.mlp\.c_fc\.weight"):
            check_finite(model)

    def test_a_model_that_writes_no_text(self, tmp_path: Path) -> None:
        save_tiny("llama", tmp_path)
        config = {"model_type": "vit", "hidden_size": 32}
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(ModelError, match="not a language model"):
            load_model(tmp_path)


def test_a_fingerprint_is_of_names_types_and_every_bit(tmp_path: Path) -> None:
    model, _ = tiny("llama")
    first = model_fingerprint(model)
    assert model_fingerprint(load_model(save_tiny("llama", tmp_path)).model) == first
    assert model_fingerprint(tiny("llama", dtype=torch.bfloat16)[0]) != first
    one = model.model.layers[0].mlp.up_proj.weight.data
    one[0, 0] = torch.nextafter(one[0, 0], torch.tensor(9.0))
    assert model_fingerprint(model) != first
