from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.lowrank.conftest import checkpoint as checkpoint
from tests.lowrank.conftest import mixed_ranks
from tests.tiny import save_tiny, tiny
from trimtab.cli import inspect
from trimtab.cli.inspect_table import WIDTH, page
from trimtab.errors import ModelError
from trimtab.lowrank.inspection import inspect_model
from trimtab.models.projections import find_projections

app = typer.Typer()
app.command()(inspect.command)


def output(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("arch", ["llama", "gpt2", "gpt_neox"])
def test_the_table_shows_every_rank_within_80_columns(arch: str, checkpoint) -> None:
    lines = output(checkpoint(arch)).splitlines()
    assert max(len(line) for line in lines[1:]) <= WIDTH  # the first line is the path
    start = next(number for number, line in enumerate(lines) if line.startswith("layer"))
    for layer in (0, 1):
        ranks = [mixed_ranks(each) for each in find_projections(tiny(arch)[0]) if each.layer == layer]
        assert lines[start + 1 + layer].split() == [str(layer), *("." if rank is None else str(rank) for rank in ranks)]
    assert "options.removed  0.5" in lines
    assert any(line.startswith("bytes of the weight files") and line.endswith("%") for line in lines)


def test_json_has_the_rank_map_and_how_it_was_made(checkpoint) -> None:
    found = json.loads(output(checkpoint("llama"), "--json"))
    assert found["ranks"]["model.layers.0.self_attn.q_proj"] == 31
    assert found["ranks"]["model.layers.1.mlp.down_proj"] is None
    assert found["made"]["options"]["text"] == ["a", "b"]
    assert found["low_rank"] is True
    assert found["file_bytes"] > found["projection_bytes"] > 0


def test_an_ordinary_model_shows_what_could_be_compressed(tmp_path: Path) -> None:
    text = output(save_tiny("qwen3_moe", tmp_path))
    assert "ordinary model, Qwen3MoeForCausalLM" in text
    assert "experts (3-D) 49,152" in text.replace("\n", " ")
    assert "break-even rank" in text
    assert "Rank of each" not in text
    assert "How it was made" not in text


def test_wide_models_get_several_tables(checkpoint) -> None:
    import dataclasses

    found = inspect_model(checkpoint("llama"))
    many = [
        dataclasses.replace(each, name=f"{each.name}_{letter * 12}") for letter in "abcd" for each in found.projections
    ]
    text = page(dataclasses.replace(found, model="m", projections=tuple(many)))
    assert text.count("\nlayer ") == 8 * 4 // 8 + 2 or text.count("\nlayer ") > 1
    assert max(map(len, text.splitlines())) <= WIDTH


def test_experts_of_one_layer_share_a_cell(checkpoint) -> None:
    import dataclasses

    found = inspect_model(checkpoint("llama"))
    first = found.projections[0]
    experts = [
        dataclasses.replace(first, name=f"model.layers.0.mlp.experts.{number}.w1", rank=rank)
        for number, rank in enumerate((7, 9, None))
    ]
    text = page(dataclasses.replace(found, projections=tuple(experts)))
    assert "0      7-.\n" in text
    text = page(dataclasses.replace(found, projections=tuple(experts[:2])))
    assert "0      7-9\n" in text


def test_a_path_that_is_no_model_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(tmp_path)])
    assert isinstance(result.exception, ModelError)
