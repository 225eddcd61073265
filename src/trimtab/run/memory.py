"""The largest resident memory of this process, as a whole or since a moment."""

from __future__ import annotations

import sys
from pathlib import Path

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def reset_peak() -> None:
    """Let `peak_bytes` count from now on, where the system can (Linux); elsewhere it counts from the start."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return


def peak_bytes() -> int:
    """The largest resident memory since `reset_peak`, as the operating system saw it."""
    try:
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def resident_bytes() -> int:
    """The resident memory of this process now."""
    import psutil

    return int(psutil.Process().memory_info().rss)
