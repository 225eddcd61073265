"""What the calibration text says about every projection, in one pass of the model.

Legend: N windows, L tokens in a window, T tokens, I input width, O output width, V vocabulary.

- input Gram C_II: mean over tokens of x x^T (and the mean of |x|, which ASVD needs);
- output-gradient Gram G_OO: mean over tokens of g g^T, g the gradient of the *summed* next-token loss of a window
  for the projection's output at one token;
- importance: from the gradient of each window for the weight, see `IMPORTANCES`.

Weights' gradients are used as they appear and freed at once, so the memory above the model is one projection's
gradient, the Grams and one window's activations. Projections that read the same tensor (q, k and v; gate and up)
share one input Gram.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from trimtab.compression.factorizers import Knowledge
from trimtab.errors import ModelError
from trimtab.models.compute_dtype import fastest_dtype
from trimtab.models.projections import Projection
from trimtab.progress import track
from trimtab.text.windows import Windows

KINDS = frozenset({"input_gram", "output_gram", "fisher"})
"""What can be collected; "output_gram" and "fisher" need a backward pass."""

IMPORTANCES = ("fisher", "absolute", "gradient")
"""Per projection, from each window's weight gradient g: sum (g W)^2, sum |g W|, sum g^2 (summed over windows)."""

_ROWS = 32
"""Predictions whose softmax is computed at a time."""


