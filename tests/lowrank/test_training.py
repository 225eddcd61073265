from __future__ import annotations

import pytest
import torch
from transformers.trainer_utils import validate_quantization_for_training

import trimtab
from tests.lowrank.conftest import IDS_BT, Checkpoint, logits
from trimtab.lowrank.ranks import low_rank_layers


@pytest.mark.parametrize("arch", ["llama", "gpt2", "opt"])
def test_factors_train_without_adapters(arch: str, checkpoint: Checkpoint) -> None:
    model, _ = trimtab.load(checkpoint(arch))
    validate_quantization_for_training(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        loss = model(IDS_BT, labels=IDS_BT).loss
        optimizer.zero_grad()
        loss.backward()
        for layer in low_rank_layers(model).values():
            assert all(factor.grad.abs().sum() > 0 for factor in layer.factors(0))
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_the_model_compiles_without_a_graph_break(checkpoint: Checkpoint) -> None:
    model, _ = trimtab.load(checkpoint("llama"))
    assert model.hf_quantizer.is_compileable
    compiled = torch.compile(lambda ids_BT: model(ids_BT, use_cache=False).logits, backend="eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(IDS_BT), logits(model))


def test_the_model_generates(checkpoint: Checkpoint) -> None:
    model, _ = trimtab.load(checkpoint("llama"))
    ids_BT = model.generate(IDS_BT[:, :5], max_new_tokens=6, min_new_tokens=6, do_sample=False)
    assert ids_BT.shape == (2, 11)
    for position in range(5, 11):
        with torch.no_grad():
            expected_B = model(ids_BT[:, :position]).logits[:, -1].topk(2)
        assert (expected_B.indices == ids_BT[:, position, None]).any(1).all()  # EOS may not come, so one of two
