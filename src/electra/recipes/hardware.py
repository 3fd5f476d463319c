"""The machine: its name, its peak speed and the environment that a run records."""

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from electra import __version__
from electra.data.files import write_json
from electra.errors import ElectraError, out_of_memory
from electra.training.processes import Processes

ENVIRONMENT = "environment.json"
SUSTAINED = 400  # products: for half a second, since the clock of a GPU is higher for a few milliseconds


def matrix_peak(device: torch.device) -> float | None:
    """Measure the FLOP/s that large bf16 matrix products sustain on an NVIDIA GPU; None on other devices."""
    if device.type != "cuda":
        return None
    from torch.utils.benchmark import Timer  # imports build tools

    size = 8192
    left = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    right = torch.randn_like(left)
    timer = Timer("left @ right", globals={"left": left, "right": right})  # warms up, and waits for the GPU
    return 2 * size**3 / timer.timeit(SUSTAINED).mean


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished all work that was queued."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


@contextmanager
def fitting(what: str, remedy: str) -> Iterator[None]:
    """Report in one line what does not fit in the memory of the GPU or the machine, and what to do about it."""
    try:
        yield
    except (RuntimeError, MemoryError) as problem:
        if not out_of_memory(problem):
            raise
        raise ElectraError(f"{what} do not fit in memory; {remedy}") from problem


def device_name(device: torch.device) -> str:
    """Return the name of a GPU's model, or the number of threads on a CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return f"{torch.backends.mps.get_name()} GPU"  # such as Apple M2 GPU
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' if threads > 1 else ''}"


def record_environment(folder: Path, processes: Processes) -> None:
    """Record hardware and software of a run; resuming it elsewhere adds another entry."""
    path = folder / ENVIRONMENT
    before = []
    with suppress(FileNotFoundError, ValueError):  # a damaged file is replaced: the run does not depend on it
        before = json.loads(path.read_text(encoding="utf-8"))
    now = {
        "device": device_name(processes.device),
        "processes": processes.world_size,
        "machines": len(set(processes.hosts)),
        "electra": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if now not in before:
        write_json(path, [*before, now])
