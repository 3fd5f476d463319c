import torch

from electra.data.mix import mix
from electra.objectives.draws import Draws, draw


def numbers(draws: Draws) -> torch.Tensor:
    return torch.stack([draws.order, draws.keep, draws.sample])


def correlation(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return torch.corrcoef(torch.stack([ours.flatten(), theirs.flatten()]))[0, 1].item()


def test_the_same_seed_and_step_give_the_same_numbers():
    assert torch.equal(numbers(draw(4, 7, 3, 16, device="cpu")), numbers(draw(4, 7, 3, 16, device="cpu")))


def test_the_parts_of_a_batch_draw_the_same_numbers_as_the_full_batch():
    full = numbers(draw(4, 7, 12, 16, device="cpu"))
    parts = [numbers(draw(4, 7, 3, 16, part=part, parts=4, device="cpu")) for part in range(4)]
    assert torch.equal(torch.cat(parts, dim=1), full)


def test_steps_seeds_and_decisions_are_independent():
    first = numbers(draw(4, 7, 64, 128, device="cpu"))
    for other in (draw(4, 8, 64, 128, device="cpu"), draw(5, 7, 64, 128, device="cpu")):
        assert abs(correlation(first, numbers(other))) < 0.03  # 5 standard deviations for 24,576 independent pairs
    assert abs(correlation(first[0], first[1])) < 0.055
    assert abs(correlation(first[1], first[2])) < 0.055


def test_the_numbers_are_uniform():
    values = numbers(draw(0, 0, 100, 100, device="cpu")).flatten()
    assert 0 <= values.min() <= values.max() < 1
    counts = torch.histc(values, bins=20, min=0, max=1)
    expected = len(values) / 20
    assert ((counts - expected).square() / expected).sum() < 43.8  # chi-square, 19 degrees of freedom, p = 0.001


def test_mixing_depends_on_the_order_and_on_every_number():
    assert len({mix(1, 2), mix(2, 1), mix(1, 2, 0), mix(3), mix(0, 3)}) == 5
    assert all(0 <= mix(number, 1) < 2**63 for number in range(1000))
    assert len({mix(0, number) for number in range(10_000)}) == 10_000
