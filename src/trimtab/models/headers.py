"""What a model's files hold, from their headers alone: names, shapes, types and sizes; no weight is read."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.errors import ModelError
from trimtab.models.source import ModelSource

_LONGEST_HEADER = 100_000_000
SINGLE_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"
PICKLE_FILES = ("pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class TensorHeader:
    """One stored tensor: its name, shape, type as the file calls it (`BF16`, `Q4_1`, ...), bytes, and file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    file: str


def read_header(path: Path) -> dict[str, TensorHeader]:
    """The tensors of one safetensors file, by name.

    Raises:
        ModelError: the file is missing, truncated, or not safetensors.
    """
    try:
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else _LONGEST_HEADER + 1
            if length > min(_LONGEST_HEADER, path.stat().st_size - 8):
                raise ModelError(f"{path} is truncated or is not a safetensors file")
            entries = json.loads(file.read(length))
        entries.pop("__metadata__", None)
        tensors = {name: _tensor(name, entry, path.name) for name, entry in entries.items()}
        ends = [entry["data_offsets"][1] for entry in entries.values()]
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{path} is damaged: its safetensors header cannot be read") from error
    expected = 8 + length + max(ends, default=0)
    if (size := path.stat().st_size) != expected:
        raise ModelError(f"{path} is truncated or damaged: {size:,} bytes, its header says {expected:,}")
    return tensors


def read_headers(folder: Path) -> dict[str, TensorHeader]:
    """The tensors of a folder's safetensors checkpoint, single or sharded, by name.

    Raises:
        ModelError: there is none, a shard is missing or damaged, or a shard lacks a tensor that the index names.
    """
    tensors: dict[str, TensorHeader] = {}
    index = _index(folder)
    for name in sorted(set(index.values())) or [SINGLE_FILE]:
        tensors |= read_header(folder / name)
    if missing := sorted(set(index) - set(tensors)):
        raise ModelError(f"{folder} is incomplete: {INDEX_FILE} names {missing[0]}, which no file holds")
    return tensors


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder that hold its weights.

    Raises:
        ModelError: there are none, or one that the index names is missing.
    """
    if (folder / SINGLE_FILE).is_file():
        return [folder / SINGLE_FILE]
    files = [folder / name for name in sorted(set(_index(folder).values()))]
    if not files:
        files = sorted(folder.glob("pytorch_model*.bin"))
    if not files:
        raise ModelError(f"{folder} holds no weights ({SINGLE_FILE}, {INDEX_FILE} or pytorch_model.bin)")
    for file in files:
        if not file.is_file():
            raise ModelError(f"{folder} is incomplete: {file.name} is missing")
    return files


def source_headers(source: ModelSource) -> dict[str, TensorHeader]:
    """The tensors of any source, by the name that its files use (GGUF has names of its own).

    Raises:
        ModelError: the files are missing or damaged, or the hub cannot be reached.
    """
    if source.gguf_file is not None:
        return _gguf_headers(Path(source.location) / source.gguf_file)
    return _hub_headers(source.location) if source.kind == "hub" else read_headers(Path(source.location))


def file_bytes(source: ModelSource) -> int:
    """Bytes of the files that hold the source's weights.

    Raises:
        ModelError: as `source_headers`.
    """
    if source.gguf_file is not None:
        return (Path(source.location) / source.gguf_file).stat().st_size
    if source.kind == "hub":
        return sum(tensor.bytes for tensor in _hub_headers(source.location).values())
    return sum(file.stat().st_size for file in weight_files(Path(source.location)))


def _index(folder: Path) -> dict[str, str]:
    """Tensor name -> file name, from the index of a sharded checkpoint; empty when there is no index."""
    if (folder / SINGLE_FILE).is_file() or not (folder / INDEX_FILE).is_file():
        return {}
    try:
        return dict(json.loads((folder / INDEX_FILE).read_text("utf-8"))["weight_map"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder / INDEX_FILE} is damaged: it has no readable weight_map") from error


def _tensor(name: str, entry: dict[str, Any], file: str) -> TensorHeader:
    start, end = entry["data_offsets"]
    return TensorHeader(name, tuple(entry["shape"]), entry["dtype"], end - start, file)


def _gguf_headers(path: Path) -> dict[str, TensorHeader]:
    from gguf import GGUFReader

    try:
        tensors = GGUFReader(path).tensors
    except (ValueError, OSError, IndexError) as error:
        raise ModelError(f"{path} is truncated or is not a GGUF file: {error}") from error
    return {
        tensor.name: TensorHeader(
            tensor.name,
            tuple(int(side) for side in reversed(tensor.shape)),
            tensor.tensor_type.name,
            int(tensor.n_bytes),
            path.name,
        )
        for tensor in tensors
    }


def _hub_headers(repository: str) -> dict[str, TensorHeader]:
    from huggingface_hub import get_safetensors_metadata

    try:
        files = get_safetensors_metadata(repository).files_metadata
    except Exception as error:  # many kinds: no network, no such repository, gated, no safetensors
        raise ModelError(f"the headers of {repository} cannot be read from the hub: {error}") from error
    return {
        name: TensorHeader(name, tuple(info.shape), info.dtype, info.data_offsets[1] - info.data_offsets[0], file)
        for file, metadata in files.items()
        for name, info in metadata.tensors.items()
    }
