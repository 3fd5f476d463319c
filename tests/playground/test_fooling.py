import random

import pytest
import torch

from electra.errors import CheckpointError, DataError
from electra.model.pretrained import Pretrained
from electra.playground.fooling import (
    LONGEST_SENTENCE,
    MOST_HIDDEN,
    PROPOSALS,
    Exchange,
    candidates,
    describe,
    exchange,
    pick_places,
    play_round,
    read_sentence,
    show_verdict,
)

TEXT = "the chef ate a meal"


def test_a_piece_that_continues_a_word_is_marked(tiny_model):
    assert read_sentence(tiny_model, "the ox sat").labels == ["the", "o", "…x", "sat"]


def test_a_sentence_is_cut_to_what_the_model_reads_at_once(tiny_model):
    sentence = read_sentence(tiny_model, "cat " * 40)
    assert sentence.shortened
    assert len(sentence.ids) == len(sentence.labels) == tiny_model.window
    assert "Only the first 14 tokens are read" in show_verdict(play_round(tiny_model, "cat " * 40, [0]))


def test_a_sentence_that_is_too_long_is_refused(tiny_model):
    with pytest.raises(DataError, match="501 characters"):
        read_sentence(tiny_model, "a" * (LONGEST_SENTENCE + 1))


def test_candidates_are_the_generators_best_and_include_the_original(tiny_model):
    sentence = read_sentence(tiny_model, TEXT)
    (found,) = candidates(tiny_model, sentence, [1])
    ids = torch.tensor([[tiny_model.tokenizer.cls_id, *sentence.ids, tiny_model.tokenizer.sep_id]])
    ids[0, 2] = tiny_model.tokenizer.mask_id
    with torch.no_grad():
        expected = tiny_model.generator(ids, None, None, torch.tensor([[2]])).logits[0, 0].softmax(-1)
    for candidate in found:
        assert candidate.probability == pytest.approx(expected[candidate.id].item(), abs=1e-6)
    assert [candidate.original for candidate in found].count(True) == 1
    others = [candidate.probability for candidate in found if not candidate.original]
    assert len(others) >= PROPOSALS
    assert others == sorted(others, reverse=True)


def test_special_tokens_are_never_proposed(tiny_model):
    tokenizer = tiny_model.tokenizer
    specials = {tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id}
    for row in candidates(tiny_model, read_sentence(tiny_model, TEXT), range(4)):
        assert not specials & {candidate.id for candidate in row}


def test_probabilities_are_those_of_the_sentence_with_the_replacement(tiny_model):
    sentence = read_sentence(tiny_model, TEXT)
    soup = tiny_model.tokenizer.backend.token_to_id("soup")
    before, after = exchange(tiny_model, sentence, {4: soup})
    assert "".join(token.before + token.text for token in after) == "the chef ate a soup"
    assert [token.exchanged for token in after] == [False] * 4 + [True]
    chances = [token.probability for token in tiny_model.detect("the chef ate a soup")]
    assert [token.probability for token in after] == chances
    assert [token.probability for token in before] == [token.probability for token in tiny_model.detect(TEXT)]


def test_a_piece_that_replaces_a_word_is_joined_to_the_previous_word(tiny_model):
    piece = tiny_model.tokenizer.backend.token_to_id("##s")
    _, after = exchange(tiny_model, read_sentence(tiny_model, TEXT), {2: piece})
    assert "".join(token.before + token.text for token in after) == "the chefs a meal"


def test_without_a_choice_the_likeliest_other_token_is_taken(tiny_model):
    played = play_round(tiny_model, TEXT, [1])
    best = next(candidate for candidate in played.offered[0] if not candidate.original)
    assert played.chosen == [best.id]
    assert played.after[1].exchanged


def test_only_the_first_few_positions_are_hidden(tiny_model):
    assert play_round(tiny_model, TEXT, [4, 3, 2, 1, 0]).places == (4, 3, 2, 1)


@pytest.mark.parametrize(
    ("after", "exchanged", "verdict"), [(0.9, True, "Caught"), (0.1, True, "Fooled"), (0.9, False, "Unchanged")]
)
def test_the_outcome_is_named(after, exchanged, verdict):
    assert Exchange("meal", "car", 0.2, after, exchanged).verdict == verdict


def test_the_verdict_names_both_words_and_both_probabilities(tiny_model):
    sentence = read_sentence(tiny_model, TEXT)
    soup = tiny_model.tokenizer.backend.token_to_id("soup")
    html = show_verdict(play_round(tiny_model, TEXT, [4], [soup]))
    assert "<b>meal</b> → <b>soup</b>" in html
    original = play_round(tiny_model, TEXT, [4], [sentence.ids[4]])
    assert "Unchanged" in show_verdict(original)
    (offered,) = original.offered
    assert next(describe(candidate) for candidate in offered if candidate.original).endswith(", the original")


def test_places_are_picked_at_random_and_within_bounds(tiny_model):
    picked = [tuple(pick_places(tiny_model, "the cat sat " * 4, random.Random(seed))) for seed in range(20)]
    assert all(len(places) == 2 <= MOST_HIDDEN and max(places) < 12 for places in picked)
    assert len(set(picked)) > 10
    assert pick_places(tiny_model, "", random.Random(0)) == []


def test_an_empty_sentence_is_asked_for(tiny_model):
    assert "Type a sentence" in show_verdict(play_round(tiny_model, "", []))


def test_without_a_generator_nothing_is_proposed(tiny_model):
    alone = Pretrained(tiny_model.network, tiny_model.tokenizer)
    with pytest.raises(CheckpointError, match="generator"):
        alone.propose([7], [0])
