"""How kernels are split into programs and launched."""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

# Fuse products with sums: the default up to Triton 3.9, which warns that later versions will not.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
AHEAD: tl.constexpr = tl.constexpr(3)  # pipeline stages of a loop: two iterations are loaded while one is computed


@dataclass(frozen=True)
class Layout:
    """How a kernel over rows is split into programs; the values in use are the fastest measured on an H200."""

    numbers: int  # held by a program at a time
    warps: int
    programs: int = 2  # per multiprocessor, for kernels that sum over all rows

    def rows(self, width: int) -> int:
        """Return how many rows of the given width a program processes at a time."""
        rows: int = self.numbers // triton.next_power_of_2(width)
        return max(1, rows)

    def sharers(self, rows: int, width: int, device: torch.device) -> int:
        """Return how many programs share the rows."""
        blocks: int = triton.cdiv(rows, self.rows(width))
        return min(blocks, self.programs * processors(device))

    def turns(self, rows: int, width: int, programs: int) -> int:
        """Return how many iterations each program runs."""
        turns: int = triton.cdiv(triton.cdiv(rows, self.rows(width)), programs)
        return turns


def processors(device: torch.device) -> int:
    """Return the number of multiprocessors of a GPU, or 1 for any other device."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def on_device(tensor: Tensor) -> AbstractContextManager[object]:
    """Return a context that launches kernels on the device of a tensor, which may not be the current one."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()
