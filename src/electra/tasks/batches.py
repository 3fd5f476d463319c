"""Group features into batches of similar length.

The order in training is a function of seed and epoch, so that a run can resume at any step.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from electra.model.packing import pack
from electra.tasks.base import PLACES, TEXTS, AnyTask, Batch, Feature

SMALLEST_STEP = 16  # tokens between two rounded lengths
BUCKET = 64  # batches whose features are sorted by length


def batches_per_epoch(features: int, batch_size: int) -> int:
    """Count the batches of an epoch; the last one may be partly padding."""
    return -(-features // batch_size)


def training_order(
    lengths: np.ndarray, groups: int, seed: int, epoch: int, size: int = 1, bucket_size: int = BUCKET
) -> list[np.ndarray]:
    """Shuffle features into batches of similar length: shuffle, sort within buckets, shuffle the batches.

    A batch has `groups` groups of `size` consecutive features, which stay together; a bucket has `bucket_size` batches.
    """
    lengths = lengths.reshape(-1, size).max(1)
    draw = np.random.default_rng((seed, epoch))
    shuffled = draw.permutation(len(lengths))
    batches: list[np.ndarray] = []
    for start in range(0, len(shuffled), bucket_size * groups):
        bucket = shuffled[start : start + bucket_size * groups]
        bucket = bucket[np.argsort(lengths[bucket], kind="stable")]
        batches += [_features(bucket[at : at + groups], size) for at in range(0, len(bucket), groups)]
    return [batches[number] for number in draw.permutation(len(batches))]


def evaluation_order(lengths: np.ndarray, rows: int) -> Iterator[np.ndarray]:
    """Cut features into batches of `rows`, longest first to run out of memory early."""
    order = np.argsort(-lengths, kind="stable")
    for at in range(0, len(order), rows):
        yield order[at : at + rows]


def _features(groups: np.ndarray, size: int) -> np.ndarray:
    """Return the numbers of the features in some groups."""
    numbers: np.ndarray = (groups[:, None] * size + np.arange(size)).ravel()
    return numbers


def rounded_length(longest: int, most: int | None = None) -> int:
    """Round a length up to one of a few, 16 up to 512 tokens: a GPU records a graph for each shape."""
    step = max(SMALLEST_STEP, 1 << (longest - 1).bit_length() >> 3)  # an eighth of the next power of two
    rounded = -(-longest // step) * step
    return rounded if most is None else min(rounded, most)


def make_batch(
    task: AnyTask, features: Sequence[Feature[Any]], rows: int, length: int, pad_id: int, packs: bool = False
) -> Batch:
    """Pad features to a batch of `rows` rows and `length` tokens, with targets if all of them have one.

    With `packs`, the batch says how its texts are packed into one row.
    """
    ids = np.full((rows, length), pad_id, np.int64)
    attention, types = np.zeros((2, rows, length), np.int64)
    for row, feature in enumerate(features):
        count = len(feature.ids)
        ids[row, :count] = feature.ids
        attention[row, :count] = 1
        types[row, :count] = feature.types
    arrays = {"ids": ids, "attention": attention, "types": types}
    batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
    batch["weights"] = torch.arange(rows).lt(len(features)).float()
    if packs:
        filled = torch.from_numpy(attention.sum(1))
        tokens = int(filled.sum())
        batch[PLACES], batch[TEXTS] = pack(filled, length, tokens, rounded_length(tokens))
    labeled = all(feature.target is not None for feature in features)
    return batch | (task.batch(features, rows, length) if labeled else {})
