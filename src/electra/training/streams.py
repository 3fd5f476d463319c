"""Run independent work on a GPU concurrently."""

from collections.abc import Callable, Iterable
from itertools import cycle

import torch


class SideBySide:
    """Runs independent jobs on separate CUDA streams (small kernels leave a GPU idle), elsewhere one after another."""

    MOST = 8  # streams; each one that multiplies matrices reserves memory for it

    def __init__(self, device: torch.device) -> None:
        self.on_cuda = device.type == "cuda"
        self.streams: list[torch.cuda.Stream] = []

    def __call__(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Run the jobs; later work on the current stream waits for all of them."""
        jobs = list(jobs)
        if not self.on_cuda:
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
