"""What this machine has, how fast it is, and what would run on it."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.util import find_spec
from pathlib import Path

import psutil
import torch

from trimtab.models.compute_dtype import matrix_rate
from trimtab.models.demo import FILE_NAME, cache_folder
from trimtab.run.environment import read_bandwidth, versions

_OPTIONAL = {"datasets": "calibration from datasets", "lm_eval": "tasks of lm-eval", "matplotlib": "figures"}
_STATISTICS_BYTES = 2.5
"""Memory that a run needs, as a multiple of the bf16 model (statistics and activations beside it)."""


def examine() -> dict[str, str]:
    """Names and values for people; the speeds are measured now (about two seconds)."""
    memory, bandwidth = psutil.virtual_memory(), read_bandwidth()
    return {
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}, {_processor()}",
        "threads": f"{torch.get_num_threads()} used by torch of {os.cpu_count()} ({_thread_settings()})",
        "memory": f"{memory.total / 1e9:.1f} GB, {memory.available / 1e9:.1f} GB free",
        "disk here": f"{shutil.disk_usage(Path.cwd()).free / 1e9:.1f} GB free",
        "reads memory at": f"{bandwidth / 1e9:.1f} GB/s (measured)",
        "matrix products": f"bf16 {_rate(torch.bfloat16)}, fp32 {_rate(torch.float32)} (measured)",
        "devices": _devices(),
        "optional packages": "\n".join(f"{_has(name)} {name} ({use})" for name, use in _OPTIONAL.items()),
        "demo model": "in the cache" if (cache_folder() / FILE_NAME).exists() else "not yet here (93 MB, through pip)",
        "would run here": _would_run(memory.available, bandwidth),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")


def _thread_settings() -> str:
    names = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    return ", ".join(f"{name}={os.environ.get(name, 'not set')}" for name in names)


def _rate(dtype: torch.dtype) -> str:
    return f"{matrix_rate(dtype) / 1e9:.0f} GFLOP/s"


def _devices() -> str:
    names = ["cpu"]
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        names.append(f"cuda:{index} {properties.name}, {properties.total_memory / 1e9:.0f} GB")
    if torch.backends.mps.is_available():
        names.append("mps")
    return "\n".join(names)


def _has(name: str) -> str:
    return "yes" if find_spec(name) else "no "


def _would_run(free: int, bandwidth: float) -> str:
    """The largest bf16 model whose compression fits the memory, and how fast it could decode at best."""
    parameters = free / (2 * _STATISTICS_BYTES)
    speed = bandwidth / (2 * parameters)
    return (
        f"models of up to about {parameters / 1e9:.1f} B parameters in bf16 can be compressed in the free memory;\n"
        f"one of that size decodes at most {speed:.1f} tokens/s on this CPU (memory bandwidth over bytes read);\n"
        f"`trimtab compress MODEL OUT --remove 0.1 --dry-run` estimates time, memory and size for yours"
    )
