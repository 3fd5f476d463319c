"""Work on a GPU that is done at the same time."""

from collections.abc import Callable, Iterable

import torch


class SideBySide:
    """Does jobs that do not depend on each other, each on a stream of its own; elsewhere one after the other.

    Small kernels leave most of a GPU idle, and a chain of them leaves it idle for long.
    """

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
        while len(self.streams) < len(jobs):
            self.streams.append(torch.cuda.Stream())  # type: ignore[no-untyped-call]
        here = torch.cuda.current_stream()
        for job, stream in zip(jobs, self.streams, strict=False):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                job()
        for stream in self.streams[: len(jobs)]:
            here.wait_stream(stream)
