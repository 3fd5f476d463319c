"""Predict how well training scales to many GPUs, from the measured step of one.

python runs/scale.py [--size base] [--batch 128] [--length 512] [--ms 110.3] [--gpus 8 64 512]

Weak scaling: each GPU keeps its batch, and the efficiency is the step time of one GPU divided by that of many. This is
a prediction from the assumptions below, with the layers, buckets and order of the real code; nothing here has been
measured on more than one GPU. Measure the step with `electra bench`, and the bandwidths with nccl-tests.

Communication: machines of 8 GPUs. A sum over n GPUs sends 2 (n - 1) / n times its bytes through the slowest link; NCCL
runs one ring per network card, so that machines have 8 cards' bandwidth between them. A ring takes 2 (n - 1) hops, a
tree 2 log2(machines) hops between machines and a ring inside each; the faster of the two is used.
Computation: the backward pass takes its share of FLOPs, and a gradient is known when its share is done; in the fused
encoder, that of a layer when its group of layers is done. While a sum runs, it slows the computation down a little.
All GPUs wait for the slowest: the longest of n normally distributed steps.
"""

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import torch
from torch.utils.flop_counter import FlopCounterMode

from electra.config.load import load_config
from electra.config.schema import PretrainConfig
from electra.data.feeding.batch import Batch
from electra.model.bodies.stack import group_layers
from electra.objectives.draws import Draws
from electra.recipes.flops import on_meta
from electra.training.buckets import Buckets
from electra.training.optim import build_optimizer
from electra.training.processes import Processes
from electra.training.weights import Weights


@dataclass(frozen=True)
class Cluster:
    """What is assumed of the hardware. Bandwidths are those that large messages reach, in bytes per second."""

    gpus_per_machine: int = 8
    link: float = 0.8 * 450e9  # NVLink of a GPU in one direction
    card: float = 0.85 * 50e9  # a network card of 400 Gbit/s, one for each GPU
    link_hop: float = 1e-6  # seconds
    card_hop: float = 6e-6
    launch: float = 15e-6  # of an operation of all processes
    slowdown: float = 0.1  # of the computation while a sum runs: its kernels take 8 to 16 of 132 multiprocessors
    spread: float = 0.005  # standard deviation of a GPU's step time, as a share of it
    host_hop: float = 3e-5  # of the agreement of all hosts on whether to stop, besides the GPUs' work

    def sum_seconds(self, size: float, gpus: int) -> float:
        """Return the time of a sum of `size` bytes over some GPUs."""
        if gpus == 1:
            return 0.0
        machines = math.ceil(gpus / self.gpus_per_machine)
        inside = min(gpus, self.gpus_per_machine)
        bandwidth = self.link if machines == 1 else min(self.link, inside * self.card)
        across = 2 * (machines if machines > 1 else 0) * self.card_hop
        ring = 2 * (gpus - machines) * self.link_hop + across
        tree = 2 * (inside - 1) * self.link_hop + 2 * math.log2(machines) * self.card_hop
        return self.launch + min(ring, tree) + 2 * (gpus - 1) / gpus * size / bandwidth


@dataclass(frozen=True)
class Bucket:
    """Gradients that are summed together: their bytes, and the share of the backward pass until they are known."""

    size: float
    known: float


@dataclass(frozen=True)
class Work:
    """One step of one GPU."""

    seconds: float
    forward_share: float  # of the FLOPs
    optimizer_seconds: float
    buckets: Sequence[Bucket]
    small_sums: int = 2  # of counts and shares, between forward and backward pass

    def on(self, gpus: int, cluster: Cluster) -> float:
        """Return the seconds of a step on some GPUs."""
        forward = (self.seconds - self.optimizer_seconds) * self.forward_share
        backward = self.seconds - self.optimizer_seconds - forward
        taken = [cluster.sum_seconds(bucket.size, gpus) for bucket in self.buckets]
        slowed = backward + cluster.slowdown * min(sum(taken), backward)
        end = 0.0
        for bucket, seconds in zip(self.buckets, taken, strict=True):
            end = max(end, slowed * bucket.known) + seconds
        small = self.small_sums * cluster.sum_seconds(8, gpus)
        step = forward + small + max(slowed, end) + self.optimizer_seconds
        return max(step + cluster.spread * self.seconds * longest(gpus), 2 * (gpus - 1) * cluster.host_hop)

    def efficiency(self, gpus: int, cluster: Cluster) -> float:
        """Return the share of the ideal speed."""
        return self.seconds / self.on(gpus, cluster)


