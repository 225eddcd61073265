from __future__ import annotations

from pathlib import Path

import typer
from transformers import AutoConfig
from typer.testing import CliRunner

from tests.lowrank.conftest import checkpoint as checkpoint
from trimtab.cli import densify
from trimtab.errors import OutputError

app = typer.Typer()
app.command()(densify.command)


def test_writes_an_ordinary_checkpoint_and_says_how_large_it_is(checkpoint, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [str(checkpoint("llama")), str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert f"{out}: an ordinary checkpoint, weights 0.3 MB" in result.stdout
    assert not hasattr(AutoConfig.from_pretrained(out), "quantization_config")
    assert isinstance(CliRunner().invoke(app, arguments).exception, OutputError)
    assert CliRunner().invoke(app, [*arguments, "--overwrite"]).exit_code == 0
