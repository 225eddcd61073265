"""One number that says whether two models are the same."""

from __future__ import annotations

import hashlib

import torch
from torch import nn


def model_fingerprint(model: nn.Module) -> str:
    """The sha256, in hexadecimal, of the names, types, shapes and bytes of all parameters, shared ones once.

    Files, folders and devices do not matter; a change of type (`--dtype`) does.
    """
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(f"{name} {parameter.dtype} {tuple(parameter.shape)}\n".encode())
        digest.update(parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
