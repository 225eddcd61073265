"""All measurements of one model, put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trimtab.errors import ModelError, OptionError
from trimtab.evaluate.choice_files import ChoiceItem
from trimtab.evaluate.choices import multiple_choice
from trimtab.evaluate.divergence import compare
from trimtab.evaluate.forward import bos_rule
from trimtab.evaluate.generation import Output, generate_batch
from trimtab.evaluate.harness import harness_accuracy
from trimtab.evaluate.health import health
from trimtab.evaluate.measure import Measure
from trimtab.evaluate.perplexity import perplexity
from trimtab.evaluate.summaries import SummaryItem, summaries
from trimtab.progress import say
from trimtab.text.windows import Windows


@dataclass(frozen=True)
class Sample:
    """A prompt and what the model wrote after it."""

    prompt: str
    output: Output


@dataclass
class Evaluation:
    """What was measured.

    `measures` in the order measured: `perplexity`; with a base `base_perplexity`, `perplexity_ratio` and
    `kl_to_base`; `accuracy` and `accuracy_raw` (`accuracy_TASK` for tasks of lm-eval); `rouge1`, `rouge2`,
    `rougeL`; `stopped`, `repeated_4grams`, `mean_length`. `tokens`: predictions behind the perplexity, None
    without one. `samples`: every output that was generated. `evaluate_against` adds the base's own numbers as
    `base_NAME` and its outputs as `base_samples`.
    """

    measures: dict[str, Measure] = field(default_factory=dict)
    tokens: int | None = None
    samples: list[Sample] = field(default_factory=list)
    base_samples: list[Sample] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Each measure NAME as NAME, NAME_low, NAME_high (95 %; None where there is none) and NAME_count."""
        found: dict[str, Any] = {}
        for name, measure in self.measures.items():
            found[name] = _finite(measure.value)
            found[f"{name}_low"], found[f"{name}_high"] = _finite(measure.low), _finite(measure.high)
            found[f"{name}_count"] = measure.count
        if self.tokens is not None:
            found["tokens"] = self.tokens
        return found


def evaluate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    base: PreTrainedModel | None = None,
    windows: Windows | None = None,
    stride: int | None = None,
    choices: Sequence[ChoiceItem] | None = None,
    harness: Sequence[str | dict[str, Any]] | None = None,
    summaries: Sequence[SummaryItem] | None = None,
    prompts: Sequence[str] | None = None,
    limit: int | None = None,
    max_new_tokens: int = 128,
    batch_size: int = 8,
) -> Evaluation:
    """Measure whatever is given: perplexity on `windows` (and divergence from `base`, which needs windows),
    accuracy on `choices` or on lm-eval's tasks `harness`, ROUGE on `summaries`, and the health of all texts
    written for `summaries` and `prompts` (greedy, at most `max_new_tokens`).

    `limit` takes the first so many of choices, tasks' examples and summaries. How each interval is made is said
    at the function that makes it.

    Raises OptionError if nothing is to be measured or a limit or batch size is below 1, and what the
    measurements raise.
    """
    _check(windows, base, (windows, choices, harness, summaries, prompts), limit, batch_size)
    result = Evaluation()
    if windows is not None:
        _add_perplexity(result, model, base, windows, stride, batch_size, bos_rule(tokenizer))
    if choices is not None:
        found = multiple_choice(model, tokenizer, choices, limit=limit, batch_size=batch_size)
        result.measures |= {"accuracy": found.accuracy, "accuracy_raw": found.accuracy_raw}
    if harness:
        accuracies = harness_accuracy(model, tokenizer, harness, limit=limit, batch_size=batch_size)
        result.measures |= {f"accuracy_{task}": accuracy for task, accuracy in accuracies.items()}
    generation: dict[str, Any] = {"max_new_tokens": max_new_tokens, "batch_size": batch_size}
    if summaries is not None:
        _add_summaries(result, model, tokenizer, summaries, limit, generation)
    if prompts:
        outputs = generate_batch(model, tokenizer, prompts, description="answers", **generation)
        result.samples += map(Sample, prompts, outputs)
    _add_health(result)
    return result


def evaluate_against(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    base: PreTrainedModel,
    base_tokenizer: PreTrainedTokenizerBase,
    *,
    windows: Windows,
    stride: int | None = None,
    **tasks: Any,
) -> Evaluation:
    """`evaluate(model, base=base, ...)`, and the same `tasks` (choices, summaries, ...) done by the base too.

    Raises ModelError where the two tokenizers differ: the windows' ids would mean something else to the base.
    """
    check_same_tokens(tokenizer, base_tokenizer, windows)
    result = evaluate(model, tokenizer, base=base, windows=windows, stride=stride, **tasks)
    if any(tasks.get(name) for name in ("choices", "harness", "summaries", "prompts")):
        say("and the same for the base")
        own = evaluate(base, base_tokenizer, **tasks)
        result.measures |= {f"base_{name}": measure for name, measure in own.measures.items()}
        result.base_samples = own.samples
    return result


def check_same_tokens(
    tokenizer: PreTrainedTokenizerBase, base_tokenizer: PreTrainedTokenizerBase, windows: Windows
) -> None:
    """Raise ModelError unless every id in the windows is the same token for both tokenizers."""
    ids = windows.ids_NL.unique().tolist()
    if tokenizer.convert_ids_to_tokens(ids) != base_tokenizer.convert_ids_to_tokens(ids):
        raise ModelError("the model and its base use different tokenizers: their predictions cannot be compared")


def _check(
    windows: Windows | None, base: PreTrainedModel | None, given: tuple, limit: int | None, batch_size: int
) -> None:
    if not any(part is not None and len(part) for part in given):
        raise OptionError("nothing to measure: give a text, choices, summaries or prompts")
    if base is not None and windows is None:
        raise OptionError("a comparison with a base needs a text to compare on")
    if limit is not None and limit < 1:
        raise OptionError(f"the limit must be at least 1, not {limit}")
    if batch_size < 1:
        raise OptionError(f"the batch size must be at least 1, not {batch_size}")


def _add_perplexity(
    result: Evaluation,
    model: PreTrainedModel,
    base: PreTrainedModel | None,
    windows: Windows,
    stride: int | None,
    batch_size: int,
    bos_id: int | None,
) -> None:
    if base is None:
        own = perplexity(model, windows, batch_size=batch_size, bos_id=bos_id, stride=stride)
        result.measures["perplexity"] = own.perplexity
    else:
        both = compare(model, base, windows, batch_size=batch_size, bos_id=bos_id, stride=stride)
        own = both.model
        result.measures |= {
            "perplexity": own.perplexity,
            "base_perplexity": both.base.perplexity,
            "perplexity_ratio": both.ratio,
            "kl_to_base": both.kl,
        }
    result.tokens = own.tokens


def _add_summaries(
    result: Evaluation,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    items: Sequence[SummaryItem],
    limit: int | None,
    generation: dict[str, Any],
) -> None:
    found = summaries(model, tokenizer, items, limit=limit, **generation)
    result.measures |= found.rouge
    result.samples += [Sample(item.dialogue, output) for item, output in zip(items[:limit], found.outputs, strict=True)]


def _add_health(result: Evaluation) -> None:
    if result.samples:
        outputs = [sample.output for sample in result.samples]
        found = health([output.ids for output in outputs], [output.stopped for output in outputs])
        result.measures |= {
            "stopped": found.stopped,
            "repeated_4grams": found.repeated_4grams,
            "mean_length": found.mean_length,
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
