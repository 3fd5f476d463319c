"""How the kernels are laid out over a GPU."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """How a kernel over rows is cut into programs; the best of those that were measured on an H200."""

    numbers: int  # that a program holds at a time
    warps: int
    programs: int = 2  # for each processor, of kernels that sum over all rows

    def rows(self, width: int) -> int:
        """Give how many rows of a width a program takes at a time."""
        rows: int = self.numbers // triton.next_power_of_2(width)
        return max(1, rows)

    def shares(self, rows: int, width: int, device: torch.device) -> tuple[int, int]:
        """Give how many programs share some rows, and how many turns each then takes."""
        blocks = triton.cdiv(rows, self.rows(width))
        processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
        programs = min(blocks, self.programs * processors)
        return programs, triton.cdiv(blocks, programs)


def on_device(tensor: Tensor) -> AbstractContextManager[object]:
    """Launch where a tensor lies, which need not be the current device."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


@triton.jit
def _sum_rows(partial, total, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TURNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    summed = tl.zeros((ROWS, COLUMNS), tl.float32)
    for turn in range(TURNS):
        row = turn * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (columns < width)[None, :]
        summed += tl.load(partial + row[:, None] * width + columns[None, :], mask=inside, other=0.0)
    tl.store(total + columns, tl.sum(summed, 0).to(total.dtype.element_ty), mask=columns < width)


def sum_rows(partial: Tensor, dtype: torch.dtype) -> Tensor:
    """Add up the rows of float32 partial sums (programs, width), always in the same order."""
    rows, width = partial.shape
    total = torch.empty(width, dtype=dtype, device=partial.device)
    with on_device(partial):
        _sum_rows[(triton.cdiv(width, 16),)](
            partial, total, rows, width, ROWS=128, COLUMNS=16, TURNS=triton.cdiv(rows, 128), num_warps=4
        )
    return total