@dataclass
class Statistics:
    """Everything collected about the projections of one model on one text. Tensors are fp32 on the CPU.

    `input_grams` and `input_means` are kept once per group of projections with the same input; `groups` maps a
    projection to the projection under whose name they are kept. `importances[kind][name]` is a number per
    projection; `gradient_energies[name]` is the mean of |g|^2 over tokens.
    """

    kinds: frozenset[str]
    model_fingerprint: str
    windows: Windows
    groups: dict[str, str] = field(default_factory=dict)
    input_grams: dict[str, Tensor] = field(default_factory=dict)
    input_means: dict[str, Tensor] = field(default_factory=dict)
    output_grams: dict[str, Tensor] = field(default_factory=dict)
    importances: dict[str, dict[str, float]] = field(default_factory=dict)
    gradient_energies: dict[str, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def of(self, name: str) -> Knowledge:
        """Return what is known about one projection."""
        group = self.groups.get(name)
        return Knowledge(
            input_gram_II=self.input_grams.get(group) if group else None,
            output_gram_OO=self.output_grams.get(name),
            input_mean_I=self.input_means.get(group) if group else None,
        )


def collect(
    model: nn.Module,
    projections: list[Projection],
    windows: Windows,
    *,
    kinds: Iterable[str] = KINDS,
    model_fingerprint: str = "",
) -> Statistics:
    """Run the model once over the windows (one at a time) and return the statistics.

    The model computes in its own dtype, or in fp32 where this processor is faster in it (see `fastest_dtype`).

    Args:
        windows: ids_NL, whole windows without padding.
        kinds: which of `KINDS` to collect.

    Raises:
        ModelError: the loss of a window, or a gradient, is not finite.
    """
    kinds = frozenset(kinds)
    assert kinds <= KINDS, kinds - KINDS
    start = time.monotonic()
    statistics = Statistics(kinds, model_fingerprint, windows)
    if kinds:
        with fastest_dtype(model), _Collector(model, projections, statistics) as collector:
            for ids_L in track(windows.ids_NL, "Statistics", len(windows.ids_NL)):
                collector.add_window(ids_L)
        _finish(statistics, projections)
    statistics.notes["seconds"] = round(time.monotonic() - start, 2)
    return statistics


class _Collector(AbstractContextManager["_Collector"]):
    """The hooks of one pass. While it is open, only the projections' weights want gradients."""

    def __init__(self, model: nn.Module, projections: list[Projection], statistics: Statistics) -> None:
        self.model = model
        self.projections = projections
        self.statistics = statistics
        self.backward = bool(statistics.kinds & {"output_gram", "fisher"})
        self.undo = ExitStack()
        self.last_input: tuple[str, Tensor] | None = None
        self.device = next(model.parameters()).device

    def __enter__(self) -> _Collector:
        self.undo.enter_context(_only_gradients_of(self.model, self.projections if self.backward else []))
        self.undo.enter_context(torch.set_grad_enabled(self.backward))
        for projection in self.projections:
            module = self.model.get_submodule(projection.name)
            handle = module.register_forward_hook(self._forward_hook(projection.name))
            self.undo.callback(handle.remove)
            if self.backward:
                parameter: Any = module.weight
                handle = parameter.register_post_accumulate_grad_hook(self._weight_hook(projection.name))
                self.undo.callback(handle.remove)
        return self

    def __exit__(self, *failure: object) -> None:
        self.undo.close()

    def add_window(self, ids_L: Tensor) -> None:
        ids_1L = ids_L[None].to(self.device)
        logits_1LV = self.model(input_ids=ids_1L, use_cache=False).logits
        self.last_input = None
        loss, gradient_LV = summed_next_token_loss(logits_1LV[0].detach(), ids_1L[0])
        if not math.isfinite(loss):
            raise ModelError(f"the model's loss on a calibration window is {loss}: its weights are not sound")
        if self.backward:
            logits_1LV.backward(gradient_LV[None])

    def _forward_hook(self, name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            x = inputs[0]
            if "input_gram" in self.statistics.kinds:
                self._add_input(name, x)
            if self.backward:
                output.register_hook(lambda g: self._add_gradient(name, g))

        return hook

    def _add_input(self, name: str, x: Tensor) -> None:
        if self.last_input is not None and _same_tensor(self.last_input[1], x):
            self.statistics.groups[name] = self.last_input[0]
            return
        self.last_input = (name, x)
        self.statistics.groups[name] = name
        x_TI = x.detach().reshape(-1, x.shape[-1]).float()
        _add(self.statistics.input_means, name, x_TI.abs().sum(0))
        _add_gram(self.statistics.input_grams, name, x_TI)

    def _add_gradient(self, name: str, g: Tensor) -> None:
        g_TO = g.reshape(-1, g.shape[-1])
        energies = self.statistics.gradient_energies
        energies[name] = energies.get(name, 0.0) + _norm(g_TO, 2) ** 2
        if "output_gram" in self.statistics.kinds:
            _add_gram(self.statistics.output_grams, name, g_TO)

    def _weight_hook(self, name: str) -> Callable[[Tensor], None]:
        def hook(parameter: Tensor) -> None:
            gradient = parameter.grad
            assert gradient is not None
            parameter.grad = None
            if "fisher" not in self.statistics.kinds:
                return
            gradient = _wide(gradient)
            product = gradient * parameter.detach()
            sums = (_norm(product, 2) ** 2, _norm(product, 1), _norm(gradient, 2) ** 2)
            for kind, value in zip(IMPORTANCES, sums, strict=True):
                table = self.statistics.importances.setdefault(kind, {})
                table[name] = table.get(name, 0.0) + value

        return hook


def summed_next_token_loss(logits_LV: Tensor, ids_L: Tensor) -> tuple[float, Tensor]:
    """Return the sum of -log p(next token), labels shifted once, and its gradient softmax(logits) - onehot(next token).

    The softmax is in fp32, the gradient in the logits' dtype (its last row, which predicts nothing, is zero). A few
    rows at a time stay in the cache; a whole window's would not.
    """
    gradient_LV = torch.empty_like(logits_LV)
    gradient_LV[-1] = 0
    loss = 0.0
    for start in range(0, len(ids_L) - 1, _ROWS):
        rows = slice(start, min(start + _ROWS, len(ids_L) - 1))
        next_R1 = ids_L[rows.start + 1 : rows.stop + 1, None]
        logp_RV = logits_LV[rows].float().log_softmax(-1)
        loss -= logp_RV.gather(1, next_R1).sum().item()
        gradient_LV[rows] = logp_RV.exp_().scatter_add_(1, next_R1, -torch.ones_like(logp_RV[:, :1]))
    return loss, gradient_LV


class _only_gradients_of(AbstractContextManager[None]):
    """Let only the projections' weights want gradients; give back every flag, gradient and mode afterwards."""

    def __init__(self, model: nn.Module, projections: list[Projection]) -> None:
        self.model = model
        self.wanted = {f"{projection.name}.weight" for projection in projections}

    def __enter__(self) -> None:
        self.modes = [(module, module.training) for module in self.model.modules()]
        self.flags = [(each, each.requires_grad, each.grad) for each in self.model.parameters()]
        self.model.eval()
        for name, parameter in self.model.named_parameters():
            parameter.grad = None
            parameter.requires_grad_(name in self.wanted)

    def __exit__(self, *failure: object) -> None:
        for module, training in self.modes:
            module.training = training
        for parameter, wants_gradient, gradient in self.flags:
            parameter.requires_grad_(wants_gradient)
            parameter.grad = gradient


def _same_tensor(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


def _add_gram(table: dict[str, Tensor], name: str, x_TN: Tensor) -> None:
    """Add x^T x, the product in the precision of `x_TN`, the sum in fp32.

    One addition a window: the rounding of the sum grows with the root of the number of windows and stays far
    below the eigenvalue floors. Inputs come in fp32, because their small eigenvalues count. Gradients come in the
    model's precision: their Gram is damped by much more than one rounding of bf16 (2^-9) can change.
    """
    x_TN = _wide(x_TN)
    product_NN = x_TN.T @ x_TN
    if name in table:
        table[name] += product_NN
    else:
        table[name] = product_NN.float()


def _wide(a: Tensor) -> Tensor:
    """fp16 as fp32: products of small gradients fall out of the range of fp16 (not out of that of bf16)."""
    return a.float() if a.dtype == torch.float16 else a


def _norm(a: Tensor, order: int) -> float:
    """The norm of all elements, summed in fp32."""
    return torch.linalg.vector_norm(a, order, dtype=torch.float32).item()


def _add(table: dict[str, Tensor], name: str, value: Tensor) -> None:
    table[name] = table[name] + value if name in table else value


def _finish(statistics: Statistics, projections: list[Projection]) -> None:
    """Turn sums into means, move them to the CPU, and give what was never seen its zeros."""
    tokens = statistics.windows.tokens
    for projection in projections:
        _fill_unseen(statistics, projection)
    for table in (statistics.input_grams, statistics.output_grams):
        for name in table:
            table[name] = ((table[name] + table[name].T) / (2 * tokens)).cpu()
    for name in statistics.input_means:
        statistics.input_means[name] = (statistics.input_means[name] / tokens).cpu()
    for name in statistics.gradient_energies:
        statistics.gradient_energies[name] /= tokens
        if not math.isfinite(statistics.gradient_energies[name]):
            raise ModelError(f"the gradient at the output of {name} is not finite on the calibration text")


def _fill_unseen(statistics: Statistics, projection: Projection) -> None:
    """A projection that no token reached has zero Grams and zero importance."""
    name, kinds = projection.name, statistics.kinds
    if "input_gram" in kinds and name not in statistics.groups:
        statistics.groups[name] = name
        statistics.input_grams[name] = torch.zeros(projection.in_features, projection.in_features)
        statistics.input_means[name] = torch.zeros(projection.in_features)
    if "output_gram" in kinds and name not in statistics.output_grams:
        statistics.output_grams[name] = torch.zeros(projection.out_features, projection.out_features)
    if kinds & {"output_gram", "fisher"}:
        statistics.gradient_energies.setdefault(name, 0.0)
    if "fisher" in kinds:
        for kind in IMPORTANCES:
            statistics.importances.setdefault(kind, {}).setdefault(name, 0.0)


def few_tokens_warning(tokens: int, projections: list[Projection]) -> str | None:
    """Warn when the calibration text is short for the widest projection (fewer than 4 tokens an input)."""
    widest = max(projections, key=lambda projection: projection.in_features)
    if tokens >= 4 * widest.in_features:
        return None
    return (
        f"only {tokens:,} calibration tokens for {widest.name} with {widest.in_features:,} inputs: "
        f"at least {4 * widest.in_features:,} are advised, quality will suffer"
    )
