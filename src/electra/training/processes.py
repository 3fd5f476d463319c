"""The workers that train together: a single process, or those that torchrun started."""

import os
import platform
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from electra import __version__
from electra.errors import CheckpointError, ConfigError, ElectraError
from electra.model.precision import find_device
from electra.training.capture import mapped
from electra.training.pulse import Pulse

MEETING = timedelta(minutes=5)  # within which all processes must have started
Value = TypeVar("Value")
Work = dist.Work  # an operation on a tensor of all processes that has begun


@dataclass(frozen=True)
class Processes:
    """This process, its rank among all workers, its device, and its neighbors: the workers on the same machine."""

    rank: int
    world_size: int
    device: torch.device
    grouped: bool = False  # whether they communicate; torchrun makes a group of even a single process
    neighbors: int = 1  # workers on this machine, this one included; the same number on each machine
    machine: dist.ProcessGroup | None = None  # their group
    writers: dist.ProcessGroup | None = None  # the processes of the first machine, for what they do in the background
    hosts: Sequence[str] = (platform.node(),)  # the machine of each process

    @property
    def first(self) -> bool:
        """Return whether this process writes all files but checkpoints."""
        return self.rank == 0

    @property
    def writes(self) -> bool:
        """Return whether this process writes a part of the checkpoints: those of the first machine do."""
        return self.rank < self.neighbors

    @property
    def place(self) -> int:
        """Return the rank among the neighbors."""
        return self.rank % self.neighbors

    @property
    def first_here(self) -> bool:
        """Return whether this process is the first on its machine, also if machines have different numbers of them."""
        return int(os.environ.get("LOCAL_RANK", self.rank)) == 0

    def largest(self, value: float) -> float:
        """Return the largest value of all processes."""
        if not self.grouped:
            return value
        shared = torch.tensor(value, dtype=torch.float64)  # on the CPU: no process has to wait for its GPU
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return shared.item()

    def shared(self, value: Value) -> Value:
        """Return the value of the first process."""
        box = [value]
        if self.grouped:
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def gathered(self, value: Value) -> list[Value]:
        """Return the values of all processes by rank in the first one, tensors on the CPU; nothing in the others."""
        if not self.grouped:
            return [value]
        found = [value] * self.world_size if self.first else None
        dist.gather_object(mapped(value, Tensor.cpu), found, dst=0)
        return found or []

    def add_up(self, tensor: Tensor) -> None:
        """Sum a tensor over all processes, in place."""
        if self.grouped:
            dist.all_reduce(tensor)

    def begin_adding_up(self, tensor: Tensor) -> Work:
        """Begin to sum a tensor over all processes, in place; on a GPU besides its other work. Wait before reading."""
        return cast(Work, dist.all_reduce(tensor, async_op=True))

    def collect(self, tensor: Tensor) -> None:
        """Fill a tensor from the neighbors: each has written its share, one of equal parts in the order of places."""
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # renamed in torch 2.13
        gather(tensor, tensor.chunk(self.neighbors)[self.place], group=self.machine)

    def write(self, tensors: dict[str, Tensor], folder: Path) -> None:
        """Write tensors that all writers have to a folder, each process some of them to a file of its own."""
        from torch.distributed.checkpoint.api import CheckpointException  # takes a second
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        storage = HuggingFaceStorageWriter(str(folder), save_distributed=True)
        try:
            save(tensors, storage_writer=storage, process_group=self.writers)
        except CheckpointException as problem:
            rank, (cause, _) = next(iter(problem.failures.items()))
            where = f"rank {rank} on {self.hosts[rank]}"
            raise CheckpointError(f"cannot write {folder}: {where}: {_line(cause)}") from None

    def mean(self, value: Tensor | float) -> Any:
        """Return the mean of a value over all processes, without gradient."""
        if not self.grouped:
            return value
        given = value.detach().clone() if isinstance(value, Tensor) else torch.full((), value, device=self.device)
        dist.all_reduce(given)
        return given / self.world_size

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
    with _grouped(chosen) as processes:
        yield processes


@contextmanager
def _grouped(device: torch.device) -> Iterator[Processes]:
    """Join the group; if it breaks, report which process is gone."""
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    try:
        socket.getaddrinfo(address, None)
        store, rank, ranks = next(iter(rendezvous("env://", timeout=MEETING)))
        # torchrun keeps the store when it starts the processes again: the last attempt's addresses are still in it.
        attempt = PrefixStore(f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)} of {ranks}", store)
        dist.init_process_group(backend, store=PrefixStore("group", attempt), rank=rank, world_size=ranks)
    except (OSError, RuntimeError) as problem:
        raise ConfigError(f"cannot meet the other processes at {address}:{port}: {_line(problem)}") from None
    pulse, hosts = Pulse(attempt, rank, ranks), [""] * ranks
    try:
        hosts, neighbors = _hosts(ranks), _neighbors(ranks)
        machine, _ = dist.new_subgroups(neighbors)  # type: ignore[no-untyped-call]
        writers = dist.new_group(list(range(neighbors)), backend="gloo")
        yield Processes(rank, ranks, device, True, neighbors, machine, writers, hosts)
    except RuntimeError as problem:
        if "gloo" not in str(problem) and not isinstance(problem, dist.DistError):
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun sends it, and gives us time to say why
        lost = " and ".join(f"rank {rank} on {hosts[rank]}" for rank in pulse.lost()) or "a process"
        raise ElectraError(f"{lost} exited or cannot be reached; restart all processes to resume") from problem
    finally:
        pulse.stop()
        dist.destroy_process_group()


def _hosts(ranks: int) -> list[str]:
    """Return the machine of each process; raise an error if they run different software."""
    found: list[tuple[str, str]] = [("", "")] * ranks
    dist.all_gather_object(found, (platform.node(), f"electra {__version__} with torch {torch.__version__}"))
    hosts, software = zip(*found, strict=True)
    for rank, version in enumerate(software):
        if version != software[0]:
            raise ConfigError(
                f"rank {rank} on {hosts[rank]} has {version}, but rank 0 on {hosts[0]} has {software[0]}; "
                "install the same on all machines"
            )
    return list(hosts)


def _neighbors(ranks: int) -> int:
    """Return the number of workers on this machine; all of them share work as if on one if machines differ in it."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
    alike = torch.tensor([here, -here])
    dist.all_reduce(alike, op=dist.ReduceOp.MAX)
    return here if alike.tolist() == [here, -here] and ranks % here == 0 else ranks


def _line(problem: BaseException) -> str:
    return str(problem).partition("\n")[0]
