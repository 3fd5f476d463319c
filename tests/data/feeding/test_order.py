import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from electra.data.feeding.order import TURN, make_order
from electra.errors import DataError


def chi_square_deviation(counts: np.ndarray, freedom: int) -> float:
    """Return by how many standard deviations the chi-square statistic of uniformity exceeds its mean."""
    expected = counts.mean()
    return (((counts - expected) ** 2).sum() / expected - freedom) / math.sqrt(2 * freedom)


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 2**40))
def test_every_epoch_is_a_permutation(size, seed, epoch):
    rows = make_order([size], None, seed).rows(np.arange(epoch * size, (epoch + 1) * size))
    assert np.array_equal(np.sort(rows), np.arange(size))


def test_epochs_seeds_and_sources_are_shuffled_differently():
    positions = np.arange(1000)
    first = make_order([1000], None, seed=1).rows(positions)
    assert (first == make_order([1000], None, seed=1).rows(positions)).all()
    for other in (
        make_order([1000], None, seed=1).rows(positions + 1000),
        make_order([1000], None, seed=2).rows(positions),
        make_order([1000, 1000], [1, 1], seed=1).rows(2 * positions + 1) - 1000,
    ):
        assert np.array_equal(np.sort(other), positions)
        assert (first == other).mean() < 0.01


@pytest.mark.parametrize("size", [3, 4, 5])
def test_all_permutations_of_few_rows_are_equally_likely(size):
    epochs = 200 * math.factorial(size)
    rows = make_order([size], None, seed=7).rows(np.arange(size * epochs)).reshape(epochs, size)
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(counts) == math.factorial(size)
    assert chi_square_deviation(counts, len(counts) - 1) < 4


@pytest.mark.parametrize("size", [12, 101])
def test_every_row_is_equally_likely_at_every_position(size):
    epochs = 5000
    rows = make_order([size], None, seed=7).rows(np.arange(size * epochs)).reshape(epochs, size)
    counts = np.stack([np.bincount(rows[:, position], minlength=size) for position in range(size)])
    assert chi_square_deviation(counts, (size - 1) ** 2) < 4


@pytest.mark.parametrize("size", [12, 101, 1009])
def test_the_next_row_is_independent_of_the_current_one(size):
    epochs = 400_000 // size
    rows = make_order([size], None, seed=7).rows(np.arange(size * epochs)).reshape(epochs, size)
    steps = np.bincount(((rows[:, 1:] - rows[:, :-1]) % size).ravel(), minlength=size)
    assert steps[0] == 0
    assert chi_square_deviation(steps[1:], size - 2) < 4


def test_a_long_order_has_no_serial_correlation():
    size = 1_000_003
    rows = make_order([size], None, seed=7).rows(np.arange(size))
    for lag in (1, 2, 64, 1000):
        assert abs(np.corrcoef(rows[:-lag], rows[lag:])[0, 1]) < 4 / math.sqrt(size)
    pairs = np.histogram2d(rows[:-1], rows[1:], bins=64)[0]
    assert chi_square_deviation(pairs, 64 * 64 - 1) < 4


def test_any_position_is_computed_at_once():
    far = 10**15
    order = make_order([999_983], None, seed=3)
    assert len(set(order.rows(np.arange(far, far + 64)))) == 64


@pytest.mark.parametrize(
    ("sizes", "weights"), [([1], None), ([7], None), ([500, 77, 10], [5, 1, 2.5]), ([300, 11], None)]
)
def test_tensors_and_arrays_give_the_same_order(sizes, weights):
    order = make_order(sizes, weights, seed=11)
    positions = np.concatenate([np.arange(3000), np.arange(10**12, 10**12 + 3000)])
    tensors = order.map(torch.as_tensor).rows(torch.as_tensor(positions))
    assert np.array_equal(tensors.numpy(), order.rows(positions))


def test_a_mixture_follows_its_weights_everywhere():
    order = make_order([1000, 1000, 1000], [0.7, 0.2, 0.1], seed=0)
    counts = np.bincount(order.rows(np.arange(5000, 5100)) // 1000)
    assert np.abs(counts - [70, 20, 10]).max() <= 1
    turn = np.bincount(order.rows(np.arange(TURN)) // 1000)
    assert np.abs(turn / TURN - [0.7, 0.2, 0.1]).max() < 1 / TURN


def test_each_source_of_a_mixture_has_its_own_epochs():
    order = make_order([50, 400], [3, 1], seed=0)
    rows = order.rows(np.arange(3 * TURN))
    for first, size in ((0, 50), (50, 400)):
        own = rows[(rows >= first) & (rows < first + size)] - first
        epochs = own[: len(own) // size * size].reshape(-1, size)
        assert (np.sort(epochs, axis=1) == np.arange(size)).all()


@pytest.mark.parametrize(
    ("sizes", "weights", "message"),
    [
        ([5, 5], [1, -1], "positive"),
        ([5, 5], [1, float("nan")], "positive"),
        ([5, 5], [1, 1e-9], "less than one sequence"),
        ([5, 0], [1, 1], "no sequences"),
        ([0], None, "no sequences"),
    ],
)
def test_impossible_mixtures_are_refused(sizes, weights, message):
    with pytest.raises(DataError, match=message):
        make_order(sizes, weights, seed=0)
