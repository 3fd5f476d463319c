"""Kernels for the GPU: the same functions as the plain modules compute, in fewer visits to memory.

They serve 16-bit weights on a GPU; everything else goes through the plain modules, which are what they are tested by.
Triton, which not every machine has, is imported where a kernel is first used.
"""

import importlib.util
import os

import torch
from torch import Tensor

OLDEST = (8, 0)  # compute capability: GPUs before it have no bf16
SHORT = 128  # tokens: up to here the scores of a head fit on the chip
WIDEST = 128  # numbers of a head: of wider ones a block of long attention does not fit on the chip
LONGEST = 512  # that an encoder gives to the kernels: `long_attention` is not measured beyond
DROPOUTS = 3  # of a Transformer block: the attention's shares and its two branches

_TRITON = importlib.util.find_spec("triton") is not None


def serve(hidden: Tensor) -> bool:
    """Say whether the kernels take these hidden states: bf16 on a GPU, or any in Triton's interpreter."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        return _TRITON
    bf16 = hidden.is_cuda and hidden.dtype == torch.bfloat16 and not torch.compiler.is_compiling()
    return _TRITON and bf16 and has_bf16(hidden.device)


def has_bf16(device: torch.device) -> bool:
    """Say whether a device is a GPU that multiplies bf16."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= OLDEST


def draw_seeds(layers: int, device: torch.device) -> Tensor:
    """Draw the seeds (layers, DROPOUTS, 2) of all dropouts of an encoder's pass."""
    return torch.randint(-(2**31), 2**31, (layers, DROPOUTS, 2), dtype=torch.int32, device=device)
