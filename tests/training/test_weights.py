import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from electra.training.weights import ALIGNED, Group, Weights


class Pair(nn.Module):
    """Two maps that share a third, and a frozen one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        shared = nn.Linear(5, 5)
        self.left = nn.Sequential(shared, nn.Linear(5, 3))
        self.right = nn.Sequential(shared, nn.Linear(5, 3, bias=False))
        self.frozen = nn.Linear(3, 1).requires_grad_(False)

    def forward(self, x):
        return self.frozen(self.left(x) * self.right(x)).sum()


def by_shape(name, weight):
    return Group(float(weight.dim()), 1.0)


@pytest.fixture(params=[None, torch.float64])
def weights(request):
    return Weights(Pair(), by_shape, request.param)


def inputs(weights):
    dtype = weights.copies.vector.dtype if weights.copies else torch.float32
    return torch.randn(4, 5, generator=torch.Generator().manual_seed(1)).to(dtype)


def test_every_trained_weight_is_a_part_of_one_vector(weights):
    views, fresh = weights.views(weights.values), dict(Pair().named_parameters())
    assert views.keys() == {name for name, weight in fresh.items() if weight.requires_grad}
    for name, weight in weights.module.named_parameters():
        assert torch.equal(weight, fresh[name])
        if name in views:
            assert weight.data_ptr() == views[name].data_ptr()
            assert weights.starts[name] % ALIGNED == 0


def test_groups_lie_apart_and_hold_their_own(weights):
    parts = sorted(weights.groups.values(), key=lambda part: part.start)
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    for name, start in weights.starts.items():
        part = weights.groups[by_shape(name, weights.module.get_parameter(name))]
        assert part.start <= start < part.stop


def test_gradients_add_up_to_those_of_the_module(weights):
    reference = Pair()
    x = inputs(weights)
    (reference(x.float()) * 2).backward()
    weights.gradient.fill_(torch.nan)  # the last update's
    for first in (True, False):
        weights.take_gradient(weights.call(x), first)
    for name, view in weights.views(weights.gradient).items():
        torch.testing.assert_close(view, reference.get_parameter(name).grad)


def test_a_part_that_the_backward_pass_computes_again_sees_the_same_weights(weights):
    x, reference = inputs(weights), Pair()
    reference(x.float()).backward()
    forward = weights.module.forward
    weights.module.forward = lambda x: checkpoint(forward, x, use_reentrant=False)
    weights.take_gradient(weights.call(x), first=True)
    for name, view in weights.views(weights.gradient).items():
        torch.testing.assert_close(view, reference.get_parameter(name).grad)


def test_a_weight_that_a_loss_does_not_depend_on_has_no_gradient(weights):
    weights.gradient.fill_(torch.nan)
    part = next(iter(weights._seen))
    weights.take_gradient(part.float().square().sum(), first=True)
    gradient, *others = weights.views(weights.gradient).values()
    torch.testing.assert_close(gradient, 2 * part.detach().float())
    assert not any(view.any() for view in others)


def test_the_module_has_its_own_weights_back_after_a_call(weights):
    before = dict(weights.module.named_parameters())
    weights.call(inputs(weights))
    assert all(weight is before[name] for name, weight in weights.module.named_parameters())


def test_the_forward_pass_sees_frozen_weights_that_were_restored():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    module[0].requires_grad_(False)
    weights = Weights(module, lambda name, weight: Group(0.0, 1.0), torch.bfloat16)
    with torch.no_grad():
        module[0].weight.fill_(3.0)
    before = weights.call(torch.ones(2, dtype=torch.bfloat16))
    weights.refresh(frozen=True)
    after = weights.call(torch.ones(2, dtype=torch.bfloat16))
    assert before.item() != after.item()
    expected = module.bfloat16()(torch.ones(2, dtype=torch.bfloat16))
    assert after.item() == pytest.approx(expected.item(), rel=1e-2)


def test_the_forward_pass_sees_a_change_once_it_is_told(weights):
    x = inputs(weights)
    before = weights.call(x).item()
    with torch.no_grad():
        weights.values.mul_(2.0)
    weights.refresh()
    assert weights.call(x).item() != pytest.approx(before)
