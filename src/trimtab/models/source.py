"""What a user may name as a model, and what that name stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trimtab.errors import ModelError
from trimtab.models.demo import demo_file

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_FILE_ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".json", ".onnx", ".txt")


@dataclass(frozen=True)
class ModelSource:
    """Where a model is: a repository of the Hugging Face hub, a folder, a GGUF file or the demo model."""

    spec: str
    kind: Literal["hub", "folder", "gguf", "demo"]
    location: str
    gguf_file: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword arguments that `from_pretrained` needs besides `location`."""
        return {} if self.gguf_file is None else {"gguf_file": self.gguf_file}


def resolve(spec: str | Path) -> ModelSource:
    """Say what `spec` stands for: `demo`, a folder, a `.gguf` file, or else a hub id such as `org/name`.

    The demo model is downloaded here when it is not in the cache yet.

    Raises:
        ModelError: the path does not exist, or is a file that is not GGUF.
    """
    spec = str(spec)
    if spec == "demo":
        return _gguf_source(spec, "demo", demo_file())
    path = Path(spec).expanduser()
    if path.is_dir():
        return ModelSource(spec, "folder", str(path.resolve()))
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise ModelError(f"{spec} is a file but not a .gguf file; give the folder that holds the model")
        return _gguf_source(spec, "gguf", path.resolve())
    if _looks_like_hub_id(spec):
        return ModelSource(spec, "hub", spec)
    raise ModelError(f"model path {spec!r} does not exist; give a folder, a .gguf file, a hub id (org/name) or 'demo'")


def _gguf_source(spec: str, kind: Literal["gguf", "demo"], path: Path) -> ModelSource:
    return ModelSource(spec, kind, str(path.parent), path.name)


def _looks_like_hub_id(spec: str) -> bool:
    is_file_name = spec.lower().endswith((*_FILE_ENDINGS, ".gguf"))
    return not is_file_name and _HUB_ID.fullmatch(spec) is not None
