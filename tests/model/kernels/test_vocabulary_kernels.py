"""The loss over the vocabulary and sampling from it, against the reference."""

import math

import pytest
import torch

from electra.model.kernels import vocabulary
from electra.model.kernels.vocabulary import cross_entropy, logits, sample

from . import plain


@pytest.fixture
def rows(normal):
    return (normal(6, 5003) * 2).detach().requires_grad_()


@pytest.fixture
def targets(device):
    return torch.randint(0, 5003, (6,), generator=torch.Generator().manual_seed(0)).to(device)


def uniform(count, device):
    return torch.rand(count, generator=torch.Generator().manual_seed(1)).to(device)


def test_loss_most_likely_token_and_gradient_equal_the_reference(rows, targets, agree):
    (expected, likeliest), (nll, best) = plain.cross_entropy(rows, targets), cross_entropy(rows, targets)
    agree([nll], [expected])
    assert torch.equal(best, likeliest)
    weights = torch.linspace(0, 2, 6, device=rows.device)
    agree(torch.autograd.grad((nll * weights).sum(), [rows]), torch.autograd.grad((expected * weights).sum(), [rows]))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("forbids", [False, True])
def test_samples_invert_the_cumulative_distribution_at_their_uniform_number(rows, targets, temperature, forbids):
    """Up to float32 rounding: at the border of two neighbors, either may be sampled."""
    drawn = uniform(6, rows.device)
    forbidden = targets if forbids else None
    found = sample(rows.detach(), drawn, temperature, forbidden)
    heat = rows.detach().double() / temperature
    if forbids:
        heat = heat.scatter(1, targets[:, None], -torch.inf)
        assert not (found == targets).any()
    share = heat.softmax(-1)
    upper = share.cumsum(-1).gather(1, found[:, None]).squeeze(1)
    lower = upper - share.gather(1, found[:, None]).squeeze(1)
    assert (lower - 1e-5 <= drawn).all()
    assert (drawn <= upper + 1e-5).all()


def test_nothing_is_sampled_from_a_completely_forbidden_block(device):
    last = vocabulary.BLOCK  # the only token of its block
    heat, forbidden = torch.zeros(3, last + 1, device=device), torch.full((3,), last, device=device)
    found = sample(heat, torch.tensor([0.0, 0.5, 1.0 - 2**-24], device=device), 1.0, forbidden)
    assert found.tolist() == [0, last // 2, last - 1]


def test_uniform_numbers_need_not_be_contiguous(device):
    heat, apart = torch.zeros(5, 40, device=device), uniform(5 * 7, device).view(5, 7)[:, 0]
    assert sample(heat, apart, 1.0, None).equal(sample(heat, apart.clone(), 1.0, None))


def test_samples_follow_the_distribution(device):
    heat = torch.tensor([0.0, 1.0, 2.0, 0.5, -1.0], device=device).repeat(50, 1)
    found = sample(heat, (torch.arange(50, device=device) + 0.5) / 50, 1.0, None)
    shares = torch.bincount(found, minlength=5) / 50
    assert torch.allclose(shares, heat[0].softmax(-1), atol=1 / 50)


@pytest.mark.parametrize("through_the_kernel", [True, False])
@pytest.mark.parametrize("size", [1003, 30])
def test_logits_of_a_vocabulary_of_any_size(normal, agree, dtype, device, through_the_kernel, size, monkeypatch):
    if dtype == torch.bfloat16 and device.type == "cpu":
        pytest.skip("bf16 products on a CPU round differently")
    unwritten = lambda logits, rows, columns: logits.new_full((rows, columns), math.nan)  # noqa: E731
    monkeypatch.setattr(vocabulary, "empty_rows", unwritten)
    hidden, words, bias = normal(2, 9, 16), normal(size, 16), normal(size)
    wanted = torch.randint(0, size, (18,), generator=torch.Generator().manual_seed(0)).to(device)
    everything = [hidden, words, bias]
    found = logits(hidden, words, bias)
    expected = torch.nn.functional.linear(hidden.float(), words.float(), bias.float())
    agree([found], [expected])
    loss = cross_entropy if through_the_kernel else plain.cross_entropy
    ours, theirs = (
        loss(found.flatten(0, 1), wanted)[0].sum(),
        plain.cross_entropy(expected.flatten(0, 1), wanted)[0].sum(),
    )
    agree(torch.autograd.grad(ours, everything), torch.autograd.grad(theirs, everything))
