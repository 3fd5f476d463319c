"""What the machine can do: the peak that a run is held against."""

import time

import torch


def matrix_peak(device: torch.device) -> float | None:
    """Measure the FLOP/s of large bf16 matrix products on a GPU; None on a CPU, where no such figure helps."""
    if device.type != "cuda":
        return None
    size = 8192
    left = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    right = torch.randn_like(left)
    for _ in range(3):
        left @ right
    torch.cuda.synchronize(device)
    began = time.perf_counter()
    for _ in range(10):
        left @ right
    torch.cuda.synchronize(device)
    return 10 * 2 * size**3 / (time.perf_counter() - began)


def device_name(device: torch.device) -> str:
    """Name the device as its maker does."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"
