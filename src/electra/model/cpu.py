"""Training on a CPU: PyTorch's functions, made of those of its parts that are fast there.

An operation is here because it gains at least 1.2x on x86 and on ARM (results/2026-11-17-cpu-operations).
"""

import ctypes
import math
import os
from typing import Any

import torch
from torch import Tensor, nn

LEVELS = 2**16  # the probability of dropout is rounded to one of these, by less than 0.00001
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
MALLOC = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}  # the environment's own settings


def keep_memory() -> None:
    """Let GNU's C library keep up to 256 MB of freed memory: to get it again takes a page fault for every 4 kB.

    PyTorch uses this library on x86, and an allocator of its own on ARM (set in `electra/__init__.py`).
    """
    if os.name == "posix" and MALLOC.isdisjoint(os.environ):
        set_option = getattr(ctypes.CDLL(None), "mallopt", lambda option, value: None)
        set_option(M_TRIM_THRESHOLD, 2**28)
        set_option(M_MMAP_THRESHOLD, 2**25)


keep_memory()


def dropout(hidden: Tensor, p: float) -> Tensor:
    """Drop numbers with probability p; each random number serves four of them, since drawing them is serial work."""
    bits = torch.empty(-(-hidden.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    levels = bits.view(torch.int16)[: hidden.numel()].view(hidden.shape)  # uniform from -LEVELS / 2 up
    dropped = round(p * LEVELS)
    noise = (levels >= dropped - LEVELS // 2).to(hidden.dtype)
    return hidden * noise.mul_(LEVELS / (LEVELS - dropped))


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: nn.Dropout) -> Tensor:
    """Mix values (B, heads, L, D) by softmax(query · key / √D) with dropout where the boolean mask allows it."""
    scores: Tensor = _Product.apply(query / math.sqrt(query.size(-1)), key.transpose(-1, -2))  # type: ignore[no-untyped-call]
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    mixed: Tensor = _Product.apply(dropout(scores.softmax(-1)), value)  # type: ignore[no-untyped-call]
    return mixed


class _Product(torch.autograd.Function):
    """left @ right with a contiguous right factor both ways: OpenBLAS is up to ten times slower on others."""

    @staticmethod
    def forward(context: Any, left: Tensor, right: Tensor) -> Tensor:
        context.save_for_backward(left, right)
        return left @ right.contiguous()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        left, right = context.saved_tensors
        return gradient @ right.transpose(-1, -2).contiguous(), left.transpose(-1, -2) @ gradient
