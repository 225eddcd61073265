"""Which number format this processor multiplies faster, and a way to compute in it without changing the model.

Processors differ: some multiply bf16 matrices four times as fast as fp32 ones, others half as fast. So it is measured.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import torch
from torch import nn


@contextmanager
def fastest_dtype(model: nn.Module) -> Iterator[None]:
    """While this context lasts, a bf16 model on a CPU that is faster in fp32 computes in fp32, if memory allows.

    Every bf16 number is an fp32 number, so the weights are the same, during and after.
    """
    parameters = [each for each in model.parameters() if each.dtype == torch.bfloat16]
    if not parameters or not _worth_it(parameters):
        yield
        return
    try:
        for each in parameters:
            each.data = each.data.float()
        yield
    finally:
        for each in parameters:
            each.data = each.data.bfloat16()


def _worth_it(parameters: list[nn.Parameter]) -> bool:
    if any(each.device.type != "cpu" for each in parameters):
        return False
    more_bytes = 4 * sum(each.numel() for each in parameters)
    if psutil.virtual_memory().available < 3 * more_bytes:
        return False
    return _fp32_is_faster()


@functools.cache
def _fp32_is_faster() -> bool:
    """Measured once, so that a process does not change its mind."""
    return matrix_rate(torch.float32) > 1.2 * matrix_rate(torch.bfloat16)


def matrix_rate(dtype: torch.dtype, device: str | torch.device = "cpu", *, seconds: float = 0.2) -> float:
    """Floating-point operations a second of a 512 x 1024 x 1024 matrix product, measured now."""
    x, w = torch.randn(512, 1024, device=device).to(dtype), torch.randn(1024, 1024, device=device).to(dtype)
    torch.mm(x, w)
    _wait(device)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        torch.mm(x, w)
        _wait(device)
        count += 1
    return count * 2 * 512 * 1024 * 1024 / (time.perf_counter() - start)


def _wait(device: str | torch.device) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
