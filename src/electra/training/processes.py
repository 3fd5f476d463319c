"""The processes that train together: one, or those that torchrun started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


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
        shared = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return shared.item()

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes."""
        if self.world_size > 1:
            dist.all_reduce(tensor)

    def wait(self) -> None:
        """Wait for all processes to come here."""
        if self.world_size > 1:
            dist.barrier()


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Join the processes that torchrun started, or be alone; leave them in the end."""
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    if "WORLD_SIZE" not in os.environ:
        yield Processes(0, 1, torch.device(chosen))
        return
    if chosen == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        chosen = f"cuda:{os.environ['LOCAL_RANK']}"
    dist.init_process_group("nccl" if chosen.startswith("cuda") else "gloo")
    try:
        yield Processes(dist.get_rank(), dist.get_world_size(), torch.device(chosen))
    finally:
        dist.destroy_process_group()
