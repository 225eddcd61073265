"""Low-rank models and checkpoints of tiny models, made once a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.tiny import VOCABULARY, tiny
from trimtab.lowrank.checkpoint import save_checkpoint
from trimtab.lowrank.surgery import factorize_in_place
from trimtab.models.projections import Projection, find_projections, weight

IDS_BT = torch.arange(3, 3 + 2 * 24).reshape(2, 24) % VOCABULARY
MADE = {"method": "svd", "options": {"removed": 0.5, "text": ["a", "b"]}}
Checkpoint = Callable[..., Path]


def svd_factors(w_OI: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Factors (v_RI, u_RO) of the best rank-`rank` approximation."""
    u_OR, s_R, v_RI = torch.linalg.svd(w_OI.float(), full_matrices=False)
    return v_RI[:rank], (u_OR * s_R)[:, :rank].T


def make_low_rank(model: PreTrainedModel, rank: Callable[[Projection], int | None]) -> dict[str, int | None]:
    """Factorise the projections of `model` to the ranks that `rank` says (None: leave it), and return the rank map."""
    ranks = {}
    for projection in find_projections(model):
        ranks[projection.name] = chosen = rank(projection)
        if chosen is not None:
            factorize_in_place(model, projection, *svd_factors(weight(model, projection), chosen))
    return ranks


STAYS_DENSE = {"down_proj", "o_proj", "c_fc", "fc2", "dense_h_to_4h"}


def mixed_ranks(projection: Projection) -> int | None:
    """A rank below break-even, another one in each layer; in layer 1, `STAYS_DENSE` stays dense."""
    if projection.layer == 1 and projection.kind in STAYS_DENSE:
        return None
    return projection.break_even - 1 - projection.layer


@torch.no_grad()
def logits(model: PreTrainedModel) -> Tensor:
    return model(IDS_BT.to(model.device)).logits


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """checkpoint(arch, dtype, shard): the folder of a saved low-rank model; its logits are in `<folder>.logits`."""
    root = tmp_path_factory.mktemp("checkpoints")

    @cache
    def make(arch: str, dtype: torch.dtype = torch.float32, shard: str = "5GB") -> Path:
        folder = root / f"{arch}-{dtype}-{shard}".replace("torch.", "")
        folder.mkdir()
        model, tokenizer = tiny(arch, dtype=dtype)
        make_low_rank(model, mixed_ranks)
        save_checkpoint(model, tokenizer, folder, made=MADE, max_shard_size=shard)
        torch.save(logits(model), f"{folder}.logits")
        return folder

    return make
