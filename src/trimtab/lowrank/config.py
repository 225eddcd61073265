"""What `config.json` says about a low-rank checkpoint, under `quantization_config`.

`quantization_config` is the place where transformers looks for how weights are stored:

    {"quant_method": "lowrank", "format_version": 1,
     "blocks": {"model.layers.0.mlp.up_proj": [{"form": "factored", "rank": 123}], ...},
     "made":   {... how it was made, for people and for the record ...},
     "files":  {"model.safetensors": "<sha256>", ...}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformers.utils.quantization_config import QuantizationConfigMixin

from trimtab.errors import CheckpointError
from trimtab.lowrank.linear import BlockSpec

QUANT_METHOD = "lowrank"
FORMAT_VERSION = 1
"""The format that this version writes. A change that an older Trimtab would misread raises it; one that an older
Trimtab may ignore (a new key) does not."""


class LowRankConfig(QuantizationConfigMixin):
    """The rank map of a low-rank checkpoint and how it was made.

    Keys that this version does not know are kept, and written again.

    Raises:
        CheckpointError: the format is newer than this version reads, or an entry is not what it should be.
    """

    def __init__(
        self,
        blocks: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        format_version: int = FORMAT_VERSION,
        made: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
        **others: Any,
    ) -> None:
        if not isinstance(format_version, int) or not 1 <= format_version <= FORMAT_VERSION:
            raise CheckpointError(
                f"the checkpoint has the low-rank format {format_version!r} and this version of trimtab reads "
                f"format {FORMAT_VERSION}; install a newer trimtab"
            )
        self.__dict__.update(others)
        self.quant_method = QUANT_METHOD  # type: ignore[assignment]
        self.format_version = format_version
        self.blocks = {name: list(entry) for name, entry in _mapping("blocks", blocks).items()}
        self.made = dict(_mapping("made", made))
        self.files = dict(_mapping("files", files))
        self.specs()

    def specs(self) -> dict[str, tuple[BlockSpec, ...]]:
        """The blocks of every low-rank projection, by module path.

        Raises:
            CheckpointError: a projection has no block, or a block's form or rank cannot be used.
        """
        return {name: _specs(name, entry) for name, entry in self.blocks.items()}


def block_entries(blocks: Sequence[BlockSpec]) -> list[dict[str, Any]]:
    """The blocks of one projection as `config.json` has them."""
    return [{"form": block.form, "rank": block.rank} for block in blocks]


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise CheckpointError(f"quantization_config.{key} in config.json is not a table of names and values")
    return value


def _specs(name: str, entry: Sequence[Mapping[str, Any]]) -> tuple[BlockSpec, ...]:
    try:
        specs = tuple(BlockSpec(form=block["form"], rank=block["rank"]) for block in entry)
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"{name} in quantization_config.blocks is not a list of blocks with a form and a rank each"
        ) from error
    except CheckpointError as error:
        raise CheckpointError(f"{name} in quantization_config.blocks: {error}") from error
    if not specs:
        raise CheckpointError(f"{name} in quantization_config.blocks has no block")
    return specs
