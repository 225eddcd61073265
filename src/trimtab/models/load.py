"""Load a model and its tokenizer from a hub id, a folder, a GGUF file, or the demo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from trimtab.errors import ModelError, TrimtabError
from trimtab.models import headers
from trimtab.models.demo import UNPACKED, is_unpacked, keep_unpacked
from trimtab.models.quiet import quiet_libraries
from trimtab.models.source import ModelSource, resolve
from trimtab.progress import say


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode, its tokenizer, and where they came from."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    source: ModelSource

    def save(self, folder: Path) -> None:
        """Write model and tokenizer into `folder`, as an ordinary checkpoint."""
        with quiet_libraries():
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)


def load_model(
    spec: str | Path, *, dtype: torch.dtype | None = None, device: str | torch.device = "cpu"
) -> LoadedModel:
    """Load the model that `spec` names (see `models.source.resolve`), complete or not at all.

    `dtype` None keeps the stored type; GGUF files are unpacked to bfloat16 then. A GGUF model is an ordinary
    model afterwards: it can be saved. Low-rank checkpoints load the same way.

    Raises:
        ModelError: not a model, no tokenizer, damaged or truncated files, or tensors missing from them.
    """
    source = resolve(spec)
    if source.kind == "demo":
        source = unpacked_demo(source)
    return _load(source, dtype, device)


def _load(source: ModelSource, dtype: torch.dtype | None, device: str | torch.device) -> LoadedModel:
    config = load_config(source)
    if source.gguf_file is None and source.kind != "hub":
        _check_files(Path(source.location))
    tokenizer = load_tokenizer(source)
    with _as_model_error(source):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source.location,
            dtype=dtype or _stored_dtype(source),
            output_loading_info=True,
            trust_remote_code=False,
            config=config,
            **source.arguments,
        )
    model, info = loaded
    if missing := sorted(info["missing_keys"]):
        raise ModelError(
            f"{source.spec} is incomplete: {len(missing)} tensors are in none of its files, the first is {missing[0]}"
        )
    if source.gguf_file is not None:
        _forget_gguf(model)
    return LoadedModel(model.to(device).eval(), tokenizer, source)


def load_skeleton(spec: str | Path) -> LoadedModel:
    """The same model on the meta device: shapes and structure from the configuration, no weight is read.

    Raises:
        ModelError: not a model, or no tokenizer.
    """
    source = resolve(spec)
    if source.kind == "demo":
        source = unpacked_demo(source)
    config = load_config(source)
    tokenizer = load_tokenizer(source)
    with _as_model_error(source), torch.device("meta"):
        dtype = _stored_dtype(source)
        chosen = {} if dtype == "auto" else {"dtype": dtype}
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False, **chosen)
        _prepare_quantized(model, source)
        model.tie_weights()
    return LoadedModel(model.eval(), tokenizer, source)


def unpacked_demo(source: ModelSource) -> ModelSource:
    """The demo model as an ordinary bfloat16 folder in the cache, unpacked when it is first used.

    Reading GGUF takes a quarter of a minute each time; the folder takes a second.

    Raises:
        OutputError: the cache folder cannot be written.
    """
    folder = Path(source.location) / UNPACKED
    if not is_unpacked(folder):
        say("unpacking the demo model to bfloat16, once")
        loaded = _load(source, torch.bfloat16, "cpu")
        keep_unpacked(folder, loaded.save)
    return ModelSource(source.spec, "demo", str(folder))


def load_config(source: ModelSource) -> PreTrainedConfig:
    """The model's configuration.

    Raises:
        ModelError: there is none, or it is not of a language model that writes text.
    """
    if source.kind == "folder" and not (Path(source.location) / "config.json").is_file():
        raise ModelError(f"{source.spec} is not a model folder: it has no config.json")
    with _as_model_error(source):
        config = AutoConfig.from_pretrained(source.location, trust_remote_code=False, **source.arguments)
    if type(config) not in AutoModelForCausalLM._model_mapping:
        raise ModelError(f"{source.spec} is a {config.model_type} model, not a language model that writes text")
    return config


def load_tokenizer(source: ModelSource) -> PreTrainedTokenizerBase:
    """The model's tokenizer.

    Raises:
        ModelError: there is none, or it knows no words.
    """
    try:
        with quiet_libraries():
            tokenizer = AutoTokenizer.from_pretrained(source.location, trust_remote_code=False, **source.arguments)
        usable = bool(tokenizer("a", add_special_tokens=False)["input_ids"])
    except Exception as error:  # the library raises many kinds for files that are missing or damaged
        raise ModelError(f"{source.spec} has no usable tokenizer: {_first_line(error)}") from error
    if not usable:
        raise ModelError(f"{source.spec} has no tokenizer; add its tokenizer files (tokenizer.json, ...)")
    return tokenizer


def _check_files(folder: Path) -> None:
    """See that the files of the weights are there and whole, before anything is loaded."""
    for file in headers.weight_files(folder):
        if file.suffix == ".safetensors":
            headers.read_header(file)


def _stored_dtype(source: ModelSource) -> torch.dtype | str:
    return "auto" if source.gguf_file is None else torch.bfloat16


def _forget_gguf(model: PreTrainedModel) -> None:
    """Make an unpacked GGUF model an ordinary one: nothing of its packing is kept, so it can be saved."""
    for owner, name in ((model, "hf_quantizer"), (model.config, "quantization_config")):
        if hasattr(owner, name):
            delattr(owner, name)
    model.is_quantized = False  # type: ignore[assignment]


def _prepare_quantized(model: PreTrainedModel, source: ModelSource) -> None:
    """Let the quantizer of a low-rank (or quantised) folder put its own modules into the skeleton."""
    settings = getattr(model.config, "quantization_config", None)
    if settings is None or source.gguf_file is not None:
        return
    from transformers.quantizers import AutoHfQuantizer

    files = [str(file) for file in headers.weight_files(Path(source.location))] if source.kind == "folder" else []
    quantizer = AutoHfQuantizer.from_config(settings, pre_quantized=True)
    quantizer.preprocess_model(model, dtype=model.dtype, device_map=None, checkpoint_files=files)


@contextmanager
def _as_model_error(source: ModelSource) -> Iterator[None]:
    """Turn whatever the libraries raise while they load `source` into one line of ours, and keep them quiet."""
    try:
        with quiet_libraries():
            yield
    except TrimtabError:
        raise
    except Exception as error:  # the libraries raise many kinds, none of them documented
        raise ModelError(_what_failed(source, error)) from error


def _what_failed(source: ModelSource, error: Exception) -> str:
    reason = _first_line(error)
    if source.kind == "hub" and isinstance(error, OSError):
        return f"{source.spec} is no folder here and cannot be taken from the hub: {reason}"
    return f"{source.spec} cannot be loaded: {reason}"


def _first_line(error: Exception) -> str:
    lines: list[Any] = [line for line in str(error).splitlines() if line.strip()]
    return str(lines[0]).strip() if lines else type(error).__name__
