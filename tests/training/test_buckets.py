import pytest
import torch
from torch import nn

from electra.training import buckets
from electra.training.buckets import Buckets
from electra.training.processes import Processes
from electra.training.weights import Group, Weights

EVENTS: list[str] = []


class Listening(Processes):
    """A process that notes when a sum begins."""

    def begin_adding_up(self, tensor):
        EVENTS.append(f"sum {len(tensor)}")
        return super().begin_adding_up(tensor)


@pytest.fixture
def weights(monkeypatch):
    monkeypatch.setattr(buckets, "BUCKET", 4 * 16 * 16)
    torch.manual_seed(0)
    layers = nn.Sequential(*(nn.Linear(16, 16, bias=False) for _ in range(4)), nn.Linear(16, 3, bias=False))
    return Weights(layers, lambda name, weight: Group(0.0, 1.0), None)


@pytest.fixture
def processes(group_of_one):
    return Listening(**vars(group_of_one))


def test_buckets_are_slices_without_gaps_that_hold_every_weight(weights, processes):
    found = Buckets(weights, processes).buckets
    assert [bucket.part.start for bucket in found] == [0, *(bucket.part.stop for bucket in found[:-1])]
    assert found[-1].part.stop == len(weights.gradient)
    assert [number for bucket in found for number in bucket.weights] == list(range(5))
    assert [len(bucket.weights) for bucket in found] == [1, 1, 1, 1, 1]


def test_a_bucket_is_summed_as_soon_as_it_is_full_in_the_order_of_the_first_pass(weights, processes):
    summed = Buckets(weights, processes)
    weights.module[0].weight.register_hook(lambda gradient: EVENTS.append("first layer"))
    x = torch.randn(2, 16)
    EVENTS.clear()
    summed.take_gradient(weights.call(x).square().sum(), first=True)
    assert EVENTS[0] == "first layer"  # the order is not known yet
    assert summed.order == [4, 3, 2, 1, 0]
    EVENTS.clear()
    summed.take_gradient(weights.call(x).square().sum(), first=True)
    expected = ["sum 64", *["sum 256"] * 3, "first layer", "sum 256"]
    assert expected == EVENTS


def test_the_sum_has_the_gradients_of_earlier_micro_batches_and_zeros_for_unused_weights(weights, processes):
    summed = Buckets(weights, processes)
    x = torch.randn(2, 16)
    for _ in range(2):
        weights.take_gradient(weights.call(x).square().sum(), first=True)
        expected = 2 * weights.gradient
        summed.take_gradient(weights.call(x).square().sum(), first=False)
        torch.testing.assert_close(weights.gradient, expected)
    weights.gradient.fill_(torch.nan)
    summed.take_gradient(weights.module[4].weight.sum(), first=True)
    *unused, used = weights.views(weights.gradient).values()
    assert used.eq(1).all()
    assert not any(view.any() for view in unused)
