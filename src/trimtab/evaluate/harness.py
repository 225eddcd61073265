"""Accuracy on tasks of the lm-evaluation-harness, when it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trimtab.errors import OptionError
from trimtab.evaluate.measure import Measure, proportion

_METRICS = ("acc_norm", "acc", "exact_match")
"""The metrics that are shares of right answers, the length-normalised one first."""


def check_installed() -> None:
    """Raise OptionError, saying how to install it, if lm-eval is not there."""
    try:
        import lm_eval  # noqa: F401
    except ImportError:
        raise OptionError(
            "tasks of the form lm-eval:... need the lm-evaluation-harness: pip install 'trimtab[lm-eval]'"
        ) from None


def harness_accuracy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    tasks: Sequence[str | dict[str, Any]],
    *,
    limit: int | None = None,
    batch_size: int = 8,
) -> dict[str, Measure]:
    """Share of right answers of each task, zero-shot as the task is defined, on its first `limit` examples.

    A task is a name that lm-eval knows (a group stands for its members) or a task configuration. Of its metrics
    `acc_norm` is taken, else `acc`, else `exact_match`. The 95 % interval is ours: Wilson, as for all shares here.

    Raises OptionError when lm-eval is missing, a task is unknown or its data cannot be had, it has none of these
    metrics, or the limit is below 1.
    """
    check_installed()
    if limit is not None and limit < 1:
        raise OptionError(f"the limit must be at least 1, not {limit}")
    import lm_eval
    from lm_eval.models.huggingface import HFLM

    names = ", ".join(task if isinstance(task, str) else task["task"] for task in tasks)
    try:
        wrapped = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=batch_size)
        found: Any = lm_eval.simple_evaluate(
            wrapped, tasks=list(tasks), num_fewshot=0, limit=limit, bootstrap_iters=0, log_samples=False
        )
    except Exception as error:  # the harness raises many kinds: unknown task, no such data, no network
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OptionError(f"lm-eval could not run {names}: {reason}") from error
    counts = {task: samples["effective"] for task, samples in found["n-samples"].items()}
    return {task: _measure(task, found["results"][task], count) for task, count in counts.items()}


def _measure(task: str, results: dict[str, Any], count: int) -> Measure:
    for metric in _METRICS:
        for key, value in results.items():
            if key.split(",")[0] == metric:
                return proportion(round(value * count), count)
    known = ", ".join(sorted(key.split(",")[0] for key in results if "," in key))
    raise OptionError(f"the lm-eval task {task} reports no accuracy, only {known}")
