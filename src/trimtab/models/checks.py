"""Refuse models that cannot be compressed, before hours are spent on them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from trimtab.errors import ModelError


def check_compressible(model: PreTrainedModel | PreTrainedConfig) -> None:
    """See that a model, or only its configuration, is neither quantised nor low-rank already.

    Raises:
        ModelError: it is, with the method's name.
    """
    config = model.config if isinstance(model, PreTrainedModel) else model
    method = _quantisation(config)
    if method == "lowrank":
        raise ModelError("the model is already a low-rank one; compress the model that it was made from")
    if method is not None:
        raise ModelError(
            f"the model is already quantised ({method}); compress the unquantised model, and quantise it afterwards"
        )


def check_finite(model: nn.Module) -> None:
    """See that every parameter is finite.

    Raises:
        ModelError: one is not; names the first tensor and counts its NaN and infinite values.
    """
    for name, parameter in model.named_parameters():
        values = parameter.detach()
        if not torch.isfinite(values).all():
            nans, infinite = int(values.isnan().sum()), int(values.isinf().sum())
            raise ModelError(
                f"the weight {name} has {nans:,} NaN and {infinite:,} infinite values of {values.numel():,}; "
                f"the model's files are damaged or it was trained badly"
            )


def _quantisation(config: PreTrainedConfig) -> str | None:
    """The name of the method that the configuration says the weights are stored with, if any."""
    settings: Any = getattr(config, "quantization_config", None)
    if settings is None:
        settings = getattr(config.get_text_config(), "quantization_config", None)
    if settings is None:
        return None
    if not isinstance(settings, dict):
        settings = settings.to_dict()
    return str(settings.get("quant_method", "unknown method"))
