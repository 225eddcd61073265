"""What this machine is and what it was asked: versions, memory, speed."""

from __future__ import annotations

import sys
import time
from importlib.metadata import PackageNotFoundError, version

import torch

_PACKAGES = ("trimtab", "torch", "transformers", "safetensors")


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    found = {"python": sys.version.split()[0]}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def read_bandwidth(*, megabytes: int = 512) -> float:
    """Bytes a second that this machine reads from memory, measured by summing a large array (best of three)."""
    x = torch.ones(megabytes * 2**20 // 4)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        x.sum()
        times.append(time.perf_counter() - start)
    return x.numel() * 4 / min(times)
