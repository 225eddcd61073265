"""Plans on models of several kinds: what is predicted is what happens, and the asked size is met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tiny import VOCABULARY, tiny
from trimtab.compression.allocators import Budget
from trimtab.compression.budget import Target, budget_parameters
from trimtab.compression.methods import make_recipe
from trimtab.compression.plan import apply_plan, factorize_all, make_plan
from trimtab.compression.sensitivity import measure
from trimtab.compression.statistics import collect
from trimtab.compression.store import FolderStore, Store
from trimtab.errors import ModelError, OptionError, StatisticsError
from trimtab.lowrank.checkpoint import save_checkpoint
from trimtab.lowrank.ranks import rank_map
from trimtab.models.projections import find_projections, weight
from trimtab.text.windows import Windows

IDS_NL = torch.randint(3, VOCABULARY, (8, 48), generator=torch.Generator().manual_seed(2))
ARCHS = ("llama", "gpt2", "phi3", "opt", "qwen3_moe")


def planned(arch: str, method: str, kept: float = 0.6) -> tuple[Any, Any, Store]:
    model, _ = tiny(arch)
    projections, recipe = find_projections(model), make_recipe(method)
    statistics = collect(model, projections, Windows(IDS_NL))
    store: Store = {}
    factorize_all(model, projections, statistics, recipe, store)
    budget = Budget(int(kept * sum(each.parameters for each in projections)))
    return model, make_plan(model, projections, statistics, recipe, store, budget), store


def inputs_and_outputs(model: Any, name: str) -> tuple[Tensor, Tensor]:
    """What projection `name` reads on the calibration windows, and what it answers."""
    found: list[Tensor] = []
    module = model.get_submodule(name)
    handle = module.register_forward_hook(lambda _module, x, y: found.extend((x[0].double(), y.double())))
    with torch.no_grad():
        model(IDS_NL)
    handle.remove()
    return found[0].reshape(-1, found[0].shape[-1]), found[1].reshape(-1, found[1].shape[-1])


@pytest.mark.parametrize("arch", ARCHS)
def test_the_predicted_output_error_is_the_measured_one(arch: str) -> None:
    model, plan, store = planned(arch, "flrc")
    dense = {each.name: weight(model, each).double().clone() for each in plan.projections}
    inputs = {each.name: inputs_and_outputs(model, each.name)[0] for each in plan.projections}
    apply_plan(model, plan, store)
    assert rank_map(model) == {name: rank for name, rank in plan.ranks.items() if rank is not None}
    assert plan.parameters <= plan.budget.parameters
    for each in plan.projections:
        if plan.ranks[each.name] is None:
            continue
        x_TI, layer = inputs[each.name], model.get_submodule(each.name)
        bias = 0 if layer.bias is None else layer.bias.detach().double()
        with torch.no_grad():
            lost_TO = layer(x_TI.float()).double() - bias - x_TI @ dense[each.name].T
        measured = float(lost_TO.square().sum() / (x_TI @ dense[each.name].T).square().sum())
        assert plan.predicted[each.name] == pytest.approx(measured, rel=1e-2, abs=1e-8)


def test_realised_removal_counts_the_parameters_that_are_there() -> None:
    model, plan, store = planned("llama", "flrc")
    before = sum(each.numel() for each in model.parameters())
    apply_plan(model, plan, store)
    gone = before - sum(each.numel() for each in model.parameters())
    assert plan.removed == pytest.approx(gone / sum(each.parameters for each in plan.projections))
    assert plan.removed >= 0.4


def test_predicted_nats_are_half_the_error_in_the_two_sided_metric() -> None:
    model, plan, store = planned("llama", "two-sided")
    statistics = collect(model, list(plan.projections), Windows(IDS_NL))
    total = 0.0
    for each in plan.projections:
        rank, known = plan.ranks[each.name], statistics.of(each.name)
        if rank is None:
            continue
        assert known.input_gram_II is not None
        assert known.output_gram_OO is not None
        c_II, g_OO = known.input_gram_II.double(), known.output_gram_OO.double()
        g_OO = 0.9 * g_OO + 0.1 * g_OO.trace() / len(g_OO) * torch.eye(len(g_OO)).double()
        d_OI = (weight(model, each) - store[each.name].u_RO[:rank].T @ store[each.name].v_RI[:rank]).double()
        total += 0.5 * float(torch.trace(g_OO @ d_OI @ c_II @ d_OI.T))
    assert plan.predicted_nats == pytest.approx(total, rel=1e-2)


def test_what_no_token_reached_is_predicted_to_lose_nothing() -> None:
    """And is the first to go, whatever the size of its weight."""
    model, _ = tiny("llama")
    silent = model.model.layers[1].mlp
    with torch.no_grad():
        silent.up_proj.weight.mul_(100)
    silent.forward = torch.zeros_like
    projections, recipe = find_projections(model), make_recipe("two-sided")
    statistics = collect(model, projections, Windows(IDS_NL))
    store: Store = {}
    factorize_all(model, projections, statistics, recipe, store)
    budget = Budget(int(0.5 * sum(each.parameters for each in projections)))
    plan = make_plan(model, projections, statistics, recipe, store, budget)
    assert plan.ranks["model.layers.1.mlp.up_proj"] == 1
    assert plan.predicted["model.layers.1.mlp.up_proj"] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_a_target_size_is_the_size_of_the_weight_files(arch: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model, tokenizer = tiny(arch, dtype=dtype)
    projections, recipe = find_projections(model), make_recipe("flrc")
    model.save_pretrained(tmp_path / "dense")
    whole = (tmp_path / "dense" / "model.safetensors").stat().st_size
    target = Target(size=int(0.7 * whole))
    statistics = collect(model, projections, Windows(IDS_NL))
    store: Store = {}
    factorize_all(model, projections, statistics, recipe, store)
    budget = Budget(budget_parameters(target, model, projections))
    apply_plan(model, make_plan(model, projections, statistics, recipe, store, budget), store)
    (tmp_path / "small").mkdir()
    save_checkpoint(model, tokenizer, tmp_path / "small", made={})
    realised = sum(path.stat().st_size for path in (tmp_path / "small").glob("*.safetensors"))
    assert 0.93 * target.size <= realised <= target.size


def test_sizes_out_of_reach_are_refused() -> None:
    model, _ = tiny("llama")
    projections = find_projections(model)
    with pytest.raises(OptionError, match="not smaller than the model"):
        budget_parameters(Target(size=10**9), model, projections)
    with pytest.raises(OptionError, match="cannot be reached"):
        budget_parameters(Target(size=10**3), model, projections)
    dense = sum(each.parameters for each in projections)
    assert budget_parameters(Target(remove=0.25), model, projections) == 0.75 * dense
    assert budget_parameters(Target(keep=0.25), model, projections) == 0.25 * dense


def test_a_weight_that_is_not_finite_is_named() -> None:
    model, _ = tiny("llama")
    projections = find_projections(model)
    statistics = collect(model, projections, Windows(IDS_NL))
    weight(model, projections[3])[0, 0] = float("nan")
    with pytest.raises(ModelError, match=rf"{projections[3].name}.weight holds NaN"):
        factorize_all(model, projections, statistics, make_recipe("svd"), {})


def test_factors_that_are_there_already_are_kept(tmp_path: Path) -> None:
    model, _ = tiny("llama")
    projections, recipe = find_projections(model), make_recipe("svd")
    statistics = collect(model, projections, Windows(IDS_NL), kinds=())
    store = FolderStore(tmp_path)
    factorize_all(model, projections[:2], statistics, recipe, store)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    factorize_all(model, projections, statistics, recipe, store)
    assert len(store) == len(projections)
    assert {path: path.stat().st_mtime_ns for path in written} == written


@pytest.mark.parametrize("damage", [b"", b"short", b"\xff" * 400])
def test_damaged_factors_are_named_by_the_plan(damage: bytes, tmp_path: Path) -> None:
    model, _ = tiny("llama")
    projections, recipe = find_projections(model), make_recipe("svd")
    statistics = collect(model, projections, Windows(IDS_NL), kinds=())
    store = FolderStore(tmp_path)
    factorize_all(model, projections, statistics, recipe, store)
    (tmp_path / f"{projections[0].name}.safetensors").write_bytes(damage)
    with pytest.raises(StatisticsError, match=rf"{projections[0].name}.safetensors is damaged"):
        make_plan(model, projections, statistics, recipe, store, Budget(40_000))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_sensitivity_search_gives_the_model_back_after_an_error(dtype: torch.dtype) -> None:
    model, _ = tiny("gpt2", dtype=dtype)
    projections = find_projections(model)
    store: Store = {}
    factorize_all(model, projections, collect(model, projections, Windows(IDS_NL), kinds=()), make_recipe("svd"), store)
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    calls = iter(range(5))
    handle = model.register_forward_pre_hook(lambda *_: None if next(calls, 9) < 4 else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        measure(model, projections, store, Windows(IDS_NL[:1]), (0.3, 0.6, 0.9))
    handle.remove()
    assert all(torch.equal(each, before[name]) for name, each in model.named_parameters())


def test_sensitivity_is_the_perplexity_of_the_model_with_one_projection_truncated() -> None:
    model, _ = tiny("llama")
    projections = find_projections(model)
    store: Store = {}
    factorize_all(model, projections, collect(model, projections, Windows(IDS_NL), kinds=()), make_recipe("svd"), store)
    each = projections[1]
    table = measure(model, [each], store, Windows(IDS_NL), (0.5,))
    rank = int(0.5 * each.parameters / (each.out_features + each.in_features))
    weight(model, each).copy_(store[each.name].u_RO[:rank].T @ store[each.name].v_RI[:rank])
    with torch.no_grad():
        expected = model(IDS_NL, labels=IDS_NL).loss.exp()
    assert table[each.name]["sensitivity 0.5"] == pytest.approx(float(expected), rel=1e-4)
