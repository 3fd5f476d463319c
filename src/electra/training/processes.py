"""The processes that train together: one, or those that torchrun started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from electra.errors import ConfigError, ElectraError
from electra.model.precision import find_device


@dataclass(frozen=True)
class Processes:
    """This process among its fellows."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Say whether this process writes the files."""
        return self.rank == 0

    def largest(self, value: float) -> float:
        """Agree on the largest of all processes' values."""
        if self.world_size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64)  # on the host: no process waits for its GPU
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return shared.item()

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes."""
        if self.world_size > 1:
            dist.all_reduce(tensor)

    def wait(self) -> None:
        """Wait for all processes to come here."""
        self.largest(0.0)


def launched() -> bool:
    """Say whether torchrun, or something like it, started this process among others."""
    if "WORLD_SIZE" not in os.environ:
        return False
    if missing := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise ConfigError(f"WORLD_SIZE is set and {missing[0]} is not: start with torchrun, or unset WORLD_SIZE")
    return True


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Join the processes that torchrun started, or be alone; leave them in the end."""
    chosen = find_device(device)
    if not launched():
        yield Processes(0, 1, chosen)
        return
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", os.environ["RANK"])))
        if chosen.index >= torch.cuda.device_count():
            raise ConfigError(f"{torch.cuda.device_count()} GPUs for more processes: start one process for each GPU")
        torch.cuda.set_device(chosen)
    dist.init_process_group("cpu:gloo,cuda:nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield Processes(dist.get_rank(), dist.get_world_size(), chosen)
    except RuntimeError as problem:
        if "gloo" not in str(problem) and not isinstance(problem, dist.DistError):
            raise
        raise ElectraError("another process is gone, and says why above; start all of them again to go on") from problem
    finally:
        dist.destroy_process_group()
