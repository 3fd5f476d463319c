"""What the machine is and what it can do: the peak that a run is held against."""

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from electra import __version__
from electra.data.files import write_json
from electra.errors import ElectraError
from electra.training.processes import Processes

ENVIRONMENT = "environment.json"


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


@contextmanager
def fitting(what: str, remedy: str) -> Iterator[None]:
    """Say in one line what does not fit in a GPU's memory, and what to do about it."""
    try:
        yield
    except torch.OutOfMemoryError as problem:
        raise ElectraError(f"{what} do not fit in the GPU's memory; {remedy}") from problem


def device_name(device: torch.device) -> str:
    """Name the device as its maker does."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' if threads > 1 else ''}"


def record_environment(folder: Path, processes: Processes) -> None:
    """Write down what a run is made on; one that goes on elsewhere gets another entry."""
    path = folder / ENVIRONMENT
    try:
        before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    except ValueError:
        before = []  # nothing that the run depends on
    now = {
        "device": device_name(processes.device),
        "processes": processes.world_size,
        "electra": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if now not in before:
        write_json(path, [*before, now])
