"""Texts in: sources, windows, and text that a model writes itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.tiny import ARCHITECTURES, tiny, tiny_tokenizer
from trimtab.errors import TextError
from trimtab.text import selfwritten
from trimtab.text.calibration import calibration_windows
from trimtab.text.selfwritten import start_token, write_windows
from trimtab.text.sources import read_text
from trimtab.text.windows import Windows, cut_windows

TEXT = "the model reads a text and writes another text . " * 50


def test_windows_are_consecutive_from_the_start_without_special_tokens() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    windows = cut_windows(tokenizer, TEXT, length=16)
    assert windows.ids_NL.flatten().tolist() == ids[: len(ids) // 16 * 16]
    few = cut_windows(tokenizer, TEXT, length=16, limit=3, source="here")
    assert torch.equal(few.ids_NL, windows.ids_NL[:3])
    assert few.sources[0].spec == "here"
    assert few.sources[0].tokens == len(ids)
    with pytest.raises(TextError, match=f"{len(ids)} tokens, fewer than one window"):
        cut_windows(tokenizer, TEXT, length=len(ids) + 1)


def test_windows_are_saved_with_all_they_know(tmp_path: Path) -> None:
    windows = cut_windows(tiny_tokenizer(), TEXT, length=16, limit=3, source="here")
    windows.save(tmp_path / "w")
    again = Windows.load(tmp_path / "w")
    assert torch.equal(again.ids_NL, windows.ids_NL)
    assert (again.sources, again.warnings, again.fingerprint) == (
        windows.sources,
        windows.warnings,
        windows.fingerprint,
    )
    (tmp_path / "w").write_bytes(b"nothing")
    with pytest.raises(TextError, match="not a file of windows"):
        Windows.load(tmp_path / "w")


def test_texts_are_read_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\r\ntwo", newline="")
    assert read_text(str(tmp_path / "a.txt")).split() == ["one", "two"]
    rows = [{"text": "first"}, {"dialogue": "second"}, {"question": "third"}]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert read_text(str(tmp_path / "b.jsonl")) == "first\n\nsecond\n\nthird"
    (tmp_path / "c.json").write_text(json.dumps(rows))
    assert read_text(str(tmp_path / "c.json")) == "first\n\nsecond\n\nthird"
    assert len(read_text("pydoc")) > 100_000


BAD = {
    "empty.txt": (b"", "empty"),
    "blank.txt": (b" \n ", "empty"),
    "binary.txt": (b"ab\0cd", "binary"),
    "latin.txt": ("é".encode("latin-1"), "not UTF-8"),
    "utf16.txt": ("hello".encode("utf-16"), "binary|UTF"),
    "broken.jsonl": (b'{"text": "a"}\n{"text": ', "not JSON"),
    "field.jsonl": (b'{"words": "a"}\n', "none of the fields"),
    "list.jsonl": (b"[1, 2]\n", "not an object"),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_files_are_named_with_the_reason(name: str, tmp_path: Path) -> None:
    content, words = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TextError, match=words) as error:
        read_text(str(tmp_path / name))
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_files_folders_and_unknown_data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for spec, words in (("./gone.txt", "does not exist"), (str(tmp_path), "is a folder"), ("a:b:c:d", "name")):
        with pytest.raises(TextError, match=words):
            read_text(spec)


@pytest.mark.parametrize("arch", ["llama", "gpt2", "gemma3"])
def test_a_model_writes_the_same_text_for_the_same_seed(arch: str) -> None:
    model, tokenizer = tiny(arch)
    first, again, other = (write_windows(model, tokenizer, windows=4, length=20, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.ids_NL, again.ids_NL)
    assert not torch.equal(first.ids_NL, other.ids_NL)
    assert first.ids_NL.shape == (4, 20)
    assert (first.ids_NL[:, 0] == start_token(tokenizer)).all()
    assert len({tuple(row) for row in first.ids_NL.tolist()}) == 4
    assert first.sources[0].seed == 1


def test_sampling_follows_the_models_probabilities() -> None:
    """The first written token of many windows has the distribution that the model gives after the start token."""
    model, tokenizer = tiny("llama")
    number = 4000
    written = write_windows(model, tokenizer, windows=number, length=2, seed=0, batch_size=number).ids_NL[:, 1]
    with torch.no_grad():
        p_V = model(torch.tensor([[start_token(tokenizer)]])).logits[0, 0].softmax(-1)
    counts_V = torch.bincount(written, minlength=len(p_V)).float()
    likely = p_V * number > 8
    chi = ((counts_V - p_V * number) ** 2 / (p_V * number))[likely].sum()
    assert chi < likely.sum() + 5 * (2 * likely.sum()) ** 0.5


def test_sources_are_mixed_in_order_with_warnings(tmp_path: Path) -> None:
    model, tokenizer = tiny("llama")
    (tmp_path / "a.txt").write_text(TEXT[:400])
    windows = calibration_windows([str(tmp_path / "a.txt"), "self"], model, tokenizer, windows=30, length=16, seed=3)
    assert [note.spec for note in windows.sources] == [str(tmp_path / "a.txt"), "self"]
    assert windows.sources[0].windows < 30
    assert windows.sources[1].windows == 30
    assert any("has only" in warning for warning in windows.warnings)
    for wrong in ({"windows": 0}, {"length": 1}, {"length": 100_000}):
        with pytest.raises(TextError):
            calibration_windows(["self"], model, tokenizer, **wrong)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_cache_with_room_for_all_tokens_changes_nothing(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = tiny(arch)
    fixed = write_windows(model, tokenizer, windows=3, length=40, seed=5).ids_NL
    monkeypatch.setattr(selfwritten, "_cache", lambda *_: None)
    assert torch.equal(write_windows(model, tokenizer, windows=3, length=40, seed=5).ids_NL, fixed)