def longest(count: int) -> float:
    """Return the mean of the largest of some standard normal numbers (Blom's approximation)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25)) if count > 1 else 0.0


def work_of(config: PretrainConfig, rows: int, seconds: float, optimizer_seconds: float) -> Work:
    """Return the step of a config as the real code cuts and orders it, with rows sequences on a GPU."""
    objective, length = on_meta(config.model, config.objective), config.train.length
    weights = build_optimizer(objective, config.train).weights
    with torch.device("meta"):
        inputs = Batch(torch.zeros(1, length, dtype=torch.long), None, None), Draws(*torch.zeros(3, 1, length))
    done = [0.0] * len(weights.starts)
    with FlopCounterMode(display=False) as forward:
        loss = weights.call(*inputs).loss
    with FlopCounterMode(display=False) as backward:
        weights.compute_gradient(loss, lambda number, _: done.__setitem__(number, backward.get_total_flops()))
    before, after = forward.get_total_flops(), backward.get_total_flops()
    known = _in_groups(weights, [flops / after for flops in done], rows * length)
    found = [
        Bucket(4 * (bucket.part.stop - bucket.part.start), max(known[number] for number in bucket.weights))
        for bucket in Buckets(weights, Processes(0, 1, torch.device("meta"))).buckets
    ]
    ordered = sorted(found, key=lambda bucket: bucket.known)
    return Work(seconds, before / (before + after), optimizer_seconds, ordered)


def _in_groups(weights: Weights, known: list[float], tokens: int) -> list[float]:
    """Delay the gradients of each layer to those of its group in the fused encoder."""
    layers = [re.match(r"(.*\.layers)\.(\d+)\.", name) for name in weights.starts]
    last: dict[tuple[str, int], float] = {}
    keys: list[tuple[str, int]] = []
    for found, share in zip(layers, known, strict=True):
        key = ("", len(keys))
        if found:
            prefix, layer = found[1], int(found[2])
            wide, hidden = weights.shapes[f"{prefix}.0.expand.weight"]
            count = 1 + max(int(other[2]) for other in layers if other and other[1] == prefix)
            groups = group_layers(count, tokens * (5 * hidden + wide) * 2)
            key = (prefix, next(place for place, group in enumerate(groups) if group.start <= layer < group.stop))
        keys.append(key)
        last[key] = max(last.get(key, 0.0), share)
    return [last[key] for key in keys]


def main() -> None:
    """Print a row for each number of GPUs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="base")
    parser.add_argument("--batch", type=int, default=128, help="sequences of each GPU")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--ms", type=float, default=110.3, help="measured step of one GPU")
    parser.add_argument("--optimizer-ms", type=float, default=1.5, help="of it, the part after the gradients")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8, 16, 32, 64, 128, 256, 512])
    asked = parser.parse_args()
    config = load_config(asked.size, [f"train.length={asked.length}", f"model.max_length={asked.length}"])
    work, cluster = work_of(config, asked.batch, asked.ms / 1000, asked.optimizer_ms / 1000), Cluster()
    print("gpus,ms,efficiency,million_tokens_per_second,communication_ms,not_overlapped_efficiency")
    for gpus in asked.gpus:
        seconds = work.on(gpus, cluster)
        sums = sum(cluster.sum_seconds(bucket.size, gpus) for bucket in work.buckets)
        late = replace(work, buckets=[replace(bucket, known=1) for bucket in work.buckets])
        speed = gpus * asked.batch * asked.length / seconds / 1e6
        row = (gpus, f"{1000 * seconds:.1f}", f"{work.efficiency(gpus, cluster):.3f}", f"{speed:.1f}")
        print(*row, f"{1000 * sums:.1f}", f"{late.efficiency(gpus, cluster):.3f}", sep=",")


if __name__ == "__main__":
    main()
