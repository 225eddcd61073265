"""Plain references in fp64, one sequence at a time, without padding: what the fast paths must agree with.

Shapes: L tokens of a sequence, V vocabulary.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.tiny import VOCABULARY
from trimtab.text.windows import Windows

EOS = 1


def windows(count: int = 5, length: int = 24, seed: int = 7) -> Windows:
    """Windows of random ordinary tokens (no special ones)."""
    generator = torch.Generator().manual_seed(seed)
    return Windows(torch.randint(3, VOCABULARY, (count, length), generator=generator))


def log_probabilities(model: PreTrainedModel, ids_L: Tensor) -> Tensor:
    """log p(token | all before) for every place of one sequence and every token, [L, V] in fp64."""
    with torch.no_grad():
        return model(ids_L[None]).logits[0].double().log_softmax(-1)


def losses(model: PreTrainedModel, ids_L: Tensor) -> Tensor:
    """-log p of each token but the first, given all before it, [L-1] in fp64."""
    logp_LV = log_probabilities(model, ids_L)
    return torch.stack([-logp_LV[place - 1, ids_L[place]] for place in range(1, len(ids_L))])


def greedy(model: PreTrainedModel, ids: list[int], steps: int) -> list[int]:
    """The likeliest next token, again and again, until the end token (left out) or the limit; no cache."""
    new: list[int] = []
    while len(new) < steps:
        token = int(log_probabilities(model, torch.tensor(ids + new))[-1].argmax())
        if token == EOS:
            break
        new.append(token)
    return new


def damaged(model: PreTrainedModel, scale: float = 1.5) -> PreTrainedModel:
    """A copy with half the columns of its first large matrix scaled: other predictions, also where a norm follows it
    (which would undo the scaling of the whole matrix)."""
    other = copy.deepcopy(model)
    name = next(n for n, p in other.named_parameters() if p.dim() == 2 and "emb" not in n and "wte" not in n)
    matrix = other.get_parameter(name).data
    matrix[:, : matrix.shape[1] // 2] *= scale
    return other


def broken(model: PreTrainedModel, value: float = float("nan")) -> PreTrainedModel:
    """A copy whose logits are all `value`-like: its last norm is."""
    other = copy.deepcopy(model)
    norms = [p for n, p in other.named_parameters() if p.dim() == 1 and n.endswith("weight")]
    norms[-1].data.fill_(value)
    return other
