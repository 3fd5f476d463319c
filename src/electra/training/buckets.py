"""Sum the gradient over the processes while the backward pass computes the rest of it.

The vector of gradients is cut into buckets, contiguous slices of it. The backward pass reaches the last layer first;
when it has computed all gradients of a bucket, their sum over the processes begins, on a GPU besides the computation.
"""

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from electra.training.processes import Processes, Work
from electra.training.weights import Weights

BUCKET = 2**25  # bytes: enough to use the bandwidth of a network, and few enough to begin early


class Bucket(NamedTuple):
    """A slice of the vector, and the numbers of the weights in it."""

    part: slice
    weights: range


class Buckets:
    """Takes gradients as `Weights.take_gradient` does, and sums them with those of earlier micro-batches and processes.

    All processes must sum the buckets in the same order: it is the one in which the first process filled them in its
    first backward pass.
    """

    def __init__(self, weights: Weights, processes: Processes) -> None:
        self.weights, self.processes = weights, processes
        self.buckets = list(_cut(weights))
        self.bucket_of = {number: place for place, bucket in enumerate(self.buckets) for number in bucket.weights}
        self.order: list[int] = []  # of the buckets, once it is known

    def take_gradient(self, loss: Tensor, first: bool) -> None:
        """Compute the gradient of a loss and sum it over the processes; the first of an update overwrites the last."""
        passing = _Pass(self, first)
        self.weights.compute_gradient(loss, passing.arrived)
        passing.finish()
        self.order = self.order or self.processes.shared(passing.filled)


class _Pass:
    """One backward pass: the gradients that arrived, the buckets that are full, and the sums that have begun."""

    def __init__(self, buckets: Buckets, first: bool) -> None:
        self.of, self.first = buckets, first
        self.found: list[Tensor | None] = [None] * len(buckets.bucket_of)
        self.missing = [len(bucket.weights) for bucket in buckets.buckets]
        self.filled: list[int] = []
        self.sums: list[Work] = []

    def arrived(self, number: int, gradient: Tensor) -> None:
        """Take the gradient of a weight, and begin the sums that are next."""
        self.found[number] = gradient
        bucket = self.of.bucket_of[number]
        self.missing[bucket] -= 1
        if not self.missing[bucket]:
            self.filled.append(bucket)
            for following in self.of.order[len(self.sums) :]:
                if self.missing[following]:
                    break
                self._begin(following)

    def finish(self) -> None:
        """Begin the sums of buckets with weights that the loss does not depend on, and wait for all."""
        places = range(len(self.missing))
        self.filled += [place for place in places if self.missing[place]]
        for place in (self.of.order or places)[len(self.sums) :]:
            self._begin(place)
        for work in self.sums:
            work.wait()

    def _begin(self, place: int) -> None:
        bucket, weights = self.of.buckets[place], self.of.weights
        weights.write_gradient(bucket.weights, self.found, self.first)
        self.sums.append(self.of.processes.begin_adding_up(weights.gradient[bucket.part]))


def _cut(weights: Weights) -> Iterator[Bucket]:
    """Cut each group into buckets of at least BUCKET bytes between weights; what is left belongs to its last one."""
    starts = list(weights.starts.values())
    for part in weights.groups.values():
        inside = [number for number, start in enumerate(starts) if part.start <= start < part.stop]
        ends = [*(starts[number] for number in inside[1:]), part.stop]
        begun, first = part.start, inside[0]
        for number, end in zip(inside, ends, strict=True):
            if (end - begun) * weights.gradient.itemsize >= BUCKET or end == part.stop:
                yield Bucket(slice(begun, end), range(first, number + 1))
                begun, first = end, number + 1
