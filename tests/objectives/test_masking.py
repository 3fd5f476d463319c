"""Masking counts and rates of the original, and statistics of the draws."""

import pytest
import torch

from electra.config.objectives import MLMObjective
from electra.objectives.draws import draw
from electra.objectives.masking import Masker, put_back, slots


def mask(tokenizer, batch, number=0, **changes):
    return Masker(MLMObjective(**changes), tokenizer)(batch, draw(0, number, *batch.ids.shape, device="cpu"))


def chosen_times(masked, length):
    """Return how often each position of each row was chosen."""
    times = torch.zeros(len(masked.positions), length)
    return times.scatter_add(1, masked.positions, masked.weights)


@pytest.mark.parametrize(("length", "fraction", "count"), [(128, 0.15, 19), (256, 0.15, 39), (512, 0.15, 79)])
def test_the_number_of_slots_equals_the_original(length, fraction, count):
    assert slots(fraction, length) == count
    assert slots(0.25, 512) == 130


def test_there_are_never_more_slots_than_tokens():
    assert slots(0.999, 512) == 512
    assert slots(0.15, 1) == 1


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [(5, 1), (10, 2), (30, 4), (50, 8), (64, 10), (100, 15), (126, 19), (127, 19), (128, 19), (300, 45), (512, 77)],
)
@pytest.mark.parametrize("draw_kind", ["distinct", "with_replacement"])
def test_the_number_of_masked_tokens_equals_the_original(tokenizer, make_batch, tokens, wanted, draw_kind):
    masked = mask(tokenizer, make_batch(tokens, length=max(tokens, 128)), mask_draw=draw_kind)
    assert masked.weights.sum() == wanted


def test_drawing_19_positions_with_replacement_chooses_17_7_distinct_ones(tokenizer, make_batch):
    batch = make_batch(*[127] * 2000)  # 125 candidates
    masked = mask(tokenizer, batch, mask_draw="with_replacement")
    distinct = (chosen_times(masked, 127) > 0).sum(1).float()
    assert distinct.mean().item() == pytest.approx(17.692, abs=0.1)


def test_without_replacement_all_positions_are_distinct(tokenizer, make_batch):
    masked = mask(tokenizer, make_batch(*[128] * 50))
    assert (chosen_times(masked, 128).sum(1) == 19).all()
    assert chosen_times(masked, 128).max() == 1


@pytest.mark.parametrize(("draw_kind", "share"), [("distinct", 0.85), ("with_replacement", 0.859)])
def test_the_share_of_mask_tokens_equals_the_original(tokenizer, make_batch, draw_kind, share):
    batch = make_batch(*[127] * 2000)
    masked = mask(tokenizer, batch, mask_draw=draw_kind)
    chosen = chosen_times(masked, 127) > 0
    hidden = masked.ids == tokenizer.mask_id
    assert not (hidden & ~chosen).any()
    assert (hidden.sum() / chosen.sum()).item() == pytest.approx(share, abs=0.01)
    assert torch.equal(masked.ids[~hidden], batch.ids[~hidden])


def test_all_chosen_tokens_can_become_mask_tokens(tokenizer, make_batch):
    masked = mask(tokenizer, make_batch(*[64] * 20), mask_token_fraction=1.0)
    assert torch.equal(masked.ids == tokenizer.mask_id, chosen_times(masked, 64) > 0)


@pytest.mark.parametrize("changes", [{}, {"mask_draw": "with_replacement"}, {"whole_words": True}])
def test_special_tokens_and_padding_are_never_masked(tokenizer, make_batch, changes):
    batch = make_batch(*range(3, 40), length=64)
    batch.ids[:, 1] = tokenizer.mask_id
    for number in range(20):
        masked = mask(tokenizer, batch, number, mask_fraction=0.5, mask_token_fraction=1.0, **changes)
        specials = [tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id, tokenizer.pad_id]
        chosen = masked.originals[masked.weights > 0]
        assert len(chosen)
        assert not torch.isin(chosen, torch.tensor(specials)).any()


def test_unknown_tokens_may_be_masked(tokenizer, make_batch):
    batch = make_batch(20)
    batch.ids[:, 1:-1] = tokenizer.unk_id
    assert mask(tokenizer, batch).weights.sum() == 3


@pytest.mark.parametrize("changes", [{}, {"mask_draw": "with_replacement"}, {"whole_words": True}])
def test_rows_with_nothing_to_mask_are_unchanged(tokenizer, make_batch, changes):
    batch = make_batch(2, 0, 16)
    masked = mask(tokenizer, batch, **changes)
    assert masked.weights[:2].sum() == 0
    assert masked.weights[2].sum() > 0
    assert torch.equal(masked.ids[:2], batch.ids[:2])
    assert masked.positions.max() < 16


