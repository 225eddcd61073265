"""Registry, settings, sizes, statistics files, stores, plans."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.tiny import VOCABULARY, tiny
from trimtab.compression.allocators import Budget
from trimtab.compression.budget import Target, parse_size
from trimtab.compression.factorizers import Factors, factorizers
from trimtab.compression.methods import METHODS, make_recipe
from trimtab.compression.plan import apply_plan, factorize_all, make_plan
from trimtab.compression.registry import Registry
from trimtab.compression.sensitivity import kept_rank, measure
from trimtab.compression.statistics import Statistics, collect
from trimtab.compression.statistics_file import check_kinds, check_model, load_statistics, save_statistics
from trimtab.compression.store import FolderStore, Store
from trimtab.errors import OptionError, StatisticsError
from trimtab.models.projections import Projection, find_projections, weight
from trimtab.text.windows import SourceNote, Windows

IDS_NL = torch.randint(3, VOCABULARY, (4, 32), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def collected() -> Statistics:
    model, _ = tiny("llama")
    windows = Windows(IDS_NL, (SourceNote("a text", 4, None, 999),), ("a warning",))
    return collect(model, find_projections(model), windows, model_fingerprint="f" * 64)


class TestNames:
    def test_unknown_names_offer_the_nearest(self) -> None:
        with pytest.raises(OptionError, match="did you mean 'two-sided'"):
            make_recipe("twosided")
        with pytest.raises(OptionError, match=r"unknown factorizer 'xyz' \(known: asvd, svd"):
            make_recipe(factorizer="xyz")

    def test_every_method_names_things_that_exist(self) -> None:
        for name in METHODS:
            assert make_recipe(name).method == name

    def test_settings_take_the_type_of_the_default(self) -> None:
        recipe = make_recipe("asvd", settings=["allocator.ratios=0.2,0.5", "allocator.windows=3", "factorizer.alpha=1"])
        assert recipe.allocator_options.ratios == (0.2, 0.5)
        assert recipe.allocator_options.windows == 3
        assert recipe.factorizer_options.alpha == 1.0
        with pytest.raises(OptionError, match="wants int, not 'two'"):
            make_recipe("asvd", settings=["allocator.windows=two"])

    def test_a_name_is_registered_once(self) -> None:
        registry: Registry = Registry("thing", (), "trimtab.nothing")
        registry.register("a", options=Target, reference="")(lambda: None)
        with pytest.raises(OptionError, match="registered already"):
            registry.register("a", options=Target, reference="")(lambda: None)


class TestAmounts:
    @pytest.mark.parametrize(
        ("text", "size"), [("90MB", 90_000_000), ("1.5 GB", 1_500_000_000), ("2kib", 2048), ("700", 700)]
    )
    def test_sizes_are_read(self, text: str, size: int) -> None:
        assert parse_size(text) == size

    @pytest.mark.parametrize("text", ["", "MB", "-1MB", "1..5GB", "90 megabytes", "nan"])
    def test_other_words_are_refused(self, text: str) -> None:
        with pytest.raises(OptionError, match="90MB"):
            parse_size(text)

    @pytest.mark.parametrize("value", [0.0, 1.0, -1.0, float("nan"), float("inf")])
    def test_fractions_lie_between_0_and_1(self, value: float) -> None:
        with pytest.raises(OptionError, match="--remove"):
            Target(remove=value)
        with pytest.raises(OptionError, match="--keep"):
            Target(keep=value)


class TestStatisticsFile:
    def test_round_trip(self, collected: Statistics, tmp_path: Path) -> None:
        save_statistics(collected, tmp_path / "s")
        again = load_statistics(tmp_path / "s")
        for field in dataclasses.fields(Statistics):
            ours, theirs = getattr(collected, field.name), getattr(again, field.name)
            if field.name in ("input_grams", "input_means", "output_grams"):
                assert ours.keys() == theirs.keys()
                assert all(torch.equal(ours[name], theirs[name]) for name in ours)
            elif field.name == "windows":
                assert torch.equal(ours.ids_NL, theirs.ids_NL)
                assert (ours.sources, ours.warnings) == (theirs.sources, theirs.warnings)
            else:
                assert ours == theirs
        assert [path.name for path in tmp_path.iterdir()] == ["s"]

    def test_damage_is_seen(self, collected: Statistics, tmp_path: Path) -> None:
        path = tmp_path / "s"
        save_statistics(collected, path)
        whole = path.read_bytes()
        for damaged in (b"", whole[:100], whole[:-1], b"hello" * 50):
            path.write_bytes(damaged)
            with pytest.raises(StatisticsError, match="cannot be read"):
                load_statistics(path)
        with pytest.raises(StatisticsError, match="cannot be read"):
            load_statistics(tmp_path / "gone")

    def test_nan_and_other_formats_are_refused(self, collected: Statistics, tmp_path: Path) -> None:
        path = tmp_path / "s"
        save_statistics(collected, path)
        tensors = load_file(path)
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
        name = next(name for name in tensors if name.startswith("input_gram"))
        tensors[name][0, 0] = float("nan")
        save_file(tensors, path, metadata)
        with pytest.raises(StatisticsError, match="not finite"):
            load_statistics(path)
        save_file(tensors, path, {"trimtab": metadata["trimtab"].replace("statistics-1", "statistics-9")})
        with pytest.raises(StatisticsError, match="not a statistics file of this version"):
            load_statistics(path)

    def test_of_another_model_or_without_what_is_needed(self, collected: Statistics) -> None:
        check_model(collected, "f" * 64, Path("s"))
        with pytest.raises(StatisticsError, match="another model"):
            check_model(collected, "e" * 64, Path("s"))
        with pytest.raises(StatisticsError, match="does not hold sensitivity"):
            check_kinds(collected, frozenset({"fisher", "sensitivity"}), Path("s"))


def projections_and_store(collected: Statistics, name: str) -> tuple[object, list[Projection], Store]:
    model, _ = tiny("llama")
    projections = find_projections(model)
    store: Store = {}
    factorize_all(model, projections, collected, make_recipe(factorizer=name), store)
    return model, projections, store


@pytest.mark.parametrize("name", ["svd", "asvd", "whitened", "two-sided"])
def test_every_factorizer_is_nested_and_exact_at_full_rank(name: str, collected: Statistics) -> None:
    model, _ = tiny("llama")
    for each in find_projections(model):
        method, w_OI = factorizers.get(name), weight(model, each)
        full = min(w_OI.shape)
        whole, half = (
            method.function(w_OI, collected.of(each.name), rank, method.options()) for rank in (full, full // 2)
        )
        assert torch.allclose(whole.u_RO.T @ whole.v_RI, w_OI, atol=1e-4)
        assert torch.allclose(half.u_RO, whole.u_RO[: full // 2], atol=1e-5)
        assert len(half.energy_K) == full
        assert (half.energy_K.diff() <= 0).all()


def test_a_plan_predicts_what_it_does_and_the_layers_compute_the_product(collected: Statistics) -> None:
    model, projections, store = projections_and_store(collected, "whitened")
    budget = Budget(int(0.6 * sum(each.parameters for each in projections)))
    plan = make_plan(model, projections, collected, make_recipe("svd-llm"), store, budget)
    assert plan.parameters <= budget.parameters
    whole = {each.name: weight(model, each).clone() for each in projections}
    apply_plan(model, plan, store)
    dense, _ = tiny("llama")
    for each in projections:
        rank, factors = plan.ranks[each.name], store[each.name]
        if rank is None:
            assert plan.predicted[each.name] == 0
            continue
        product_OI = factors.u_RO[:rank].T @ factors.v_RI[:rank]
        gram = collected.of(each.name).input_gram_II
        lost = ((whole[each.name] - product_OI) @ gram * (whole[each.name] - product_OI)).sum()
        assert float(lost) == pytest.approx(float(factors.energy_K[rank:].sum()), rel=1e-2)
        assert plan.predicted[each.name] == pytest.approx(
            float(lost / (whole[each.name] @ gram * whole[each.name]).sum()), rel=1e-4
        )
        weight(dense, each).copy_(product_OI)
    with torch.no_grad():
        assert torch.allclose(model(IDS_NL).logits, dense(IDS_NL).logits, atol=1e-4)


def test_the_sensitivity_search_gives_the_model_back_and_goes_on_after_an_interruption(
    collected: Statistics, tmp_path: Path
) -> None:
    model, projections, store = projections_and_store(collected, "whitened")
    before = {name: each.clone() for name, each in model.named_parameters()}
    path = tmp_path / "table.json"
    part = measure(model, projections[:3], store, Windows(IDS_NL), (0.5, 0.9), path)
    whole = measure(model, projections, store, Windows(IDS_NL), (0.5, 0.9), path)
    assert {name: whole[name] for name in part} == part
    assert set(whole) == {each.name for each in projections}
    assert all(torch.equal(each, before[name]) for name, each in model.named_parameters())
    assert kept_rank(64, 64, 0.5) == 16


def test_a_folder_store_survives_crashes(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    factors = Factors(torch.randn(3, 5), torch.randn(3, 4), torch.rand(4), "output")
    store["a.b"] = factors
    (tmp_path / "store" / "c.123.part").write_text("half")
    again = FolderStore(tmp_path / "store")
    assert list(again) == ["a.b"]
    assert "c" not in again
    assert torch.equal(again["a.b"].u_RO, factors.u_RO)
    assert again.spectrum("a.b")[1] == "output"
    with pytest.raises(KeyError):
        again["c"]
    file = tmp_path / "store" / "a.b.safetensors"
    file.write_bytes(file.read_bytes()[:30])
    with pytest.raises(StatisticsError, match="is damaged"):
        again["a.b"]
