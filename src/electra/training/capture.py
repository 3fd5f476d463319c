"""Capture a function of tensors as a CUDA graph, which launches its thousand kernels as one."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

WARM_UP = 2  # runs before the recording: libraries initialize themselves on first use

Result = TypeVar("Result")
Shape = tuple[tuple[int, ...], ...]


class Captured(Generic[Result]):
    """A function that is recorded once for each shape of its inputs, then replayed.

    The inputs are tensors in dataclasses, tuples and dicts, all work is on the device, and the next call overwrites
    the result. `changes` are the tensors that the function modifies. Functions that are called in turns may share a
    memory `pool`: each then overwrites the results of the others.
    """

    def __init__(self, function: Callable[..., Result], changes: Sequence[Tensor], pool: Any = None) -> None:
        self.function, self.changes = function, changes
        self.recorded: dict[Shape, tuple[torch.cuda.CUDAGraph, Any, Result]] = {}
        self.pool = pool or torch.cuda.graph_pool_handle()

    def __call__(self, *inputs: Any) -> Result:
        """Return the function's result for these inputs."""
        shape = tuple(tuple(tensor.shape) for tensor in _tensors(inputs))
        if shape not in self.recorded:
            self.recorded[shape] = self._record(inputs)
        graph, places, result = self.recorded[shape]
        for place, tensor in zip(_tensors(places), _tensors(inputs), strict=True):
            place.copy_(tensor)
        graph.replay()
        return result

    def release(self) -> None:
        """Free the recordings: a group of processes that they use cannot end before."""
        self.recorded.clear()

    def _record(self, inputs: Any) -> tuple[torch.cuda.CUDAGraph, Any, Result]:
        places, before = mapped(inputs, Tensor.clone), [kept.clone() for kept in self.changes]
        state = torch.cuda.get_rng_state()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self.function(*places)
        torch.cuda.current_stream().wait_stream(side)
        for kept, value in zip(self.changes, before, strict=True):
            kept.data.copy_(value)
        graph = torch.cuda.CUDAGraph()
        # Destroying an earlier graph would break the recording. Only calls of this thread are recorded: another one may
        # be reading batches.
        with nothing_collected(), torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            result = mapped(self.function(*places), Tensor.detach)  # autograd would tie the weights to this recording
        torch.cuda.set_rng_state(state)
        return graph, places, result


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Suspend garbage collection."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _tensors(value: Any) -> Iterator[Tensor]:
    parts = vars(value) if is_dataclass(value) else value
    if isinstance(parts, Tensor):
        yield parts
    elif isinstance(parts, tuple | dict):
        for part in parts.values() if isinstance(parts, dict) else parts:
            yield from _tensors(part)


def mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a value with every tensor in its dataclasses, tuples and dicts changed."""
    if isinstance(value, Tensor):
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **mapped(vars(value), change))
    if isinstance(value, dict):
        return {name: mapped(part, change) for name, part in value.items()}
    if isinstance(value, tuple):
        parts = [mapped(part, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
