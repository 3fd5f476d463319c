"""Human-readable samples of a step, for every objective."""

import pytest
import torch

from electra.objectives.draws import draw
from electra.objectives.samples import SEQUENCES, TOKENS, take_samples

EVERY = ["electra", "mlm", "electra_15", "corrective", "replace_mlm", "all_tokens_mlm", "electric"]
DETECTING = ["electra", "electra_15", "corrective", "electric"]


@pytest.fixture
def taken(make_objective, make_batch, tokenizer):
    """Return a function from the name of an objective to a batch, its step and its samples."""

    def take(name, *tokens):
        batch = make_batch(*tokens)
        step = make_objective(f"objective.name={name}", "objective.mask_fraction=0.3")(
            batch, draw(1, 0, *batch.ids.shape, device="cpu")
        )
        return batch, step, take_samples(step, batch, tokenizer)

    return take


def spelled(tokenizer, ids):
    return [tokenizer.spell(number) for number in ids.tolist()]


@pytest.mark.parametrize("name", EVERY)
def test_a_sample_contains_the_text_and_what_the_network_read(taken, tokenizer, name):
    batch, step, (first, *_) = taken(name, 30, 20)
    assert first.original == spelled(tokenizer, batch.ids[0, 1:29])
    assert first.shown == spelled(tokenizer, step.shown[0, 1:29])
    assert 0 < sum(a != b for a, b in zip(first.original, first.shown, strict=True)) <= 10


@pytest.mark.parametrize("name", DETECTING)
def test_a_discriminator_gives_probabilities_for_tokens_that_count_in_its_loss(taken, name):
    _, step, (first, *_) = taken(name, 30, 20)
    assert (first.predicted is None) == (name != "corrective")
    expected = step.verdicts.scores[0, 1:29].sigmoid().tolist()
    counted = (step.verdicts.weights[0, 1:29] > 0).tolist()
    assert len(first.replaced) == 28
    for found, probability, counts in zip(first.replaced, expected, counted, strict=True):
        assert found == (pytest.approx(probability, abs=5e-4) if counts else None)
    assert (None in first.replaced) == (name == "electra_15")  # which only learns from masked tokens


@pytest.mark.parametrize("name", ["mlm", "replace_mlm"])
def test_a_masked_lm_gives_predictions_at_masked_tokens(taken, tokenizer, name):
    _, step, (first, *_) = taken(name, 30, 20)
    used = step.main.weights[0] > 0
    places = (step.main.positions[0, used] - 1).tolist()
    assert first.replaced is None
    assert [place for place, word in enumerate(first.predicted) if word is not None] == sorted(places)
    for place, token in zip(places, step.main.best[0, used].tolist(), strict=True):
        assert first.predicted[place] == tokenizer.spell(token)


def test_all_tokens_mlm_predicts_every_token(taken):
    _, _, (first, *_) = taken("all_tokens_mlm", 30, 20)
    assert None not in first.predicted


def test_the_longest_excerpts_are_taken_up_to_a_limit_in_a_fixed_order(taken):
    _, _, samples = taken("electra", 10, 60, 20, 64, 5, 20)
    assert len(samples) == SEQUENCES
    assert [len(sample.original) for sample in samples] == [TOKENS, TOKENS, 18, 18]


def test_a_sample_ends_with_its_document(make_objective, make_batch, tokenizer):
    batch = make_batch(30)
    batch.ids[0, 9:11] = torch.tensor([tokenizer.sep_id, tokenizer.cls_id])
    step = make_objective()(batch, draw(1, 0, 1, 30, device="cpu"))
    (only,) = take_samples(step, batch, tokenizer)
    assert len(only.original) == 8