def test_masked_tokens_can_be_put_back(tokenizer, make_batch):
    batch = make_batch(*range(5, 60), length=64)
    for kind in ("distinct", "with_replacement"):
        masked = mask(tokenizer, batch, mask_draw=kind)
        assert torch.equal(put_back(masked.ids, masked.positions, masked.originals, masked.weights), batch.ids)


@pytest.mark.parametrize("draw_kind", ["distinct", "with_replacement"])
def test_every_position_is_equally_likely(tokenizer, make_batch, draw_kind):
    batch = make_batch(*[34] * 8000)  # 32 candidates, 5 of them chosen
    times = chosen_times(mask(tokenizer, batch, mask_draw=draw_kind), 34)[:, 1:-1].sum(0)
    expected = 8000 * 5 / 32
    assert times.sum() == 8000 * 5
    # Without replacement the counts vary less than the chi-square distribution, by a factor of 1 - 5/32.
    spread = (times - expected).square().sum() / expected / (1 - 5 / 32 if draw_kind == "distinct" else 1)
    assert 12 < spread < 61.1  # 31 degrees of freedom, p = 0.001 on both sides


def test_different_steps_mask_different_tokens(tokenizer, make_batch):
    batch = make_batch(128)
    ours, theirs = (chosen_times(mask(tokenizer, batch, number), 128) for number in (0, 1))
    assert (ours * theirs).sum() < 10


def test_words_are_masked_completely_or_not_at_all(tokenizer, make_batch):
    batch = make_batch(*[64] * 200)
    starts = torch.tensor(tokenizer.word_starts())[batch.ids]
    candidates = (batch.ids != tokenizer.cls_id) & (batch.ids != tokenizer.sep_id)
    starts[:, 1] = True  # the token after [CLS] always begins a word
    words = (starts | ~candidates).cumsum(1)
    masked = mask(tokenizer, batch, whole_words=True)
    chosen = chosen_times(masked, 64) > 0
    assert chosen.sum(1).max() <= 10
    assert chosen.sum(1).float().mean() > 7
    for row in range(200):
        for word in words[row].unique():
            of_word = chosen[row, words[row] == word]
            assert of_word.unique().numel() == 1 or len(of_word) > slots(0.15, 64)


def test_long_words_are_masked_about_as_often_as_short_ones(tokenizer, make_batch):
    batch = make_batch(*[128] * 2000)
    word, piece = (tokenizer.backend.token_to_id(name) for name in ("the", "##a"))
    batch.ids[:, 1:-1] = torch.tensor([word, word, piece, piece]).repeat(32)[:126]
    masked = mask(tokenizer, batch, whole_words=True)
    rates = (chosen_times(masked, 128) > 0).float().mean(0)
    single, first_of_three = rates[1:-1:4].mean(), rates[2:-1:4].mean()
    assert single == pytest.approx(0.15, abs=0.01)
    assert first_of_three == pytest.approx(0.14, abs=0.01)  # a word that does not fit any more is a long one


def test_whole_words_are_masked_in_a_sequence_that_starts_inside_a_word(tokenizer, make_batch):
    batch = make_batch(*[32] * 50)
    batch.ids[:, 0] = tokenizer.backend.token_to_id("##a")
    masked = mask(tokenizer, batch, whole_words=True)
    assert (chosen_times(masked, 32)[:, 0] > 0).any()


def test_a_text_without_spaces_is_masked_as_much_as_another(tokenizer, make_batch):
    batch = make_batch(*[128] * 200)
    batch.ids[:, 2:-1] = tokenizer.backend.token_to_id("##a")  # the text is one word of 126 pieces
    masked = mask(tokenizer, batch, whole_words=True)
    assert (masked.weights.sum(1) == 19).all()


def test_putting_back_equals_the_original(tokenizer):
    ids = torch.tensor([[101, 11, 12, 13, 14, 15, 102, 0], [101, 21, 22, 23, 24, 25, 26, 102]])
    tokens = torch.tensor([[1000, 1003, 77, 999], [5, 10, 20, 31]])
    positions = torch.tensor([[2, 2, 4, 0], [1, 6, 6, 6]])
    weights = torch.tensor([[1.0, 1, 1, 0], [1, 1, 1, 1]])  # the original marks an unused slot with position 0
    assert put_back(ids, positions, tokens, weights).tolist() == [
        [101, 11, 1001, 13, 77, 15, 102, 0],
        [101, 5, 22, 23, 24, 25, 20, 102],
    ]
