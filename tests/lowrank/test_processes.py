"""What happens in other processes: with Trimtab, without it, in either order of imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING

import trimtab
from tests.lowrank.conftest import Checkpoint
from trimtab.lowrank.quantizer import register

FAMILIES = ("llama", "qwen3", "gemma3", "gpt2", "opt", "phi3", "gpt_neox", "qwen3_moe")

LOAD_ALL = """
import sys
{imports}
import torch
torch.set_num_threads(1)
from transformers import AutoModelForCausalLM
ids_BT = torch.arange(3, 3 + 2 * 24).reshape(2, 24) % 320
for folder in sys.argv[1:]:
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        difference = (model(ids_BT).logits.float() - torch.load(folder + ".logits").float()).abs().max().item()
    print(folder, model.dtype, difference)
"""

OURS_FIRST = """
import trimtab
assert not {"torch", "transformers", "safetensors", "rich"} & set(sys.modules), "import trimtab is heavy"
assert "load" in dir(trimtab)
"""

OURS_LAST = """
from transformers import AutoModelForCausalLM
from transformers.quantizers import auto
assert "lowrank" not in auto.AUTO_QUANTIZER_MAPPING
import trimtab
assert auto.AUTO_QUANTIZER_MAPPING["lowrank"].__name__ == "LowRankQuantizer"
"""

LOAD_NONE = """
import sys
from transformers import AutoModelForCausalLM
for folder in sys.argv[1:]:
    try:
        AutoModelForCausalLM.from_pretrained(folder)
        print("loaded", folder)
    except Exception as error:
        print("refused", folder, type(error).__name__)
assert "trimtab" not in sys.modules
"""


def run(program: str, *arguments: Path | str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("imports", [OURS_FIRST, OURS_LAST])
def test_a_new_process_gives_the_same_logits(imports: str, checkpoint: Checkpoint) -> None:
    exact = [checkpoint(arch) for arch in FAMILIES]
    half = [checkpoint(arch, torch.bfloat16) for arch in FAMILIES]
    lines = [line.split() for line in run(LOAD_ALL.replace("{imports}", imports), *exact, *half)]
    assert [line[0] for line in lines] == [str(folder) for folder in exact + half]
    for _, dtype, difference in lines:
        assert float(difference) <= {"torch.float32": 1e-5, "torch.bfloat16": 0.0}[dtype]


def test_without_trimtab_every_family_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    again = []
    for arch in FAMILIES:
        model, _ = trimtab.load(checkpoint(arch))
        model.save_pretrained(tmp_path / arch)
        again.append(tmp_path / arch)
    folders = [*(checkpoint(arch) for arch in FAMILIES), *again, checkpoint("llama", torch.float32, "60KB")]
    assert run(LOAD_NONE, *folders) == [f"refused {folder} RuntimeError" for folder in folders]


@pytest.mark.parametrize("first", ["quantizer", "linear"])
def test_any_file_of_the_room_may_be_imported_first(first: str) -> None:
    program = (
        f"import trimtab.lowrank.{first}\nfrom transformers.quantizers import auto\nprint(*auto.AUTO_QUANTIZER_MAPPING)"
    )
    assert "lowrank" in run(program)[0].split()


def test_registering_again_changes_nothing_and_unknown_names_are_refused() -> None:
    quantizer = AUTO_QUANTIZER_MAPPING["lowrank"]
    register()
    assert AUTO_QUANTIZER_MAPPING["lowrank"] is quantizer
    assert trimtab.load.__module__ == "trimtab.lowrank.load"
    with pytest.raises(AttributeError, match="no_such_name"):
        trimtab.no_such_name  # noqa: B018
