"""Divergence from the base against its definition in fp64."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from scipy import stats
from transformers import PreTrainedModel

from tests.evaluate.plain import broken, damaged, log_probabilities, windows
from tests.tiny import tiny
from trimtab.errors import ModelError, OptionError
from trimtab.evaluate.divergence import compare, kl_to_base, token_kl
from trimtab.evaluate.perplexity import perplexity, perplexity_ratio
from trimtab.text.windows import Windows


@pytest.fixture(scope="module")
def base() -> PreTrainedModel:
    return tiny("llama")[0]


def plain_kl(model: PreTrainedModel, base: PreTrainedModel, ids_L: torch.Tensor) -> torch.Tensor:
    p_LV, q_LV = log_probabilities(base, ids_L)[:-1], log_probabilities(model, ids_L)[:-1]
    return (p_LV.exp() * (p_LV - q_LV)).sum(-1)


@pytest.mark.parametrize("arch", ["llama", "gpt2", "opt", "gemma3", "qwen3_moe"])
def test_it_is_the_mean_over_tokens_of_the_base_s_kl(arch: str) -> None:
    base, text = tiny(arch)[0], windows(6)
    model = damaged(base)
    found = kl_to_base(model, base, text, batch_size=4)
    means = [float(plain_kl(model, base, ids_L).mean()) for ids_L in text.ids_NL]
    assert found.value == pytest.approx(sum(means) / 6, rel=1e-4)
    low, high = stats.t.interval(0.95, 5, sum(means) / 6, stats.sem(means))
    assert (found.low, found.high) == pytest.approx((max(low, 0), high), rel=1e-3)
    assert (found.count, found.unit) == (6, "nats per token")


def test_it_is_not_symmetric(base: PreTrainedModel) -> None:
    model = damaged(base, 4)
    there, back = kl_to_base(model, base, windows()).value, kl_to_base(base, model, windows()).value
    assert abs(there - back) > 1e-3 * there
    assert there > 0
    assert back > 0


def test_a_model_does_not_differ_from_itself(base: PreTrainedModel) -> None:
    for other in (base, copy.deepcopy(base)):
        found = compare(other, base, windows())
        assert (found.kl.low, found.kl.value, found.kl.high) == (0, 0, 0)
        assert found.ratio.value == 1


def test_it_is_never_below_zero(base: PreTrainedModel) -> None:
    almost = damaged(base, 1 + 1e-6)
    found = kl_to_base(almost, base, windows())
    assert 0 <= found.low <= found.value <= found.high < 1e-5


def test_it_sees_what_perplexity_does_not() -> None:
    """Two predictions that give the token that came the same probability, and the others not."""
    first, second = torch.tensor([[0.5, 0.4, 0.1]]).log(), torch.tensor([[0.5, 0.1, 0.4]]).log()
    expected = 0.4 * math.log(4) - 0.1 * math.log(4)
    assert float(token_kl(second, first)) == pytest.approx(expected)


@pytest.mark.parametrize("stride", [None, 10])
@pytest.mark.parametrize("bos_id", [None, 0])
def test_the_perplexities_beside_it_are_those_measured_alone(
    stride: int | None, bos_id: int | None, base: PreTrainedModel
) -> None:
    model, how = damaged(base), {"stride": stride, "bos_id": bos_id}
    found = compare(model, base, windows(), batch_size=2, **how)
    ours, theirs = perplexity(model, windows(), **how), perplexity(base, windows(), **how)
    assert torch.allclose(found.model.nll_N, ours.nll_N, rtol=1e-6)
    assert torch.allclose(found.base.nll_N, theirs.nll_N, rtol=1e-6)
    assert found.model.tokens == ours.tokens
    assert found.ratio.value == pytest.approx(perplexity_ratio(ours, theirs).value)


def test_windows_that_overlap_are_weighted_by_what_they_score(base: PreTrainedModel) -> None:
    model, text = damaged(base), windows(3)
    found = compare(model, base, text, stride=10).kl
    row_T, parts = text.ids_NL.flatten(), []
    for start in range(0, len(row_T) - 24 + 1, 10):
        kl_L = plain_kl(model, base, row_T[start : start + 24])
        parts.append(kl_L if start == 0 else kl_L[-10:])
    assert found.value == pytest.approx(float(torch.cat(parts).mean()), rel=1e-4)


def test_what_cannot_be_compared(base: PreTrainedModel) -> None:
    small = copy.deepcopy(base)
    small.resize_token_embeddings(310)
    text = Windows(windows().ids_NL.clamp(max=300))
    with pytest.raises(ModelError, match="310 tokens and the base 320"):
        compare(small, base, text)
    short = copy.deepcopy(base)
    short.config.max_position_embeddings = 20
    for pair in ((short, base), (base, short)):
        with pytest.raises(OptionError, match="context of 20"):
            compare(*pair, windows())
    for pair in ((broken(base), base), (base, broken(base))):
        with pytest.raises(ModelError, match="window 1 of the text"):
            compare(*pair, windows())
