import numpy as np
import pytest
import torch

from electra.model.windows import LIMITS, batches

CPU = torch.device("cpu")
PAD = 0


def windows_of(*lengths: int) -> list[list[int]]:
    return [[number + 1] * length for number, length in enumerate(lengths)]


@pytest.mark.parametrize("lengths", [(3, 9, 5, 2), (1,), (4, 4, 4), tuple(range(1, 300))])
def test_every_window_is_a_row_of_exactly_one_batch(lengths):
    windows = windows_of(*lengths)
    rows = {}
    for batch in batches(windows, PAD, CPU):
        attention = torch.ones_like(batch.ids) if batch.attention is None else batch.attention
        assert torch.equal(attention, batch.ids.ne(PAD).long())
        rows |= {int(number): row[row != PAD].tolist() for number, row in zip(batch.windows, batch.ids, strict=True)}
    assert [rows[number] for number in range(len(windows))] == windows


def test_windows_of_equal_length_need_no_attention_mask():
    (batch,) = batches(windows_of(4, 4, 4), PAD, CPU)
    assert batch.attention is None


def test_no_windows_give_no_batches():
    assert list(batches([], PAD, CPU)) == []


def test_a_batch_ends_when_padding_costs_more_than_another_batch():
    lengths = np.random.default_rng(0).integers(3, 128, 2000)
    found = list(batches(windows_of(*lengths), PAD, CPU))
    padding = [batch.ids.numel() - int(lengths[batch.windows].sum()) for batch in found]
    assert max(padding) <= LIMITS["cpu"].padding
    assert sum(padding) / lengths.sum() < 0.03
    assert len(found) < 128  # fewer than one batch per length


def test_a_batch_ends_at_the_token_limit():
    found = list(batches(windows_of(*[100] * 1000), PAD, CPU))
    assert max(batch.ids.numel() for batch in found) <= LIMITS["cpu"].tokens
    assert len(found) == 1 + 100_000 // LIMITS["cpu"].tokens


def test_a_window_longer_than_the_token_limit_gets_its_own_batch():
    (batch,) = batches(windows_of(LIMITS["cpu"].tokens + 1), PAD, CPU)
    assert batch.ids.shape == (1, LIMITS["cpu"].tokens + 1)


def test_sums_ignore_padding():
    (batch,) = batches(windows_of(3, 2), PAD, CPU)
    assert batch.sums(torch.ones(2, 3, 4)).tolist() == [[3.0] * 4, [2.0] * 4]
