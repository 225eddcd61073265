from __future__ import annotations

import dataclasses

import pytest
from huggingface_hub import ModelCard

from trimtab.lowrank.card import Card, Number, model_card

CARD = Card(
    title="SmolLM2-135M-Instruct, 10 % removed",
    base_model="HuggingFaceTB/SmolLM2-135M-Instruct",
    base_fingerprint="ab" * 32,
    method="flrc",
    command="trimtab compress demo out --remove 0.1",
    removed=0.1001,
    projection_parameters=(106_168_320, 95_540_000),
    total_parameters=(134_515_008, 123_886_688),
    file_bytes=(269_060_552, 247_800_000),
    calibration="self, 32 windows of 512 tokens, seed 0",
    versions={"trimtab": "0.1.0", "torch": "2.13.0"},
    numbers=[Number("perplexity", "a | b", "29.6", "37.3", "36.1 to 38.6", "8,176 tokens")],
    license="apache-2.0",
    warnings=["4,096 tokens are few for down_proj"],
)


def test_front_matter_is_what_the_hub_reads() -> None:
    data = ModelCard(model_card(CARD)).data
    assert data.base_model == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert data.license == "apache-2.0"
    assert data.library_name == "transformers"
    assert "trimtab" in data.tags


def test_says_what_was_done_and_what_it_cost() -> None:
    text = model_card(CARD)
    for words in (
        "**10.0%**",
        "trimtab compress demo out --remove 0.1",
        "ab" * 32,
        "| parameters in projections | 106,168,320 | 95,540,000 |",
        "| perplexity | a \\| b | 29.6 | 37.3 | 36.1 to 38.6 | 8,176 tokens |",
        "torch 2.13.0",
        "import trimtab",
        "- 4,096 tokens are few for down_proj",
    ):
        assert words in text


@pytest.mark.parametrize("base", ["/home/me/model", "demo", "model.gguf"])
def test_a_base_that_is_not_on_the_hub_is_not_linked(base: str) -> None:
    card = dataclasses.replace(CARD, base_model=base, license=None, numbers=(), warnings=())
    text = model_card(card)
    assert ModelCard(text).data.base_model is None
    assert ModelCard(text).data.license is None
    assert "Nothing was measured" in text
    assert "## Warnings" not in text
