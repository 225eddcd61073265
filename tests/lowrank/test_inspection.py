from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.lowrank.conftest import MADE, Checkpoint, mixed_ranks
from tests.tiny import save_tiny, tiny
from trimtab.errors import CheckpointError
from trimtab.lowrank.inspection import inspect_model
from trimtab.models.projections import find_projections


@pytest.mark.parametrize("arch", ["llama", "gpt2", "opt", "phi3", "qwen3_moe"])
def test_a_low_rank_checkpoint_is_counted_from_its_headers(arch: str, checkpoint: Checkpoint) -> None:
    folder, (dense, _) = checkpoint(arch), tiny(arch)
    found, projections = inspect_model(folder), find_projections(dense)
    assert found.low_rank
    assert found.format_version == 1
    assert found.made == MADE
    assert {each.name: each.rank for each in found.projections} == {
        each.name: mixed_ranks(each) for each in projections
    }
    assert found.projection_parameters_dense == sum(each.parameters for each in projections)
    assert found.total_parameters_dense == sum(parameter.numel() for parameter in dense.parameters())
    assert found.file_bytes == (folder / "model.safetensors").stat().st_size
    assert found.projection_bytes == 4 * found.projection_parameters
    assert found.projection_bytes_dense == 4 * found.projection_parameters_dense
    saved = found.projection_parameters_dense - found.projection_parameters
    assert found.total_parameters_dense - found.total_parameters == saved > 0
    assert found.file_bytes_dense - found.file_bytes == 4 * saved


def test_an_ordinary_model_has_no_ranks(tmp_path: Path) -> None:
    found = inspect_model(save_tiny("llama", tmp_path, dtype=torch.bfloat16))
    assert not found.low_rank
    assert {each.rank for each in found.projections} == {None}
    assert found.dtypes == ("BF16",)
    assert found.projection_bytes == found.projection_bytes_dense == 2 * found.projection_parameters
    assert found.coverage == found.projection_parameters / found.total_parameters
    assert sum(found.untouched.values()) == found.total_parameters - found.projection_parameters


def test_reads_headers_only(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """With every byte after the header overwritten, nothing changes."""
    from shutil import copytree

    folder = copytree(checkpoint("llama"), tmp_path / "copy")
    data = (folder / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    (folder / "model.safetensors").write_bytes(data[:start] + b"\xff" * (len(data) - start))
    assert {**inspect_model(folder).to_json(), "model": ""} == {
        **inspect_model(checkpoint("llama")).to_json(),
        "model": "",
    }


def test_a_rank_map_that_the_files_contradict_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    from shutil import copytree

    folder = copytree(checkpoint("llama"), tmp_path / "copy")
    content = json.loads((folder / "config.json").read_text())
    content["quantization_config"]["blocks"]["model.layers.0.mlp.up_proj"][0]["rank"] = 2
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"up_proj\.block0_v has the shape"):
        inspect_model(folder)
