"""Kernels for the GPU: the same functions as the plain modules compute, in fewer visits to memory.

They serve 16-bit weights on a GPU; everything else goes through the plain modules, which are what they are tested by.
Triton, which not every machine has, is imported where a kernel is first used.
"""

import torch

OLDEST = (8, 0)  # compute capability: GPUs before it have no bf16
SHORT = 128  # tokens: up to here the scores of a head fit on the chip
WIDEST = 128  # numbers of a head: of wider ones a block of long attention does not fit on the chip
LONGEST = 512  # that an encoder gives to the kernels: `long_attention` is not measured beyond
DROPOUTS = 3  # of a Transformer block: the attention's shares and its two branches


def has_bf16(device: torch.device) -> bool:
    """Say whether a device is a GPU that multiplies bf16."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= OLDEST
