"""Tell transformers about low-rank checkpoints, so that plain `from_pretrained` loads them."""

from __future__ import annotations

from transformers.quantizers import auto

from trimtab.lowrank.config import QUANT_METHOD, LowRankConfig
from trimtab.lowrank.quantizer import LowRankQuantizer


def register() -> None:
    """Register the quantizer and its configuration with transformers; calling it again changes nothing."""
    if QUANT_METHOD not in auto.AUTO_QUANTIZATION_CONFIG_MAPPING:
        auto.register_quantization_config(QUANT_METHOD)(LowRankConfig)
    if QUANT_METHOD not in auto.AUTO_QUANTIZER_MAPPING:
        auto.register_quantizer(QUANT_METHOD)(LowRankQuantizer)
