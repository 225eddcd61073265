"""The command compress and its neighbours, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.tiny import save_tiny
from trimtab.cli.main import main

Run = Callable[..., tuple[int, str, str]]
TEXT = "Long ago a lighthouse keeper wrote letters to the sea, and the sea answered in its slow way. " * 60
SMALL = ("--windows", "4", "--window-length", "32", "--text-windows", "4")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """run("compress", ...): exit code, standard output, standard error; the working folder is tmp_path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["trimtab", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_tiny("llama", tmp_path / "model")


def compress(run: Run, model: object, out: str = "out", *more: object) -> tuple[int, str, str]:
    texts = ("--calibration", "text.txt", "--text", "text.txt")
    amount = () if any(str(each).startswith(("--remove", "--keep", "--target")) for each in more) else ("--remove", 0.3)
    return run("compress", model, out, *SMALL, *texts, *amount, *more)


def refused(found: tuple[int, str, str], *words: str) -> None:
    """Exit code 2, one line that says all `words`, no traceback."""
    code, _, said = found
    lines = [line for line in said.splitlines() if line.startswith("trimtab: ")]
    assert code == 2, said
    assert len(lines) == 1, said
    assert "Traceback" not in said
    assert all(word in lines[0] for word in words), lines[0]


def test_compress_generate_inspect_evaluate_densify(run: Run, model: Path, tmp_path: Path) -> None:
    code, said, _ = compress(run, model, "out", "--json", "run.json")
    assert code == 0
    assert "perplexity" in said
    assert "report.html" in said
    data = json.loads((tmp_path / "run.json").read_text())
    assert 0.3 <= data["realised"] < 0.35
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "report.html", "report.json"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    assert run("generate", "out", "hello", "--max-new-tokens", 4)[0] == 0
    assert "whitened" in run("inspect", "out")[1]
    numbers = ("--text", "text.txt", "--window-length", 32, "--windows", 4, "--no-health")
    assert run("evaluate", "out", "--against", model, *numbers, "--json", "numbers.json")[0] == 0
    measured = json.loads((tmp_path / "numbers.json").read_text())
    before = next(metric for metric in data["metrics"] if metric["name"] == "perplexity")
    assert measured["perplexity"] == pytest.approx(before["after"]["value"], rel=1e-5)
    assert measured["kl_to_base"] > 0
    assert measured["tokens"] == 4 * 31
    assert run("densify", "out", "dense")[0] == 0
    assert run("evaluate", "dense", *numbers, "--json", "dense.json")[0] == 0
    assert json.loads((tmp_path / "dense.json").read_text())["perplexity"] == pytest.approx(
        measured["perplexity"], rel=1e-4
    )


def test_dry_run_writes_nothing_and_says_what_a_run_would_give(run: Run, model: Path, tmp_path: Path) -> None:
    code, said, _ = compress(run, model, "out", "--dry-run")
    assert code == 0
    assert all(word in said for word in ("parameters", "weight files", "time: about", "memory: about"))
    assert not (tmp_path / "out").exists()
    assert compress(run, model, "out", "--dry-run", "--remove", "0.99999")[0] == 2


class TestBadInput:
    """One clear line each, exit code 2, nothing written."""

    @pytest.fixture(autouse=True)
    def _nothing_is_left(self, tmp_path: Path):  # type: ignore[no-untyped-def]
        yield
        assert not (tmp_path / "out").exists()
        assert not list(tmp_path.glob(".out*"))

    def test_models(self, run: Run, model: Path, tmp_path: Path) -> None:
        refused(compress(run, "./nowhere"), "./nowhere", "does not exist")
        (tmp_path / "empty").mkdir()
        refused(compress(run, "empty"), "config.json")
        refused(compress(run, "text.txt"), "not a .gguf file")
        (model / "tokenizer.json").unlink()
        refused(compress(run, model), "tokenizer")

    def test_damaged_weights(self, run: Run, model: Path) -> None:
        file = model / "model.safetensors"
        whole = file.read_bytes()
        file.write_bytes(whole[:-100])
        refused(compress(run, model), "truncated")
        file.write_bytes(whole[:20] + b"\xff" + whole[21:])
        refused(compress(run, model), str(file.name))
        file.write_bytes(whole)
        tensors = load_file(file)
        name = "model.layers.1.mlp.up_proj.weight"
        tensors[name][3, 4] = float("nan")
        save_file(tensors, file, {"format": "pt"})
        refused(compress(run, model), name, "NaN")

    @pytest.mark.parametrize("method", ["gptq", "bitsandbytes"])
    def test_quantised_models(self, method: str, run: Run, model: Path) -> None:
        config = json.loads((model / "config.json").read_text())
        config["quantization_config"] = {"quant_method": method, "bits": 4, "load_in_4bit": True}
        (model / "config.json").write_text(json.dumps(config))
        refused(compress(run, model), "already quantised", method)

    def test_amounts(self, run: Run, model: Path) -> None:
        for wrong in ("0", "1", "-0.1", "1.5", "nan"):
            refused(compress(run, model, "out", f"--remove={wrong}"), "between 0 and 1")
        refused(compress(run, model, "out", "--remove", 0.99999), "no rank map")
        refused(compress(run, model, "out", "--remove", 0.1, "--keep", 0.9), "in one way")
        refused(run("compress", model, "out"), "in one way")
        refused(compress(run, model, "out", "--target-size", "much"), "much", "90MB")
        refused(compress(run, model, "out", "--target-size", "1kB"), "cannot be reached")
        refused(compress(run, model, "out", "--target-size", "1GB"), "not smaller")

    def test_names(self, run: Run, model: Path) -> None:
        refused(compress(run, model, "out", "--method", "flcr"), "did you mean 'flrc'")
        refused(compress(run, model, "out", "--factorizer", "whitend"), "did you mean 'whitened'")
        refused(compress(run, model, "out", "--allocator", "flar"), "did you mean 'flra'")
        refused(compress(run, model, "out", "--set", "allocator.powr=1"), "did you mean 'power'")
        refused(compress(run, model, "out", "--set", "allocator.power=much"), "float", "much")
        refused(compress(run, model, "out", "--set", "power=1"), "allocator.power=0.5")
        refused(compress(run, model, "out", "--dtype", "int3"), "int3")
        refused(compress(run, model, "out", "--device", "cuda:7"), "cuda:7")

    def test_texts(self, run: Run, model: Path, tmp_path: Path) -> None:
        (tmp_path / "short.txt").write_text("too short")
        refused(compress(run, model, "out", "--calibration", "short.txt"), "short.txt", "fewer than one window")
        refused(compress(run, model, "out", "--calibration", "./gone.txt"), "gone.txt", "does not exist")
        refused(compress(run, model, "out", "--windows", 0), "--windows")
        refused(compress(run, model, "out", "--window-length", 1), "--window-length")
        refused(compress(run, model, "out", "--window-length", 4096), "4096")


def test_a_low_rank_model_is_not_compressed_again(run: Run, model: Path, tmp_path: Path) -> None:
    assert compress(run, model)[0] == 0
    refused(compress(run, "out", "again"), "already a low-rank one")
    assert not (tmp_path / "again").exists()


def test_outputs_that_cannot_be_written(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    refused(compress(run, model, "file"), "exists already")
    refused(compress(run, model, "file/below"), "cannot be written")
    refused(compress(run, model, "out", "--json", "file"), "file")
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "out").exists()


def test_methods_names_every_method_with_its_options_and_source(run: Run) -> None:
    code, said, _ = run("methods")
    assert code == 0
    names = ("flrc", "svd-llm", "asvd", "two-sided", "whitened", "flra", "loss-aware", "sensitivity", "uniform")
    assert all(name in said for name in (*names, "power = 1.0", "EMNLP 2025"))


def test_doctor_measures_this_machine(run: Run) -> None:
    code, said, _ = run("doctor")
    assert code == 0
    assert all(word in said for word in (torch.__version__, "threads", "GB/s", "would run here"))


HELP = """
import sys
from trimtab.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit:
    pass
heavy = {"torch", "transformers", "numpy", "scipy", "matplotlib", "jinja2"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize("command", [(), ("compress",), ("evaluate",), ("generate",), ("inspect",), ("doctor",)])
def test_help_imports_nothing_heavy(command: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", HELP, *command, "--help"], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
