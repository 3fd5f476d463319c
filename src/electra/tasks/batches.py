"""From features to batches, neighbours of like length.

The order of training is a function of the seed and the epoch, so that a run can go on anywhere.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from electra.tasks.base import Batch, Feature, Task

SMALLEST_STEP = 16  # tokens from one rounded length to the next
BUCKET = 64  # batches whose features are sorted by length together


def batches_per_epoch(features: int, batch_size: int) -> int:
    """Count the batches of an epoch, the last one filled up."""
    return -(-features // batch_size)


def training_order(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Shuffle features into batches of like length: shuffled, sorted within buckets, and the batches shuffled again."""
    draw = np.random.default_rng((seed, epoch))
    shuffled = draw.permutation(len(lengths))
    batches: list[np.ndarray] = []
    for start in range(0, len(shuffled), BUCKET * batch_size):
        bucket = shuffled[start : start + BUCKET * batch_size]
        bucket = bucket[np.argsort(lengths[bucket], kind="stable")]
        batches += [bucket[at : at + batch_size] for at in range(0, len(bucket), batch_size)]
    return [batches[number] for number in draw.permutation(len(batches))]


def evaluation_order(lengths: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    """Cut the features into batches, longest first, so that what does not fit into memory shows at once."""
    order = np.argsort(-lengths, kind="stable")
    for at in range(0, len(order), batch_size):
        yield order[at : at + batch_size]


def rounded_length(longest: int, most: int) -> int:
    """Round a batch's length up to one of few, for a GPU that records a graph of each shape; 16 of them up to 512."""
    step = max(SMALLEST_STEP, 1 << (longest - 1).bit_length() >> 3)  # an eighth of the next power of two
    return min(-(-longest // step) * step, most)


def make_batch(
    task: Task[Any, Any, Any], features: Sequence[Feature[Any]], rows: int, length: int, pad_id: int
) -> Batch:
    """Pad features to a batch of `rows` rows and `length` tokens, with targets where all of them have one."""
    ids = np.full((rows, length), pad_id, np.int64)
    attention, types = np.zeros((2, rows, length), np.int64)
    for row, feature in enumerate(features):
        count = len(feature.ids)
        ids[row, :count] = feature.ids
        attention[row, :count] = 1
        types[row, :count] = feature.types
    batch = {
        "ids": torch.from_numpy(ids),
        "attention": torch.from_numpy(attention),
        "types": torch.from_numpy(types),
        "weights": torch.arange(rows).lt(len(features)).float(),
    }
    labelled = all(feature.target is not None for feature in features)
    return batch | (task.batch(features, rows, length) if labelled else {})
