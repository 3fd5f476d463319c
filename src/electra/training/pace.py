"""How fast each process computes. All wait for each other in every update, so that the slowest one sets the pace."""

import statistics
import time
from collections.abc import Sequence

import torch

from electra.training.processes import Processes

SLOW = 1.2  # times the median is conspicuous
OFTEN = 3  # lines of the log in a row


class Pace:
    """The seconds from the beginning of an update until this process first waits for the others, if there are any."""

    def __init__(self, processes: Processes) -> None:
        self.uses_events = processes.grouped and processes.device.type == "cuda"
        self.began = self.arrived = 0.0
        if self.uses_events:
            self.start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            # External: every replay of a CUDA graph records it again.
            self.end = torch.cuda.Event(enable_timing=True, external=True)  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        """Note the beginning of an update."""
        if self.uses_events:
            self.start.record()
        self.began = time.perf_counter()

    def arrive(self) -> None:
        """Note the first exchange with the others."""
        if self.uses_events:
            self.end.record()
        self.arrived = time.perf_counter()

    def seconds(self) -> float:
        """Return the time of the latest update, which the device must have finished."""
        if self.uses_events:
            return float(self.start.elapsed_time(self.end)) / 1000
        return self.arrived - self.began


class Stragglers:
    """Notices processes that are slower than the others several times in a row."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.hosts = hosts
        self.times = [0] * len(hosts)

    def measure(self, seconds: Sequence[float]) -> dict[str, float]:
        """Return what to log of the processes' paces: the slowest, and how much longer than the median it takes."""
        slowest = max(range(len(seconds)), key=seconds.__getitem__)
        return {"slowest_rank": slowest, "slowest_lag": round(seconds[slowest] / _median(seconds) - 1, 4)}

    def warnings(self, seconds: Sequence[float]) -> list[str]:
        """Return a warning for each process that has now been slow several times in a row."""
        limit = SLOW * _median(seconds)
        self.times = [times + 1 if taken > limit else 0 for times, taken in zip(self.times, seconds, strict=True)]
        return [
            f"a process is slow: rank {rank} on {self.hosts[rank]} computes "
            f"{seconds[rank] / _median(seconds) - 1:.0%} longer than the median, and all others wait for it"
            for rank, times in enumerate(self.times)
            if times == OFTEN
        ]


def _median(seconds: Sequence[float]) -> float:
    return max(statistics.median(seconds), 1e-9)
