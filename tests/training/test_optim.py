import pytest
import torch
from torch import nn

from electra.config.load import load_config
from electra.training.optim import build_optimizer, clip_gradients


class Weights(nn.Module):
    """A matrix, which decays, and a vector, which does not."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.ones(3, 2))
        self.vector = nn.Parameter(torch.ones(4))


def optimizer_of(module, *overrides):
    return build_optimizer(module, load_config("small", [f"train.{override}" for override in overrides]).train)


def test_the_trace_is_the_originals():  # P20
    weights = Weights()
    optimizer = optimizer_of(weights, "learning_rate=1e-3")
    found = []
    for gradient in (0.5, 0.5, -0.25):
        weights.matrix.grad = torch.full_like(weights.matrix, gradient)
        weights.vector.grad = torch.full_like(weights.vector, gradient)
        optimizer.step()
        found.append((weights.matrix[0, 0].item(), weights.vector[0].item()))
    expected = [(0.9968279, 0.9968379), (0.9925686, 0.9925885), (0.9900061, 0.990036)]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-7)


def test_the_electra_optimizer_is_its_formula():
    torch.manual_seed(0)
    weights = nn.Linear(5, 3, bias=False).double()
    optimizer = optimizer_of(weights, "learning_rate=0.01", "weight_decay=0.1")
    value = weights.weight.detach().clone()
    mean, square = torch.zeros_like(value), torch.zeros_like(value)
    for step in range(50):
        gradient = torch.randn(value.shape, dtype=torch.double, generator=torch.Generator().manual_seed(step))
        rate = 0.01 * (1 - step / 50)
        optimizer.param_groups[0]["lr"] = rate
        weights.weight.grad = gradient.clone()
        optimizer.step()
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        value = value - rate * (mean / (square.sqrt() + 1e-6) + 0.1 * value)
    torch.testing.assert_close(weights.weight.detach(), value, rtol=1e-12, atol=1e-12)


def test_the_standard_optimizer_is_torchs():
    ours, theirs = Weights(), Weights()
    optimizers = (
        optimizer_of(ours, "optimizer=adamw", "learning_rate=1e-3", "weight_decay=0.1"),
        torch.optim.AdamW(
            [{"params": [theirs.matrix], "weight_decay": 0.1}, {"params": [theirs.vector], "weight_decay": 0.0}],
            lr=1e-3,
            eps=1e-6,
        ),
    )
    for step in range(5):
        for weights, optimizer in zip((ours, theirs), optimizers, strict=True):
            ((weights.matrix * step).sum() + weights.vector.square().sum()).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert torch.equal(ours.matrix, theirs.matrix)
    assert torch.equal(ours.vector, theirs.vector)


def test_frozen_and_unused_weights_stay():
    weights = Weights()
    weights.vector.requires_grad_(False)
    optimizer = optimizer_of(weights)
    optimizer.step()
    assert torch.equal(weights.matrix, torch.ones(3, 2))
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 1


def test_clipping_scales_the_whole_gradient():
    weights = Weights()
    weights.matrix.grad, weights.vector.grad = torch.full((3, 2), 2.0), torch.full((4,), -1.0)
    norm = clip_gradients(weights, 1.0)
    assert norm.item() == pytest.approx(28**0.5)
    assert weights.matrix.grad[0, 0].item() == pytest.approx(2 / 28**0.5, rel=1e-5)
    assert weights.vector.grad[0].item() == pytest.approx(-1 / 28**0.5, rel=1e-5)
