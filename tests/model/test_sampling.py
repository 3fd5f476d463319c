import pytest
import torch

from electra.model.ops import sample

DRAWS = 40_000


@pytest.fixture(scope="module")
def logits() -> torch.Tensor:
    return torch.randn(1, 1, 12, generator=torch.Generator().manual_seed(5)).expand(1, DRAWS, 12) * 1.5


@pytest.fixture(scope="module")
def uniform() -> torch.Tensor:
    return torch.rand(1, DRAWS, generator=torch.Generator().manual_seed(6))


def chi_square(found: torch.Tensor, expected: torch.Tensor) -> float:
    counts = torch.bincount(found.flatten(), minlength=len(expected)).double()
    wanted = expected.double() * found.numel()
    return ((counts - wanted).square() / wanted)[wanted > 0].sum().item()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_follow_the_softmax(logits, uniform, temperature):
    expected = (logits[0, 0] / temperature).softmax(-1)
    assert chi_square(sample(logits, uniform, temperature), expected) < 31.3  # 11 degrees of freedom, p = 0.001


def test_the_forbidden_token_never_comes_and_the_others_keep_their_law(logits, uniform):
    likeliest = logits[0, 0].argmax()
    found = sample(logits, uniform, forbidden=likeliest.expand(1, DRAWS))
    assert not (found == likeliest).any()
    expected = logits[0, 0].softmax(-1).clone()
    expected[likeliest] = 0
    assert chi_square(found, expected / expected.sum()) < 29.6  # 10 degrees of freedom


def test_not_even_the_largest_draw_gives_a_forbidden_last_token():
    logits = torch.randn(1, 500, 30_522, generator=torch.Generator().manual_seed(1))
    largest = torch.full((1, 500), 1 - 2**-24)
    assert (sample(logits, largest, forbidden=torch.full((1, 500), 30_521)) < 30_521).all()


def test_the_same_draws_give_the_same_samples(logits, uniform):
    assert torch.equal(sample(logits, uniform), sample(logits, uniform))


def test_no_gradient_passes_through_samples(uniform):
    assert not sample(torch.zeros(1, DRAWS, 4, requires_grad=True), uniform).requires_grad
