"""Profile a training step: the time of its kernels on a CUDA GPU, or of its operations elsewhere, by purpose."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity

from electra.recipes.hardware import synchronize
from electra.recipes.speed import JointStep

UPDATES = 5  # to profile
PARTS = {  # by substrings of the name; the first match counts
    "optimizer": ("adam", "multi_tensor_apply", "foreach", "vector_norm"),
    "vocabulary": ("cross_entropy", "_sample", "nll", "cumsum", "searchsorted", "log_softmax"),
    "attention": ("attention", "_long_forward", "_to_keys", "_to_queries", "flash", "softmax", "bmm", "_Product"),
    "matrix products": ("nvjet", "gemm", "cutlass", "splitK", "addmm", "::mm", "linear", "dot_kernel"),
    "norms": ("norm",),
    "activation": ("gelu", "erf"),
    "embeddings": ("embedding", "gather", "scatter", "sort", "index"),
    "sums": ("reduce_kernel", "::sum"),
    "copies": ("copy", "emcpy", "emset", "fill", "CatArray"),
}


@dataclass(frozen=True)
class Part:
    """The cost of one kind of work in a step."""

    part: str
    ms: float
    share: float  # of the total time
    launches: float  # kernels or operations per step


def profile(step: JointStep, ids: Tensor) -> list[Part]:
    """Profile some updates of a step that has run before; return its parts, the longest first."""
    on_cuda = ids.device.type == "cuda"
    activity = ProfilerActivity.CUDA if on_cuda else ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity], acc_events=True) as seen:  # without, PyTorch 2.11 warns
        for _ in range(UPDATES):
            step(ids)
        synchronize(ids.device)
    times: dict[str, tuple[float, float]] = {}
    for event in seen.key_averages():
        taken = event.self_device_time_total if on_cuda else event.self_cpu_time_total
        before = times.get(part_of(event.key), (0.0, 0))
        times[part_of(event.key)] = (before[0] + taken / 1000 / UPDATES, before[1] + event.count / UPDATES)
    total = sum(ms for ms, _ in times.values())
    parts = [Part(name, round(ms, 3), round(ms / total, 4), round(count, 1)) for name, (ms, count) in times.items()]
    return sorted(parts, key=lambda part: -part.ms)


def part_of(name: str) -> str:
    """Return the part that a kernel or an operation belongs to."""
    return next((part for part, words in PARTS.items() if any(word in name for word in words)), "other")
