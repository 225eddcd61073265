"""The Python interface: plan and compress a model that is in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trimtab.compression import sensitivity
from trimtab.compression.allocators import Budget
from trimtab.compression.budget import Target, budget_parameters, parse_size
from trimtab.compression.methods import Recipe, make_recipe
from trimtab.compression.plan import Plan, apply_plan, factorize_all, make_plan
from trimtab.compression.statistics import KINDS, Statistics, collect, few_tokens_warning
from trimtab.compression.statistics_file import check_kinds, check_model, load_statistics
from trimtab.compression.store import Store
from trimtab.errors import ModelError, StatisticsError
from trimtab.lowrank.checkpoint import save_checkpoint
from trimtab.lowrank.output import fresh_folder
from trimtab.lowrank.quantizer import attach
from trimtab.lowrank.ranks import RankMap, low_rank_layers
from trimtab.models.checks import check_compressible, check_finite
from trimtab.models.fingerprint import model_fingerprint
from trimtab.models.projections import find_projections
from trimtab.progress import say
from trimtab.report.figures import importance_figure, rank_figure
from trimtab.run.made import how_it_was_made
from trimtab.run.summary import projection_rows
from trimtab.text.calibration import calibration_windows
from trimtab.text.windows import Windows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass
class Planned:
    """A model with its statistics, its factors, and the ranks that were chosen. `plan` makes it.

    The model itself is unchanged until `apply`.
    """

    model: PreTrainedModel
    recipe: Recipe
    statistics: Statistics
    store: Store
    plan: Plan
    sensitivity: sensitivity.Table | None = None

    @property
    def ranks(self) -> RankMap:
        """The rank of every projection, by module path; None where it stays dense."""
        return self.plan.ranks

    @property
    def removed(self) -> float:
        """The realised share of projection parameters removed."""
        return self.plan.removed

    def at(
        self, *, remove: float | None = None, keep: float | None = None, target_size: int | str | None = None
    ) -> Planned:
        """The same for another budget, from the same statistics and factors: seconds, and the model is not run.

        Raises:
            OptionError: the budget cannot be met.
        """
        target = _target(remove, keep, target_size)
        budget = Budget(budget_parameters(target, self.model, self.plan.projections), self.plan.budget.multiple)
        plan = make_plan(
            self.model, self.plan.projections, self.statistics, self.recipe, self.store, budget, self.sensitivity
        )
        return replace(self, plan=plan)

    def apply(self) -> PreTrainedModel:
        """Put low-rank layers into the model, in place, and return it; `save_pretrained` then writes a low-rank
        checkpoint.

        Raises:
            ModelError: the model has low-rank layers already.
        """
        if low_rank_layers(self.model):
            raise ModelError("the model has low-rank layers already; load it again to compress it another way")
        apply_plan(self.model, self.plan, self.store)
        attach(self.model, how_it_was_made(self.recipe, self.statistics, self.plan))
        return self.model

    def rank_figure(self) -> Figure:
        """The ranks as a matplotlib figure: layers across, kinds of projection down.

        Raises:
            OptionError: matplotlib is not installed.
        """
        return rank_figure(self._rows(), self._title())

    def importance_figure(self) -> Figure:
        """Fisher importance by layer and kind as a matplotlib figure.

        Raises:
            OptionError: matplotlib is not installed, or the statistics hold no importance.
        """
        return importance_figure(self._rows(), self._title())

    def _rows(self) -> list[Any]:
        return projection_rows(self.plan, self.statistics.importances.get("fisher", {}))

    def _title(self) -> str:
        return f"{self.recipe.method}, {self.removed:.1%} removed"


def plan(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    remove: float | None = None,
    keep: float | None = None,
    target_size: int | str | None = None,
    method: str = "flrc",
    factorizer: str | None = None,
    allocator: str | None = None,
    settings: Iterable[str] = (),
    calibration: str | Sequence[str] | Windows = "self",
    windows: int = 32,
    window_length: int = 512,
    seed: int = 0,
    multiple: int = 1,
    include_head: bool = False,
    statistics: Statistics | Path | str | None = None,
) -> Planned:
    """Collect statistics, factorise every projection and choose all ranks. The model is not changed.

    Args:
        remove, keep, target_size: exactly one: the fraction of projection parameters to remove or to keep, or the
            size of the weight files ("90MB", or bytes).
        method: a pair of factorizer and allocator, see `trimtab.compression.methods.METHODS`; `factorizer` and
            `allocator` choose freely.
        settings: options of the two, such as "allocator.power=0.5".
        calibration: sources of text (see `trimtab.text.sources.read_text`, or "self"), or windows of token ids.
        windows, window_length: calibration windows from each source, and tokens in each.
        seed: of the text that the model writes itself.
        multiple: ranks are multiples of it (8 suits GPUs).
        statistics: collected before on the same model, or their file; then `calibration` is not read.

    Raises:
        TrimtabError: one of its children: the model is quantised or damaged, the text cannot be used, an option or
            the budget is wrong, or the statistics are of another model.
    """
    recipe = make_recipe(method, factorizer=factorizer, allocator=allocator, settings=settings)
    check_compressible(model)
    check_finite(model)
    projections = tuple(find_projections(model, include_head=include_head))
    budget = Budget(budget_parameters(_target(remove, keep, target_size), model, projections), multiple)
    if statistics is None:
        text = _windows(calibration, model, tokenizer, windows, window_length, seed)
        found = collect(
            model, list(projections), text, kinds=recipe.needs & KINDS, model_fingerprint=model_fingerprint(model)
        )
    else:
        found = _given(statistics, model, recipe)
    for warning in (*found.windows.warnings, few_tokens_warning(found.windows.tokens, list(projections))):
        if warning:
            say(f"warning: {warning}")
    store: Store = {}
    factorize_all(model, projections, found, recipe, store)
    table = None
    if "sensitivity" in recipe.needs:
        options = recipe.allocator_options
        few = Windows(found.windows.ids_NL[: options.windows])
        table = sensitivity.measure(model, projections, store, few, options.ratios)
    chosen = make_plan(model, projections, found, recipe, store, budget, table)
    return Planned(model, recipe, found, store, chosen, table)


def compress(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, **options: Any) -> PreTrainedModel:
    """Compress `model` in place and return it: `plan(model, tokenizer, **options).apply()`.

    Raises:
        TrimtabError: as `plan`; the model is then unchanged.
    """
    return plan(model, tokenizer, **options).apply()


def save(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path, *, overwrite: bool = False
) -> None:
    """Write a compressed model as a checkpoint folder, with hashes of its files, whole or not at all.

    Raises:
        ModelError: the model has no low-rank layers; use its own `save_pretrained`.
        OutputError: the folder exists, cannot be written, or the disk is full.
    """
    if not low_rank_layers(model):
        raise ModelError("the model has no low-rank layers; use its own save_pretrained")
    with fresh_folder(folder, overwrite=overwrite) as temporary:
        save_checkpoint(model, tokenizer, temporary, made=dict(model.config.quantization_config.made))


def _target(remove: float | None, keep: float | None, target_size: int | str | None) -> Target:
    return Target(remove, keep, parse_size(target_size) if isinstance(target_size, str) else target_size)


def _windows(
    calibration: str | Sequence[str] | Windows,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    windows: int,
    length: int,
    seed: int,
) -> Windows:
    if isinstance(calibration, Windows):
        return calibration
    specs = [calibration] if isinstance(calibration, str) else calibration
    return calibration_windows(specs, model, tokenizer, windows=windows, length=length, seed=seed)


def _given(statistics: Statistics | Path | str, model: PreTrainedModel, recipe: Recipe) -> Statistics:
    """Statistics that the caller brought, checked."""
    where = Path("statistics") if isinstance(statistics, Statistics) else Path(statistics)
    found = statistics if isinstance(statistics, Statistics) else load_statistics(where)
    if not found.model_fingerprint:
        raise StatisticsError("these statistics do not say which model they are of (model_fingerprint)")
    check_model(found, model_fingerprint(model), where)
    check_kinds(found, recipe.needs & KINDS, where)
    return found
