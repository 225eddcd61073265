"""The transformers plug-in: puts low-rank layers into the empty model before `from_pretrained` fills it.

transformers calls every special way of storing weights a quantizer; `from_pretrained` and `save_pretrained` call
the methods here. This file is imported while transformers itself is being imported (see `trimtab/__init__.py`), so it
imports little of it; at its end it registers the plug-in, once.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers.quantizers import auto
from transformers.quantizers.base import HfQuantizer

from trimtab.errors import CheckpointError, ModelError
from trimtab.lowrank.config import QUANT_METHOD, LowRankConfig, block_entries
from trimtab.lowrank.ranks import low_rank_layers
from trimtab.lowrank.surgery import densify_in_place, empty_low_rank, replace_module
from trimtab.models import headers

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FACTOR = re.compile(r"\.block\d+_[uv]$")


class LowRankQuantizer(HfQuantizer):
    """Loads and saves low-rank checkpoints; trains, compiles and densifies like the ordinary model."""

    requires_calibration = True
    quantization_config: LowRankConfig

    @property
    def is_trainable(self) -> bool:
        """The factors are ordinary parameters and get gradients."""
        return True

    @property
    def is_qat_trainable(self) -> bool:
        """`Trainer` may train the factors themselves, without adapters."""
        return True

    @property
    def is_compileable(self) -> bool:
        """A low-rank layer is two matrix products."""
        return True

    def is_serializable(self, *_: Any, **__: Any) -> bool:
        """`save_pretrained` writes a low-rank checkpoint again."""
        return True

    def update_parallel_plan(self, model: PreTrainedModel, plan: dict[str, str]) -> None:
        """Tensor-parallel plans split dense weights; with none, transformers refuses to split the model wrongly."""
        plan.clear()

    def _process_model_before_weight_loading(
        self, model: PreTrainedModel, checkpoint_files: list[str] | None = None, **_: Any
    ) -> None:
        put_low_rank_layers(model, self.quantization_config)
        if checkpoint_files:
            check_tensors(model, checkpoint_files)

    def _process_model_after_weight_loading(self, model: PreTrainedModel, **_: Any) -> None:
        """Refuse a model with low-rank tensors that no file filled; forget the hashes, which are of files."""
        for name, layer in low_rank_layers(model).items():
            for key, tensor in layer.state_dict(keep_vars=True).items():
                if not (tensor.is_meta or getattr(tensor, "_is_hf_initialized", False)):
                    raise CheckpointError(f"the low-rank tensor {name}.{key} was not filled from the checkpoint")
        self.quantization_config.files = {}

    def get_state_dict_and_metadata(self, model: PreTrainedModel) -> tuple[None, dict[str, str]]:
        """Called by `save_pretrained`: the configuration that is written next describes the model as it is now."""
        layers = low_rank_layers(model)
        self.quantization_config.blocks = {name: block_entries(layer.blocks) for name, layer in layers.items()}
        self.quantization_config.files = {}
        return None, {}

    def _dequantize(self, model: PreTrainedModel, dtype: torch.dtype | None = None) -> PreTrainedModel:
        densify_in_place(model)
        if dtype not in (None, model.config.dtype):
            for parameter in model.parameters():  # not `model.to`: it would round the rotary frequencies too
                parameter.data = parameter.data.to(dtype)
        return model


def attach(model: PreTrainedModel, made: dict[str, Any] | None = None) -> LowRankConfig:
    """Make a model with low-rank layers one that `save_pretrained` writes as a low-rank checkpoint.

    `made` (how it was made, anything that JSON can hold) replaces what was there unless it is None.
    """
    quantizer = getattr(model, "hf_quantizer", None)
    if not isinstance(quantizer, LowRankQuantizer):
        quantizer = LowRankQuantizer(LowRankConfig(), pre_quantized=True)
    config = quantizer.quantization_config
    quantizer.get_state_dict_and_metadata(model)
    config.made = config.made if made is None else dict(made)
    for owner, name, value in (
        (model, "hf_quantizer", quantizer),
        (model, "is_quantized", True),
        (model, "quantization_method", config.quant_method),
        (model.config, "quantization_config", config),
    ):
        setattr(owner, name, value)
    return config


def put_low_rank_layers(model: PreTrainedModel, config: LowRankConfig) -> None:
    """Replace the layers that `config` names by empty low-rank ones.

    Raises:
        CheckpointError: the model has no such layer, or it is too small for the rank.
    """
    for name, blocks in config.specs().items():
        try:
            old = model.get_submodule(name)
        except AttributeError as error:
            raise CheckpointError(f"quantization_config.blocks names {name}, which the model does not have") from error
        try:
            replace_module(model, old, empty_low_rank(old, blocks))
        except CheckpointError as error:
            raise CheckpointError(f"quantization_config.blocks, {name}: {error}") from error


def check_tensors(model: PreTrainedModel, files: list[str]) -> None:
    """See from the files' headers that every tensor of every low-rank layer is there, with its shape, and no other.

    Raises:
        CheckpointError: one is missing, has another shape, or belongs to a layer that `config.json` does not name;
            or a file is damaged or is not safetensors.
    """
    shapes, known = _stored_shapes(model, files), model.state_dict()
    for name in shapes:
        if _FACTOR.search(name) and name not in known:
            raise CheckpointError(f"the tensor {name} is a factor, and quantization_config.blocks has no such block")
    for name, layer in low_rank_layers(model).items():
        for key, tensor in layer.state_dict().items():
            tensor_name, expected = f"{name}.{key}", tuple(tensor.shape)
            found = shapes.get(tensor_name)
            if found is None:
                raise CheckpointError(f"the checkpoint is incomplete: no file holds the tensor {tensor_name}")
            if found != expected:
                raise CheckpointError(
                    f"the tensor {tensor_name} has the shape {list(found)}, and config.json says {list(expected)}"
                )


def _stored_shapes(model: PreTrainedModel, files: list[str]) -> dict[str, tuple[int, ...]]:
    """Shapes of all stored tensors by the name that the model gives them, which files may spell otherwise."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    renamings = [step for step in get_model_conversion_mapping(model) if isinstance(step, WeightRenaming)]
    state = model.state_dict()
    shapes = {}
    for name, tensor in _headers(files).items():
        if name not in state:
            name, _ = rename_source_key(name, renamings, [], model.base_model_prefix, state)
        shapes[name] = tensor.shape
    return shapes


def _headers(files: list[str]) -> dict[str, headers.TensorHeader]:
    try:
        return {name: tensor for file in files for name, tensor in headers.read_header(Path(file)).items()}
    except ModelError as error:
        raise CheckpointError(str(error)) from error


def register() -> None:
    """Register the plug-in with transformers, so that `from_pretrained` finds it; again changes nothing."""
    if QUANT_METHOD not in auto.AUTO_QUANTIZER_MAPPING:
        auto.register_quantization_config(QUANT_METHOD)(LowRankConfig)
        auto.register_quantizer(QUANT_METHOD)(LowRankQuantizer)


register()
