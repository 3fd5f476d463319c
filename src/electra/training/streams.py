"""Work on a GPU that is done at the same time."""

from collections.abc import Callable, Iterable
from itertools import cycle

import torch


class SideBySide:
    """Does jobs that do not depend on each other, each on a stream of its own; elsewhere one after the other.

    Small kernels leave most of a GPU idle, and a chain of them leaves it idle for long.
    """

    MOST = 8  # streams: each that multiplies matrices holds memory for it

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.streams: list[torch.cuda.Stream] = []

    def __call__(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Do some jobs; what the caller does next waits for all of them."""
        jobs = list(jobs)
        if not self.on_gpu:
            for job in jobs:
                job()
            return
        while len(self.streams) < min(len(jobs), self.MOST):
            self.streams.append(torch.cuda.Stream())  # type: ignore[no-untyped-call]
        here = torch.cuda.current_stream()
        for stream in self.streams:
            stream.wait_stream(here)
        for job, stream in zip(jobs, cycle(self.streams)):
            with torch.cuda.stream(stream):
                job()
        for stream in self.streams:
            here.wait_stream(stream)
