"""GPU kernels: fused versions of the plain modules that access memory less often.

They are used for 16-bit weights on a GPU; everything else uses the plain modules, which are the tests' reference.
Triton is not available everywhere, so it is only imported when a kernel is first used.
"""

import torch

OLDEST = (8, 0)  # minimum compute capability: older GPUs have no bf16
SHORT = 128  # tokens: up to this length, all scores of a head fit in on-chip memory
LONGEST = 512  # tokens: the body `electra` uses the kernels up to this length, `modern` at any
DROPOUTS = 3  # per Transformer block: attention weights and both branches


def has_bf16(device: torch.device) -> bool:
    """Return whether a device is a GPU with bf16 matrix products."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= OLDEST


def on_chip(device: torch.device) -> int:
    """Return the bytes of on-chip memory of a GPU's multiprocessor; for any other device, those of an H200."""
    if device.type != "cuda":
        return 228 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_multiprocessor


def widest_head(device: torch.device) -> int:
    """Return the maximum head size: with wider heads, a block of long attention does not fit in on-chip memory.

    Heads of 128 need 160 KiB: an A100, an H100 and newer ones of their kind have that much, other GPUs only 99 KiB.
    """
    return 128 if on_chip(device) > 160 * 1024 else 64
