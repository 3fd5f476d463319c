"""Where the time of a training step goes: its kernels on a GPU, its operations on a CPU, by what they are for."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity

from electra.recipes.speed import JointStep

UPDATES = 5  # that are looked at
PARTS = {  # by what stands in a name; the first that fits
    "optimizer": ("adam", "multi_tensor_apply", "foreach", "vector_norm"),
    "vocabulary": ("cross_entropy", "_sample", "nll", "cumsum", "searchsorted", "log_softmax"),
    "attention": ("attention", "_long_forward", "_to_keys", "_to_queries", "flash", "softmax", "bmm", "_Product"),
    "matrix products": ("nvjet", "gemm", "cutlass", "splitK", "addmm", "::mm", "linear", "dot_kernel"),
    "norms": ("norm",),
    "activation": ("gelu", "erf"),
    "embeddings": ("embedding", "gather", "scatter", "sort", "index"),
    "sums": ("_sum_rows", "reduce_kernel", "::sum"),
    "copies": ("copy", "emcpy", "emset", "fill", "CatArray"),
}


@dataclass(frozen=True)
class Part:
    """What one kind of work takes of a step."""

    part: str
    ms: float
    share: float  # of all work
    launches: float  # kernels or operations a step


def profile(step: JointStep, ids: Tensor) -> list[Part]:
    """Take some updates apart, the longest part first; the step has run before."""
    on_gpu = ids.device.type == "cuda"
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as seen:
        for _ in range(UPDATES):
            step(ids)
        if on_gpu:
            torch.cuda.synchronize(ids.device)
    times: dict[str, tuple[float, float]] = {}
    for event in seen.key_averages():
        taken = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        before = times.get(part_of(event.key), (0.0, 0))
        times[part_of(event.key)] = (before[0] + taken / 1000 / UPDATES, before[1] + event.count / UPDATES)
    total = sum(ms for ms, _ in times.values())
    parts = [Part(name, round(ms, 3), round(ms / total, 4), round(count, 1)) for name, (ms, count) in times.items()]
    return sorted(parts, key=lambda part: -part.ms)


def part_of(name: str) -> str:
    """Say what a kernel or an operation is for."""
    return next((part for part, words in PARTS.items() if any(word in name for word in words)), "other")
