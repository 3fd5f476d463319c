import pytest
import torch
from torch import nn

from electra.config.load import load_config
from electra.training.optim import build_optimizer


class Matrix(nn.Module):
    """A matrix, which decays, and a vector, which does not."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.ones(3, 2))
        self.vector = nn.Parameter(torch.ones(4))


def optimizer_of(module, *overrides, **settings):
    config = load_config("small", [f"train.{override}" for override in overrides]).train
    return build_optimizer(module, config, **settings)


def update(optimizer, rate, parts=1, **gradients):
    """Take one step with given gradients."""
    views = optimizer.weights.views(optimizer.weights.gradient)
    for name, gradient in gradients.items():
        views[name].copy_(torch.as_tensor(gradient))
    optimizer.rate.fill_(rate)
    optimizer.count(parts, first=True)
    optimizer.step()


def test_the_trace_is_the_originals():
    module = Matrix()
    optimizer = optimizer_of(module, "clip_norm=100.0")
    found = []
    for gradient in (0.5, 0.5, -0.25):
        update(optimizer, 1e-3, matrix=gradient, vector=gradient)
        found.append((module.matrix[0, 0].item(), module.vector[0].item()))
    expected = [(0.9968279, 0.9968379), (0.9925686, 0.9925885), (0.9900061, 0.990036)]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-7)


def test_the_norm_of_a_long_gradient_keeps_its_digits():
    module = nn.Linear(2**12, 2**12, bias=False)
    optimizer = optimizer_of(module)
    torch.manual_seed(0)
    gradient = torch.randn(2**12, 2**12)
    update(optimizer, 1e-3, weight=gradient)
    assert optimizer.norm.item() == pytest.approx(gradient.double().norm().item(), rel=1e-5)


def test_the_electra_optimizer_is_its_formula():
    torch.manual_seed(0)
    module = nn.Linear(5, 3, bias=False).double()
    optimizer = optimizer_of(module, "weight_decay=0.1", "clip_norm=1000.0")
    value = module.weight.detach().clone()
    mean, square = torch.zeros_like(value), torch.zeros_like(value)
    for step in range(50):
        gradient = torch.randn(value.shape, dtype=torch.double, generator=torch.Generator().manual_seed(step))
        rate = 0.01 * (1 - step / 50)
        update(optimizer, rate, weight=gradient)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        value = value - rate * (mean / (square.sqrt() + 1e-6) + 0.1 * value)
    torch.testing.assert_close(module.weight.detach(), value, rtol=1e-6, atol=1e-7)  # the rate is a 32-bit number


def test_the_standard_optimizer_is_torchs():
    ours, theirs = Matrix(), Matrix()
    optimizer = optimizer_of(ours, "optimizer=adamw", "weight_decay=0.1", "clip_norm=1000.0")
    reference = torch.optim.AdamW(
        [{"params": [theirs.matrix], "weight_decay": 0.1}, {"params": [theirs.vector], "weight_decay": 0.0}],
        lr=1e-3,
        eps=1e-6,
    )
    for step in range(5):
        ((theirs.matrix * step).sum() + theirs.vector.square().sum()).backward()
        update(optimizer, 1e-3, matrix=theirs.matrix.grad, vector=theirs.vector.grad)
        reference.step()
        reference.zero_grad()
    torch.testing.assert_close(ours.matrix, theirs.matrix, rtol=1e-6, atol=0)
    torch.testing.assert_close(ours.vector, theirs.vector, rtol=1e-6, atol=0)


def test_frozen_weights_stay():
    module = Matrix()
    module.vector.requires_grad_(False)
    optimizer = optimizer_of(module)
    update(optimizer, 0.1, matrix=1.0)
    assert list(optimizer.weights.starts) == ["matrix"]
    assert torch.equal(module.vector, torch.ones(4))
    assert not torch.equal(module.matrix, torch.ones(3, 2))


def test_the_whole_gradient_is_clipped():
    clipped, scaled = Matrix(), Matrix()
    limited, free = optimizer_of(clipped), optimizer_of(scaled, "clip_norm=100.0")
    norm = 28**0.5
    update(limited, 1e-3, matrix=2.0, vector=-1.0)
    update(free, 1e-3, matrix=2 / norm, vector=-1 / norm)
    assert limited.norm.item() == pytest.approx(norm)
    torch.testing.assert_close(
        limited.means, free.means
    )  # the first step itself does not depend on a gradient's length
    torch.testing.assert_close(limited.squares, free.squares)


def test_the_gradient_of_several_parts_is_their_mean():
    whole, alone = Matrix(), Matrix()
    together, single = optimizer_of(whole), optimizer_of(alone)
    update(together, 1e-3, parts=4, matrix=0.4, vector=0.8)
    update(single, 1e-3, matrix=0.1, vector=0.2)
    assert together.norm.item() == pytest.approx(single.norm.item())
    torch.testing.assert_close(together.means, single.means)


def test_a_step_names_all_that_it_writes_to():
    optimizer = optimizer_of(Matrix(), working=torch.bfloat16)
    tensors = [
        value for part in (optimizer, optimizer.weights) for value in vars(part).values() if torch.is_tensor(value)
    ]
    tensors.append(optimizer.weights.copies.vector)
    before = [tensor.clone() for tensor in tensors]
    update(optimizer, 1e-2, parts=4, matrix=3.0, vector=2.0)
    optimizer.step()
    named = {tensor.data_ptr() for tensor in optimizer.changes()}
    given = {tensor.data_ptr() for tensor in (optimizer.rate, optimizer.parts)}  # before it
    changed = {tensor.data_ptr() for tensor, old in zip(tensors, before, strict=True) if not torch.equal(tensor, old)}
    assert optimizer.weights.gradient.data_ptr() in changed
    assert changed - given <= named


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing_but_the_counts(bad):
    module = Matrix()
    optimizer = optimizer_of(module, "optimizer=adamw")
    update(optimizer, 1e-3, matrix=1.0, vector=1.0)
    before = {name: tensor.clone() for name, tensor in optimizer.tensors().items()} | {"value": module.matrix.clone()}
    update(optimizer, 1e-3, matrix=1.0, vector=[bad, 1.0, 1.0, 1.0])
    update(optimizer, 1e-3, matrix=bad, vector=1.0)
    after = optimizer.tensors() | {"value": module.matrix}
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert (optimizer.skipped.item(), optimizer.skipped_in_a_row.item()) == (2, 2)
    update(optimizer, 1e-3, matrix=1.0, vector=1.0)
    assert (optimizer.skipped.item(), optimizer.skipped_in_a_row.item()) == (2, 0)


def test_groups_learn_at_their_own_share_of_the_rate():
    module = Matrix()
    optimizer = optimizer_of(module, "weight_decay=0.0", rate=lambda name: 0.5 if name == "vector" else 1.0)
    update(optimizer, 1e-3, matrix=0.1, vector=0.1)
    fast, slow = 1 - module.matrix[0, 0].item(), 1 - module.vector[0].item()
    assert slow == pytest.approx(fast / 2, rel=1e-3)
