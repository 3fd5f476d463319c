"""The workers that train together: a single process, or those that torchrun started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from electra.errors import ConfigError, ElectraError
from electra.model.precision import find_device


@dataclass(frozen=True)
class Processes:
    """This process, its rank among all workers and its device."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Return whether this process writes the files."""
        return self.rank == 0

    @property
    def first_here(self) -> bool:
        """Return whether this process is the first on its machine."""
        return int(os.environ.get("LOCAL_RANK", self.rank)) == 0

    def largest(self, value: float) -> float:
        """Return the largest value of all processes."""
        if self.world_size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64)  # on the CPU: no process has to wait for its GPU
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return shared.item()

    def add_up(self, tensor: Tensor) -> None:
        """Sum a tensor over all processes, in place."""
        if self.world_size > 1:
            dist.all_reduce(tensor)

    def mean(self, value: Tensor | float) -> Any:
        """Return the mean of a value over all processes, without gradient."""
        if self.world_size == 1:
            return value
        shared = torch.as_tensor(value, device=self.device).detach().clone()
        dist.all_reduce(shared)
        return shared / self.world_size

    def wait(self) -> None:
        """Wait until all processes get here."""
        self.largest(0.0)


def launched() -> bool:
    """Return whether torchrun or a similar launcher started this process."""
    if "WORLD_SIZE" not in os.environ:
        return False
    if missing := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise ConfigError(f"WORLD_SIZE is set, but {missing[0]} is not; start with torchrun, or unset WORLD_SIZE")
    return True


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Join the process group if torchrun started this process, and leave it at the end."""
    chosen = find_device(device)
    if not launched():
        yield Processes(0, 1, chosen)
        return
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", os.environ["RANK"])))
        if chosen.index >= torch.cuda.device_count():
            raise ConfigError(f"more processes than GPUs ({torch.cuda.device_count()}); start one process per GPU")
        torch.cuda.set_device(chosen)
    if chosen.type == "mps":  # neither gloo nor nccl can reduce its tensors
        raise ConfigError("an Apple GPU trains in a single process; start it without torchrun, or add device=cpu")
    dist.init_process_group("cpu:gloo,cuda:nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield Processes(dist.get_rank(), dist.get_world_size(), chosen)
    except RuntimeError as problem:
        if "gloo" not in str(problem) and not isinstance(problem, dist.DistError):
            raise
        raise ElectraError("a worker exited (its error is above); restart all of them to resume") from problem
    finally:
        dist.destroy_process_group()
