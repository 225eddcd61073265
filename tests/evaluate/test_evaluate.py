"""What is measured, against plain references."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer
from scipy import stats

from tests.tiny import VOCABULARY, tiny
from trimtab.errors import ModelError, OptionError, TextError
from trimtab.evaluate.choice_files import read_choices
from trimtab.evaluate.choices import multiple_choice
from trimtab.evaluate.divergence import compare
from trimtab.evaluate.generation import generate_batch
from trimtab.evaluate.health import health
from trimtab.evaluate.measure import bootstrap_mean, proportion, weighted_mean
from trimtab.evaluate.perplexity import perplexity
from trimtab.evaluate.projection_error import projection_errors
from trimtab.evaluate.run import evaluate, evaluate_against
from trimtab.evaluate.summaries import rouge_scores
from trimtab.models.projections import find_projections, set_weight, weight
from trimtab.text.windows import Windows

IDS_NL = torch.randint(3, VOCABULARY, (5, 40), generator=torch.Generator().manual_seed(7))
WINDOWS = Windows(IDS_NL)


def logp(model, ids_NL):  # type: ignore[no-untyped-def]
    with torch.no_grad():
        return model(ids_NL).logits.double().log_softmax(-1)


@pytest.mark.parametrize("arch", ["llama", "gpt2", "opt", "gemma3"])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_perplexity_is_exp_of_the_mean_loss_of_all_predictions(arch: str, batch_size: int) -> None:
    model, _ = tiny(arch)
    found = perplexity(model, WINDOWS, batch_size=batch_size)
    nll = -logp(model, IDS_NL)[:, :-1].gather(2, IDS_NL[:, 1:, None])[..., 0]
    assert found.tokens == 5 * 39
    assert found.perplexity.value == pytest.approx(math.exp(nll.mean()), rel=1e-5)
    means = nll.mean(1)
    low, high = stats.t.interval(0.95, 4, float(means.mean()), float(means.std()) / 5**0.5)
    assert (found.perplexity.low, found.perplexity.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-4)


def test_with_a_stride_every_token_is_predicted_once() -> None:
    model, _ = tiny("llama")
    found = perplexity(model, WINDOWS, stride=10)
    row = IDS_NL.flatten()
    total, count = 0.0, 0
    for start in range(0, len(row) - 40 + 1, 10):
        ids = row[start : start + 40]
        nll = -logp(model, ids[None])[0, :-1].gather(1, ids[1:, None])[:, 0]
        scored = nll if start == 0 else nll[-10:]
        total, count = total + float(scored.sum()), count + len(scored)
    assert found.tokens == count
    assert found.perplexity.value == pytest.approx(math.exp(total / count), rel=1e-5)


def test_a_bos_token_gives_context_and_is_not_counted() -> None:
    model, _ = tiny("llama")
    found = perplexity(model, WINDOWS, bos_id=0)
    with_bos = torch.cat([torch.zeros(5, 1, dtype=torch.long), IDS_NL], 1)
    nll = -logp(model, with_bos)[:, 1:-1].gather(2, IDS_NL[:, 1:, None])
    assert found.perplexity.value == pytest.approx(math.exp(nll.mean()), rel=1e-5)


def test_divergence_is_kl_of_the_base_from_the_model() -> None:
    base, _ = tiny("llama")
    model = copy.deepcopy(base)
    model.model.layers[0].mlp.up_proj.weight.data *= 1.3
    found = compare(model, base, WINDOWS, batch_size=2)
    p, q = logp(base, IDS_NL)[:, :-1], logp(model, IDS_NL)[:, :-1]
    assert found.kl.value == pytest.approx(float((p.exp() * (p - q)).sum(-1).mean()), rel=1e-4)
    assert compare(base, base, WINDOWS).kl.value == pytest.approx(0, abs=1e-7)


def test_what_cannot_be_measured_is_refused() -> None:
    model, tokenizer = tiny("llama")
    with pytest.raises(OptionError, match="do not fit"):
        perplexity(model, Windows(torch.zeros(1, 600, dtype=torch.long)))
    with pytest.raises(OptionError, match="stride"):
        perplexity(model, WINDOWS, stride=41)
    with pytest.raises(OptionError, match="nothing to measure"):
        evaluate(model, tokenizer)
    broken = copy.deepcopy(model)
    broken.model.norm.weight.data[:] = float("nan")
    with pytest.raises(ModelError, match="not a finite number"):
        perplexity(broken, WINDOWS)


QUESTION = {
    "goal": "Open a jar",
    "sol1": "Turn the lid.",
    "sol2": "Throw the whole jar far away from the window.",
    "label": 0,
}


@pytest.mark.parametrize("arch", ["llama", "gpt2", "opt"])
def test_choices_in_a_batch_are_scored_as_one_by_one(arch: str, tmp_path: Path) -> None:
    rows = [{**QUESTION, "goal": "Open a jar " * n, "label": n % 2} for n in range(1, 6)]
    (tmp_path / "piqa.jsonl").write_text("\n".join(map(json.dumps, rows)))
    items = read_choices(tmp_path / "piqa.jsonl")
    model, tokenizer = tiny(arch)
    batched, single = (multiple_choice(model, tokenizer, items, batch_size=size) for size in (8, 1))
    assert batched.accuracy == single.accuracy
    assert batched.accuracy_raw == single.accuracy_raw
    assert batched.accuracy.count == 5


@pytest.mark.parametrize("arch", ["llama", "gpt2", "opt", "gpt_neox", "gemma3"])
def test_answers_do_not_depend_on_the_batch(arch: str) -> None:
    model, tokenizer = tiny(arch)
    prompts = ["the model", "one small word after the other reads another text", "a", "text and text"]
    batched = generate_batch(model, tokenizer, prompts, max_new_tokens=12, batch_size=4)
    single = [generate_batch(model, tokenizer, [prompt], max_new_tokens=12)[0] for prompt in prompts]
    assert batched == single
    with pytest.raises(TextError, match="empty"):
        generate_batch(model, tokenizer, [" "])


def test_health_counts_stops_repeats_and_lengths() -> None:
    found = health([(1, 2, 3, 4, 1, 2, 3, 4), (5, 6, 7, 8, 9), (1, 2)], [True, False, True])
    assert found.stopped.value == pytest.approx(2 / 3)
    assert found.mean_length.value == 5
    # five 4-grams in the first, one of them seen before; two in the second, none repeated; the third is too short
    assert found.repeated_4grams.value == pytest.approx((1 / 5 + 0) / 2)


def test_rouge_is_that_of_the_reference_package() -> None:
    text, references = "a cat sat on the mat", ["the cat sat on a mat", "dogs run"]
    found = rouge_scores([text], [references])
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    for name, values in found.items():
        best = max(scorer.score(reference, text)[name].fmeasure for reference in references)
        mean = sum(scorer.score(reference, text)[name].fmeasure for reference in references) / 2
        assert values[0] == pytest.approx(best) or values[0] == pytest.approx(mean)


def test_intervals_are_those_of_the_textbook() -> None:
    share = proportion(7, 20)
    expected = stats.binomtest(7, 20).proportion_ci(method="wilson")
    assert (share.low, share.high) == pytest.approx((expected.low, expected.high))
    mean = weighted_mean([1.0, 2.0, 4.0, 8.0], [5, 5, 5, 5], "x")
    assert (mean.low, mean.high) == pytest.approx(stats.t.interval(0.95, 3, 3.75, stats.sem([1, 2, 4, 8])))
    values = list(stats.norm.rvs(size=200, random_state=1))
    boot = bootstrap_mean(values, "x")
    assert (boot.low, boot.high) == pytest.approx(stats.norm.interval(0.95, boot.value, stats.sem(values)), abs=0.03)
    assert math.isnan(bootstrap_mean([1.0], "x").low)


def test_everything_together_is_valid_json() -> None:
    base, tokenizer = tiny("llama")
    model = copy.deepcopy(base)
    found = evaluate_against(model, tokenizer, base, tokenizer, windows=WINDOWS, prompts=["the text"], max_new_tokens=4)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert {
        "perplexity",
        "base_perplexity",
        "kl_to_base",
        "tokens",
        "stopped",
        "perplexity_low",
        "perplexity_count",
    } <= set(data)
    assert len(found.samples) == len(found.base_samples) == 1


def test_the_error_of_a_projection_is_its_lost_output_energy() -> None:
    base, _ = tiny("opt")
    model = copy.deepcopy(base)
    each = find_projections(model)[3]
    inputs = []
    handle = base.get_submodule(each.name).register_forward_hook(lambda _m, x, _y: inputs.append(x[0].detach()))
    base(IDS_NL)
    handle.remove()
    x_TI = inputs[0].reshape(-1, each.in_features)
    w_OI = weight(base, each)
    new_OI = w_OI + 0.1 * torch.randn_like(w_OI)
    set_weight(model, each, new_OI)
    expected = (x_TI @ (w_OI - new_OI).T).square().sum() / (x_TI @ w_OI.T).square().sum()
    assert projection_errors(model, base, [each.name], IDS_NL)[each.name] == pytest.approx(float(expected), rel=1e-4)
