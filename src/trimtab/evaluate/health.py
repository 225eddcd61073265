"""Is what a model writes healthy: does it end by itself, does it repeat itself, how long is it.

A compressed model can keep a fair perplexity and still never stop, or say one sentence for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.evaluate.measure import Measure, bootstrap_mean, proportion


@dataclass(frozen=True)
class Health:
    """`stopped`: share of outputs that ended by themselves, 95 % Wilson interval. `repeated_4grams`: mean over
    outputs of `repeated_share`, and `mean_length` in tokens: 95 % percentile bootstrap over outputs."""

    stopped: Measure
    repeated_4grams: Measure
    mean_length: Measure


def health(outputs_ids: Sequence[Sequence[int]], stopped: Sequence[bool]) -> Health:
    """Health of outputs given as token ids (without end tokens) and whether each ended by itself.

    Outputs shorter than four tokens have no 4-gram and do not count for `repeated_4grams`.
    """
    shares = [share for share in map(repeated_share, outputs_ids) if share is not None]
    return Health(
        stopped=proportion(sum(stopped), len(stopped)),
        repeated_4grams=bootstrap_mean(shares, "share"),
        mean_length=bootstrap_mean([len(ids) for ids in outputs_ids], "tokens"),
    )


def repeated_share(ids: Sequence[int], n: int = 4) -> float | None:
    """1 - (different n-grams) / (all n-grams) of one output: 0 says nothing twice, near 1 is a loop.

    seq-rep-n of Welleck et al. 2019 (Neural Text Generation with Unlikelihood Training, section 6.1); None where
    the output is shorter than `n`.
    """
    grams = [tuple(ids[start : start + n]) for start in range(len(ids) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else None
