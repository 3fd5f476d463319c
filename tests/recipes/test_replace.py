"""Replacing tokens and detecting them."""

import pytest
import torch

from electra.errors import CheckpointError
from electra.model.pretrained import Pretrained, load
from electra.recipes.replace import Judged, detection_auc, replace_and_detect

TEXT = "the chef ate the meal and then the cat sat"


def test_one_token_in_seven_is_replaced_by_another(tiny_model):
    judged = replace_and_detect(tiny_model, TEXT)
    assert [token.original for token in judged] == TEXT.split()
    assert sum(token.replaced for token in judged) == 1  # 15 % of ten, rounded down


def test_the_probabilities_are_those_of_the_corrupted_text(tiny_model):
    judged = replace_and_detect(tiny_model, TEXT)
    ids = [tiny_model.tokenizer.backend.token_to_id(token.token) for token in judged]
    framed = torch.tensor([[tiny_model.tokenizer.cls_id, *ids, tiny_model.tokenizer.sep_id]])
    expected = tiny_model.network(framed).scores.sigmoid()[0, 1:-1].tolist()
    assert [token.probability for token in judged] == pytest.approx(expected, abs=1e-6)


def test_the_model_is_not_changed(tiny_folder):
    model = load(tiny_folder)
    torch.nn.init.constant_(model.network.head.score.bias, 0.7)
    before = model.detect(TEXT)
    replace_and_detect(model, TEXT)
    assert model.detect(TEXT) == before


def test_the_same_seed_gives_the_same_replacements(tiny_model):
    assert replace_and_detect(tiny_model, TEXT, 3) == replace_and_detect(tiny_model, TEXT, 3)
    assert replace_and_detect(tiny_model, TEXT, 3) != replace_and_detect(tiny_model, TEXT, 4)


def test_text_beyond_the_maximum_length_is_truncated(tiny_model):
    assert len(replace_and_detect(tiny_model, TEXT + " " + TEXT)) == tiny_model.encoder.config.max_length - 2


def test_without_a_generator_replacements_are_drawn_from_the_whole_vocabulary(tiny_model):
    alone = Pretrained(tiny_model.network, tiny_model.tokenizer)
    drawn = {t.token for seed in range(200) for t in replace_and_detect(alone, TEXT, seed) if t.replaced}
    assert len(drawn) > 0.75 * tiny_model.tokenizer.vocab_size


def test_a_model_without_discriminator_is_refused(tiny_model):
    with pytest.raises(CheckpointError, match="cannot detect replaced tokens: this model is a masked language model"):
        replace_and_detect(Pretrained(tiny_model.generator, tiny_model.tokenizer), TEXT)


def test_auc_counts_pairs():
    sentences = [[Judged("a", "b", 0.9), Judged("c", "c", 0.1)], [Judged("d", "e", 0.2), Judged("f", "f", 0.5)]]
    assert detection_auc(sentences) == 0.75
