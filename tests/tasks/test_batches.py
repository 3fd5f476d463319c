import numpy as np
import pytest
import torch

from electra.config.bodies import ModernModel
from electra.model.bodies import build_body
from electra.tasks.base import TEXTS, Feature, encode
from electra.tasks.batches import (
    BUCKET,
    batches_per_epoch,
    evaluation_order,
    make_batch,
    rounded_length,
    training_order,
)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 5000])
def test_an_epoch_has_every_feature_once_and_one_short_batch_at_most(count):
    lengths = np.random.default_rng(0).integers(3, 128, count)
    order = training_order(lengths, 32, seed=1, epoch=0)
    assert len(order) == batches_per_epoch(count, 32)
    assert sorted(np.concatenate(order)) == list(range(count))
    assert sorted(len(batch) for batch in order)[1:] == [32] * (len(order) - 1)


def test_the_order_follows_seed_and_epoch():
    lengths = np.full(100, 7)
    orders = [training_order(lengths, 8, *key) for key in ((0, 0), (0, 0), (0, 1), (1, 0))]
    first = [batch.tolist() for batch in orders[0]]
    assert first == [batch.tolist() for batch in orders[1]]
    assert first != [batch.tolist() for batch in orders[2]]
    assert first != [batch.tolist() for batch in orders[3]]


def test_neighbors_are_of_like_length():
    lengths = np.random.default_rng(0).integers(3, 128, 32 * BUCKET)
    spread = np.mean([np.ptp(lengths[batch]) for batch in training_order(lengths, 32, 0, 0)])
    assert spread < 4  # where a random batch spreads over nearly all lengths


def test_evaluation_takes_the_longest_first():
    batches = list(evaluation_order(np.array([3, 9, 5]), 2))
    assert [batch.tolist() for batch in batches] == [[1, 2], [0]]


@pytest.mark.parametrize(
    ("longest", "most", "expected"), [(5, 128, 16), (33, 128, 48), (100, 128, 112), (129, 512, 160), (40, 42, 42)]
)
def test_a_length_is_rounded_to_one_of_few(longest, most, expected):
    assert rounded_length(longest, most) == expected


def test_rounded_lengths_are_few_and_not_much_longer():
    rounded = {longest: rounded_length(longest, 512) for longest in range(1, 513)}
    assert len(set(rounded.values())) == 16
    assert all(0 <= padded - longest < max(16, longest / 4) for longest, padded in rounded.items())


def test_a_batch_has_its_rows_and_its_length(task):
    features = [Feature(0, [2] * 5, [0] * 5, [1.0]), Feature(1, [2, 3], [0, 1], [0.0])]
    batch = make_batch(task("cola"), features, 4, 7, pad_id=9)
    assert batch["ids"].shape == batch["types"].shape == (4, 7)
    assert batch["ids"][1].tolist() == [2, 3, 9, 9, 9, 9, 9]
    assert batch["attention"].sum(1).tolist() == [5, 2, 0, 0]
    assert torch.equal(batch["weights"], torch.tensor([1.0, 1, 0, 0]))
    assert batch["targets"].shape == (4, 1)


def test_a_batch_without_labels_has_no_targets(task):
    assert "targets" not in make_batch(task("cola"), [Feature(0, [2], [0])], 2, 32, pad_id=0)


def test_a_packed_batch_has_the_states_of_a_padded_one(task):
    torch.manual_seed(0)
    body = build_body(ModernModel(hidden_size=32, layers=2, heads=2, feed_forward_size=48, vocab_size=50))
    features = [Feature(0, [2] * 5, [0] * 5, [1.0]), Feature(1, [2, 3], [0, 0], [0.0])]
    padded, packed = (make_batch(task("cola"), features, 4, 7, pad_id=0, packs=packs) for packs in (False, True))
    assert packed[TEXTS].shape == (1, 16)  # a few lengths, for graphs
    mask = padded["attention"][..., None]
    torch.testing.assert_close(encode(body, packed) * mask, encode(body, padded) * mask)
    assert {name: packed[name].shape for name in padded} == {name: padded[name].shape for name in padded}


def test_packed_batches_are_drawn_regardless_of_length():
    lengths = np.random.default_rng(0).integers(3, 128, 32 * BUCKET)
    spread = np.mean([np.ptp(lengths[batch]) for batch in training_order(lengths, 32, 0, 0, bucket_size=1)])
    assert spread > 100
