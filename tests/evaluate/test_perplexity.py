"""Perplexity against a plain loop in fp64."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from tests.evaluate.plain import broken, damaged, losses, windows
from tests.tiny import ARCHITECTURES, tiny, tiny_tokenizer
from trimtab.errors import ModelError, OptionError
from trimtab.evaluate.forward import bos_rule
from trimtab.evaluate.perplexity import perplexity, perplexity_ratio
from trimtab.text.windows import Windows


@pytest.fixture(scope="module")
def llama() -> PreTrainedModel:
    return tiny("llama")[0]


def bos_tokenizer() -> PreTrainedTokenizerFast:
    """One that puts its beginning-of-sequence token before every text, as Llama's does."""
    tokenizer = tiny_tokenizer()
    tokenizer._tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return tokenizer


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_agrees_with_the_plain_loop(arch: str) -> None:
    model, text = tiny(arch)[0], windows()
    found = perplexity(model, text, batch_size=2)
    nll = torch.stack([losses(model, ids_L) for ids_L in text.ids_NL])
    assert found.perplexity.value == pytest.approx(math.exp(nll.mean()), rel=1e-5)
    assert found.nll_N.tolist() == pytest.approx(nll.mean(1).tolist(), rel=1e-5)
    assert found.tokens == nll.numel() == 5 * 23
    assert found.counts_N.tolist() == [23] * 5


def test_the_interval_is_students_over_windows_carried_through_the_exponential(llama: PreTrainedModel) -> None:
    text = windows(8)
    found = perplexity(llama, text).perplexity
    means = [float(losses(llama, ids_L).mean()) for ids_L in text.ids_NL]
    low, high = stats.t.interval(0.95, 7, sum(means) / 8, stats.sem(means))
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-5)
    assert found.count == 8
    assert math.isnan(perplexity(llama, windows(1)).perplexity.low)


@pytest.mark.parametrize("batch_size", [1, 3, 5, 64])
def test_the_batch_changes_nothing(batch_size: int, llama: PreTrainedModel) -> None:
    one, other = (perplexity(llama, windows(), batch_size=size, bos_id=0, stride=10) for size in (2, batch_size))
    assert torch.allclose(one.nll_N, other.nll_N, rtol=1e-6, atol=0)
    assert one.tokens == other.tokens


@pytest.mark.parametrize("bos_id", [None, 0])
@pytest.mark.parametrize("stride", [1, 7, 12, 23, 24])
def test_a_stride_predicts_each_token_once_with_what_stands_before_it(
    stride: int, bos_id: int | None, llama: PreTrainedModel
) -> None:
    text = windows(3)
    row_T = text.ids_NL.flatten()
    total, count = 0.0, 0
    for start in range(0, len(row_T) - 24 + 1, stride):
        ids = row_T[start : start + 24]
        own = losses(llama, ids if bos_id is None else torch.cat([torch.tensor([bos_id]), ids]))
        own = own[-23:] if start == 0 else own[-min(stride, 23) :]
        total, count = total + float(own.sum()), count + len(own)
    found = perplexity(llama, text, stride=stride, bos_id=bos_id)
    assert found.tokens == count
    assert found.perplexity.value == pytest.approx(math.exp(total / count), rel=1e-5)
    if stride < 24:
        assert found.tokens == 23 + (len(row_T) - 24) // stride * stride  # none twice, only the tail left out


def test_a_beginning_token_gives_context_and_is_not_predicted(llama: PreTrainedModel) -> None:
    text = windows()
    found = perplexity(llama, text, bos_id=0)
    nll = torch.stack([losses(llama, torch.cat([torch.zeros(1, dtype=torch.long), ids]))[1:] for ids in text.ids_NL])
    assert found.perplexity.value == pytest.approx(math.exp(nll.mean()), rel=1e-5)
    assert found.tokens == 5 * 23


def test_the_tokenizer_decides_on_the_beginning_token() -> None:
    assert bos_rule(bos_tokenizer()) == 0
    assert bos_rule(tiny_tokenizer()) is None  # it has the token and does not put it in front
    tokenizer = tiny_tokenizer()
    tokenizer.bos_token = None
    assert bos_rule(tokenizer) is None


def test_the_ratio_is_paired(llama: PreTrainedModel) -> None:
    text, other = windows(6), damaged(llama)
    ours, theirs = perplexity(other, text), perplexity(llama, text)
    ratio = perplexity_ratio(ours, theirs)
    assert ratio.value == pytest.approx(ours.perplexity.value / theirs.perplexity.value)
    test = stats.ttest_rel(ours.nll_N, theirs.nll_N).confidence_interval(0.95)
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(test.low), math.exp(test.high)))
    same = perplexity_ratio(theirs, theirs)
    assert (same.low, same.value, same.high) == (1.0, 1.0, 1.0)


def test_bf16_is_measured_as_bf16_weights_and_left_as_it_was() -> None:
    model = tiny("llama", dtype=torch.bfloat16)[0]
    before = {name: each.clone() for name, each in model.named_parameters()}
    found = perplexity(model, windows()).perplexity.value
    assert all(each.dtype == torch.bfloat16 and each.equal(before[name]) for name, each in model.named_parameters())
    assert found == pytest.approx(perplexity(model.float(), windows()).perplexity.value, rel=0.02)


def test_training_mode_and_gradients_are_left_alone(llama: PreTrainedModel) -> None:
    model = damaged(llama, 1.0)
    model.config.attention_dropout = 0.5
    model.train()
    one, two = perplexity(model, windows()), perplexity(model, windows())
    assert model.training
    assert one.perplexity == two.perplexity  # no dropout while measuring
    assert all(each.grad is None for each in model.parameters())


@pytest.mark.parametrize(
    ("length", "bos_id", "words"),
    [(513, None, "513 .* 512"), (512, 0, "513 .* 512"), (1, None, "at least 2")],
)
def test_windows_that_do_not_fit(length: int, bos_id: int | None, words: str, llama: PreTrainedModel) -> None:
    with pytest.raises(OptionError, match=words):
        perplexity(llama, Windows(torch.full((1, length), 5)), bos_id=bos_id)


def test_the_longest_window_fits(llama: PreTrainedModel) -> None:
    assert perplexity(llama, windows(1, 512)).tokens == 511


@pytest.mark.parametrize("stride", [0, -1, 25])
def test_strides_out_of_range(stride: int, llama: PreTrainedModel) -> None:
    with pytest.raises(OptionError, match=f"between 1 and the window length 24, not {stride}"):
        perplexity(llama, windows(), stride=stride)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_names_its_window(value: float, llama: PreTrainedModel) -> None:
    with pytest.raises(ModelError, match=r"window 1 of the text.*fp32"):
        perplexity(broken(llama, value), windows())


def test_only_the_window_that_is_broken_is_named(llama: PreTrainedModel) -> None:
    text = windows(5)
    text.ids_NL[text.ids_NL == 9] = 10
    text.ids_NL[3, 4] = 9
    model = damaged(llama, 1.0)
    model.get_input_embeddings().weight.data[9] = math.nan
    model.lm_head.weight = torch.nn.Parameter(llama.lm_head.weight.detach().clone())
    with pytest.raises(ModelError, match="window 4 of the text"):
        perplexity(model, text, batch_size=2)
