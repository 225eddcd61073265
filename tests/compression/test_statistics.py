"""Statistics against a slow, plain reference, and a model left as it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.tiny import VOCABULARY, tiny
from trimtab.compression.statistics import IMPORTANCES, KINDS, collect, few_tokens_warning, summed_next_token_loss
from trimtab.errors import ModelError
from trimtab.models import compute_dtype
from trimtab.models.projections import Projection, find_projections, weight
from trimtab.text.windows import Windows

ARCHS = ("llama", "gpt2", "phi3", "opt", "gpt_neox", "gemma3", "qwen3_moe")
IDS_NL = torch.randint(3, VOCABULARY, (3, 20), generator=torch.Generator().manual_seed(0))


def reference(model: Any, projections: list[Projection]) -> dict[str, dict[str, Any]]:
    """One window at a time, everything by plain autograd, in double precision where the model can; nothing shared."""
    model = model if model.config.model_type == "qwen3_moe" else model.double()
    sums = ("input_gram", "input_mean", "output_gram", *IMPORTANCES)
    found: dict[str, dict[str, Any]] = {each.name: dict.fromkeys(sums, 0.0) for each in projections}
    for ids_L in IDS_NL:
        seen: dict[str, tuple[Tensor, Tensor]] = {}
        handles = [_watch(model, each.name, seen) for each in projections]
        model.zero_grad()
        logp_LV = model(input_ids=ids_L[None]).logits[0].log_softmax(-1)
        (-sum(logp_LV[t, ids_L[t + 1]] for t in range(len(ids_L) - 1))).backward()
        for handle in handles:
            handle.remove()
        for each in projections:
            x, y = seen[each.name]
            _add(found[each.name], x.reshape(-1, each.in_features), y.grad, model.get_submodule(each.name).weight)
    return found


def _watch(model: Any, name: str, seen: dict[str, tuple[Tensor, Tensor]]) -> Any:
    def hook(_module: nn.Module, inputs: tuple[Tensor, ...], y: Tensor) -> None:
        y.retain_grad()
        seen[name] = (inputs[0].detach(), y)

    return model.get_submodule(name).register_forward_hook(hook)


def _add(entry: dict[str, Any], x_TI: Tensor, g: Tensor | None, w: Tensor) -> None:
    assert g is not None
    assert w.grad is not None
    g_TO = g.reshape(len(x_TI), -1)
    entry["input_gram"] += x_TI.T @ x_TI / IDS_NL.numel()
    entry["input_mean"] += x_TI.abs().sum(0) / IDS_NL.numel()
    entry["output_gram"] += g_TO.T @ g_TO / IDS_NL.numel()
    entry["fisher"] += (w.grad * w.detach()).square().sum().item()
    entry["absolute"] += (w.grad * w.detach()).abs().sum().item()
    entry["gradient"] += float(w.grad.square().sum())


@pytest.mark.parametrize("arch", ARCHS)
def test_all_statistics_are_what_autograd_in_double_precision_says(arch: str) -> None:
    model, _ = tiny(arch)
    projections = find_projections(model)
    found = collect(model, projections, Windows(IDS_NL))
    expected = reference(tiny(arch)[0], projections)
    for each in projections:
        knowledge, entry = found.of(each.name), expected[each.name]
        assert_close(knowledge.input_gram_II, entry["input_gram"])
        assert_close(knowledge.input_mean_I, entry["input_mean"])
        assert_close(knowledge.output_gram_OO, entry["output_gram"])
        assert found.gradient_energies[each.name] == pytest.approx(float(entry["output_gram"].trace()), rel=1e-3)
        for kind in IMPORTANCES:
            assert found.importances[kind][each.name] == pytest.approx(entry[kind], rel=1e-3)


def assert_close(found: Tensor | None, expected: Tensor) -> None:
    assert found is not None
    assert torch.allclose(found.double(), expected.double(), rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_projections_that_read_the_same_tensor_share_one_gram() -> None:
    model, _ = tiny("llama")
    projections = find_projections(model)
    found = collect(model, projections, Windows(IDS_NL), kinds={"input_gram"})
    assert len(found.input_grams) == 4 * 2  # q k v | o | gate up | down, in two layers
    layer = "model.layers.0."
    assert found.groups[f"{layer}self_attn.k_proj"] == found.groups[f"{layer}self_attn.q_proj"]
    assert found.groups[f"{layer}self_attn.o_proj"] != found.groups[f"{layer}self_attn.q_proj"]


@pytest.mark.parametrize("kinds", [{"input_gram"}, {"fisher"}, {"output_gram"}, set(), KINDS])
def test_only_what_is_asked_for_is_collected(kinds: set[str]) -> None:
    model, _ = tiny("llama")
    found = collect(model, find_projections(model), Windows(IDS_NL), kinds=kinds)
    assert bool(found.input_grams) == ("input_gram" in kinds)
    assert bool(found.output_grams) == ("output_gram" in kinds)
    assert bool(found.importances) == ("fisher" in kinds)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_model_is_left_as_it_was(fails: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_dtype, "_fp32_is_faster", lambda: True)
    model, _ = tiny("llama", dtype=dtype)
    model.train()
    frozen = model.model.layers[0].mlp.up_proj.weight
    frozen.requires_grad_(False)
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    if fails:
        model.lm_head.register_forward_hook(lambda *_: 1 / 0)
    try:
        collect(model, find_projections(model), Windows(IDS_NL))
    except ZeroDivisionError:
        assert fails
    assert model.training
    assert [name for name, each in model.named_parameters() if not each.requires_grad] == [
        "model.layers.0.mlp.up_proj.weight"
    ]
    assert all(each.grad is None for each in model.parameters())
    assert all(torch.equal(each, before[name]) and each.dtype == dtype for name, each in model.named_parameters())
    hooks = [len(m._forward_hooks) for name, m in model.named_modules() if name != "lm_head"]
    assert sum(hooks) == 0


def test_a_projection_that_sees_no_token_has_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = tiny("llama")
    mlp = model.model.layers[1].mlp
    monkeypatch.setattr(mlp, "forward", torch.zeros_like)
    found = collect(model, find_projections(model), Windows(IDS_NL))
    name = "model.layers.1.mlp.down_proj"
    assert not found.of(name).input_gram_II.any()
    assert not found.of(name).output_gram_OO.any()
    assert found.importances["fisher"][name] == 0


def test_a_loss_that_is_not_finite_is_refused() -> None:
    model, _ = tiny("llama")
    weight(model, find_projections(model)[0])[0, 0] = float("inf")
    with pytest.raises(ModelError, match="calibration window is nan"):
        collect(model, find_projections(model), Windows(IDS_NL))


@pytest.mark.parametrize("length", [2, 33, 64, 65, 100])
def test_loss_and_gradient_are_those_of_autograd_with_labels_shifted_once(length: int) -> None:
    generator = torch.Generator().manual_seed(length)
    logits_LV = torch.randn(length, 50, generator=generator).requires_grad_()
    ids_L = torch.randint(0, 50, (length,), generator=generator)
    expected = nn.functional.cross_entropy(logits_LV[:-1], ids_L[1:], reduction="sum")
    expected.backward()
    loss, gradient_LV = summed_next_token_loss(logits_LV.detach(), ids_L)
    assert loss == pytest.approx(expected.item(), rel=1e-6)
    assert torch.allclose(gradient_LV, logits_LV.grad, atol=1e-6)


def test_too_few_tokens_are_warned_about() -> None:
    wide = Projection("wide", 8, 100, False, False)
    assert few_tokens_warning(400, [wide]) is None
    assert "at least 400" in str(few_tokens_warning(399, [wide]))


def test_a_users_gradients_modes_and_later_training_are_untouched() -> None:
    model, _ = tiny("llama")
    model.train()
    model.model.layers[0].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    model(IDS_NL, labels=IDS_NL).loss.backward()
    kept = {name: each.grad.clone() for name, each in model.named_parameters()}
    projections = find_projections(model)
    found = collect(model, projections, Windows(IDS_NL))
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert all(torch.equal(each.grad, kept[name]) for name, each in model.named_parameters())
    assert found.importances == collect(tiny("llama")[0], projections, Windows(IDS_NL)).importances
    model(IDS_NL, labels=IDS_NL).loss.backward()  # no hook of ours takes these gradients away
    assert all(torch.allclose(each.grad, 2 * kept[name], atol=1e-6) for name, each in model.named_parameters())


class _NoGradient(torch.autograd.Function):
    """A function whose value is sound and whose gradient is not."""

    @staticmethod
    def forward(_context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_context: Any, g: Tensor) -> Tensor:
        return g * float("nan")


def test_a_gradient_that_is_not_finite_is_refused() -> None:
    model, _ = tiny("llama")
    model.model.layers[1].register_forward_hook(lambda _module, _inputs, output: _NoGradient.apply(output))
    with pytest.raises(ModelError, match=r"gradient at the output of model\.layers\.\d\.\S+ is not finite"):
        collect(model, find_projections(model), Windows(IDS_NL))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.05), (torch.float16, 0.01)])
@pytest.mark.parametrize("size", [1.0, 3e-3])
def test_half_precision_says_the_same_as_single(dtype: torch.dtype, tolerance: float, size: float) -> None:
    """Also where the squares of gradients fall out of the range of fp16, which small gradients make likely."""
    found = []
    for each in (dtype, torch.float32):
        model, _ = tiny("llama", dtype=each)
        model.lm_head.register_full_backward_pre_hook(lambda _module, g: (g[0] * size,))
        found.append(collect(model, find_projections(model), Windows(IDS_NL)))
    half, single = found
    for name in single.groups:
        for one, other in zip(vars(half.of(name)).values(), vars(single.of(name)).values(), strict=True):
            assert torch.dist(one, other) <= tolerance * other.norm()
        assert half.importances["fisher"][name] == pytest.approx(single.importances["fisher"][name], rel=2 * tolerance)
