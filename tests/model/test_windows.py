import numpy as np
import pytest
import torch

from electra.model.windows import LIMITS, batches

CPU = torch.device("cpu")
PAD = 0


def windows_of(*lengths: int) -> list[list[int]]:
    return [[number + 1] * length for number, length in enumerate(lengths)]


@pytest.mark.parametrize("lengths", [(3, 9, 5, 2), (1,), (4, 4, 4), tuple(range(1, 300))])
def test_every_window_is_a_row_of_one_batch(lengths):
    windows = windows_of(*lengths)
    rows = {}
    for batch in batches(windows, PAD, CPU):
        attention = torch.ones_like(batch.ids) if batch.attention is None else batch.attention
        assert torch.equal(attention, batch.ids.ne(PAD).long())
        rows |= {int(number): row[row != PAD].tolist() for number, row in zip(batch.windows, batch.ids, strict=True)}
    assert [rows[number] for number in range(len(windows))] == windows


def test_windows_of_one_length_need_no_attention():
    (batch,) = batches(windows_of(4, 4, 4), PAD, CPU)
    assert batch.attention is None


def test_nothing_gives_no_batches():
    assert list(batches([], PAD, CPU)) == []


def test_a_batch_ends_where_padding_costs_more_than_another_one():
    lengths = np.random.default_rng(0).integers(3, 128, 2000)
    found = list(batches(windows_of(*lengths), PAD, CPU))
    padding = [batch.ids.numel() - int(lengths[batch.windows].sum()) for batch in found]
    assert max(padding) <= LIMITS["cpu"].padding
    assert sum(padding) / lengths.sum() < 0.03
    assert len(found) < 128  # fewer than there are lengths


def test_a_batch_ends_where_memory_might():
    found = list(batches(windows_of(*[100] * 1000), PAD, CPU))
    assert max(batch.ids.numel() for batch in found) <= LIMITS["cpu"].tokens
    assert len(found) == 1 + 100_000 // LIMITS["cpu"].tokens


def test_a_window_longer_than_a_batch_may_be_has_one_of_its_own():
    (batch,) = batches(windows_of(LIMITS["cpu"].tokens + 1), PAD, CPU)
    assert batch.ids.shape == (1, LIMITS["cpu"].tokens + 1)


def test_sums_leave_padding_out():
    (batch,) = batches(windows_of(3, 2), PAD, CPU)
    assert batch.sums(torch.ones(2, 3, 4)).tolist() == [[3.0] * 4, [2.0] * 4]
