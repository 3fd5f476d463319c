"""Statistics of the kernels' dropout."""

import pytest
import torch

from . import plain


@pytest.fixture
def dropped(seeds):
    return (~plain.kept(seeds.cpu(), torch.Size([2000, 512]), 0.1)).double()


def test_the_dropped_share_is_right_overall_per_row_and_per_column(dropped):
    assert dropped.mean().item() == pytest.approx(0.1, abs=0.002)
    assert dropped.mean(1).std().item() == pytest.approx((0.09 / 512) ** 0.5, rel=0.1)
    assert dropped.mean(0).std().item() == pytest.approx((0.09 / 2000) ** 0.5, rel=0.2)


def test_rows_and_columns_are_uncorrelated(dropped):
    for table in (dropped, dropped.t()):
        correlation = torch.corrcoef(table[:300])
        off = correlation[~torch.eye(300, dtype=torch.bool)]
        expected = table.size(1) ** -0.5
        assert off.std().item() == pytest.approx(expected, rel=0.03)
        assert off.abs().max().item() < 6 * expected


def test_different_seeds_drop_different_numbers(seeds, dropped):
    for other in (seeds.cpu() + torch.tensor([1, 0]), seeds.cpu() + torch.tensor([0, 1])):
        again = (~plain.kept(other.int(), torch.Size([2000, 512]), 0.1)).double()
        assert torch.corrcoef(torch.stack([dropped.flatten(), again.flatten()]))[0, 1].abs().item() < 0.005
