"""GPU kernels: fused versions of the plain modules that access memory less often.

They are used for 16-bit weights on a GPU; everything else uses the plain modules, which are the tests' reference.
Triton is not available everywhere, so it is only imported when a kernel is first used.
"""

import importlib.util
import os

import torch
from torch import Tensor

OLDEST = (8, 0)  # minimum compute capability: older GPUs have no bf16
SHORT = 128  # tokens: up to this length, all scores of a head fit in on-chip memory
WIDEST = 128  # maximum head size: with wider heads, a block of long attention does not fit in on-chip memory
LONGEST = 512  # tokens: the encoder uses the kernels up to this length; `long_attention` is not measured beyond it
DROPOUTS = 3  # per Transformer block: attention weights and both branches

_TRITON = importlib.util.find_spec("triton") is not None


def serve(hidden: Tensor) -> bool:
    """Return whether the kernels support these hidden states: bf16 on a GPU, or any in Triton's interpreter."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        return _TRITON
    bf16 = hidden.is_cuda and hidden.dtype == torch.bfloat16 and not torch.compiler.is_compiling()
    return _TRITON and bf16 and has_bf16(hidden.device)


def has_bf16(device: torch.device) -> bool:
    """Return whether a device is a GPU with bf16 matrix products."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= OLDEST


def draw_seeds(layers: int, device: torch.device) -> Tensor:
    """Draw the seeds (layers, DROPOUTS, 2) of all dropouts in one encoder pass."""
    return torch.randint(-(2**31), 2**31, (layers, DROPOUTS, 2), dtype=torch.int32, device=device)
