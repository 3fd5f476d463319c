import math

import pytest
import torch

from electra.objectives.base import Predictions, Step, Term, Verdicts, detect
from electra.objectives.metrics import auc, summarize

NOTHING = torch.empty(0)  # metrics do not depend on what the network read


def loss(value: float) -> tuple[Term]:
    return (Term(1.0, torch.tensor(value), torch.tensor(1.0)),)


def brute_force(scores, positive):
    pairs = [(ours > theirs) + 0.5 * (ours == theirs) for ours in scores[positive] for theirs in scores[~positive]]
    return float(sum(pairs) / len(pairs))


@pytest.mark.parametrize("seed", range(5))
def test_auc_is_the_share_of_pairs_in_the_right_order(seed):
    source = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 8, (60,), generator=source).float()  # with many ties
    positive = torch.rand(60, generator=source) < 0.3
    assert auc(scores, positive) == pytest.approx(brute_force(scores, positive))


def test_nan_scores_make_the_metrics_nan():
    scores = torch.tensor([[0.5, math.nan, -1.0, 2.0]])
    replaced = torch.tensor([[True, True, False, False]])
    verdicts = Verdicts(scores, replaced, torch.ones(1, 4), torch.ones(1, 4))
    found = summarize([Step(loss(1.0), torch.zeros(1, 4), verdicts=verdicts)])
    for name in ("accuracy", "precision", "recall", "auc"):
        assert math.isnan(found[f"discriminator_{name}"])


def test_auc_is_one_half_if_a_class_is_missing():
    assert auc(torch.randn(4), torch.zeros(4, dtype=torch.bool)) == 0.5
    assert auc(torch.randn(4), torch.ones(4, dtype=torch.bool)) == 0.5


def test_padding_does_not_raise_auc():  # 0.8333 if padding counts as true negatives, 0.5 without it
    scores = torch.tensor([[0.7, 0.2, 0.7, 0.2, 0.0, 0.0, 0.0, 0.0]])
    replaced = torch.tensor([[1, 1, 0, 0, 0, 0, 0, 0]]).bool()
    weights = torch.tensor([[1.0, 1, 1, 1, 0, 0, 0, 0]])
    found = summarize([Step(loss(1.0), NOTHING, verdicts=detect(scores, replaced, weights)[1])])
    assert found["discriminator_auc"] == pytest.approx(0.5)
    assert auc(scores.flatten(), replaced.flatten()) == pytest.approx(0.8333, abs=1e-4)


def test_verdicts_of_several_steps_are_combined():
    steps = [
        Step(
            loss(1.0), NOTHING, verdicts=detect(torch.tensor([[2.0, -1, 9]]), torch.tensor([[True, True, True]]), w)[1]
        )
        for w in (torch.tensor([[1.0, 1, 0]]), torch.tensor([[1.0, 0, 0]]))
    ]
    steps.append(
        Step(loss(4.0), NOTHING, verdicts=detect(torch.ones(1, 1), torch.zeros(1, 1).bool(), torch.ones(1, 1))[1])
    )
    found = summarize(steps)
    assert found["loss"] == 2.0
    assert summarize(steps, [0.5, 0.5, 1.0])["loss"] == 2.5
    assert found["discriminator_accuracy"] == 0.5
    assert found["discriminator_precision"] == pytest.approx(2 / 3)
    assert found["discriminator_recall"] == pytest.approx(2 / 3)
    assert found["replaced_fraction"] == 0.75


@pytest.mark.parametrize(("score", "accuracy"), [(-0.1, 1.0), (0.0, 1.0), (0.1, 0.0)])
def test_a_score_of_zero_means_original(score, accuracy):
    _, verdicts = detect(torch.full((1, 3), score), torch.zeros(1, 3).bool(), torch.ones(1, 3))
    assert summarize([Step(loss(0.0), NOTHING, verdicts=verdicts)])["discriminator_accuracy"] == accuracy


def test_predictions_ignore_unused_slots():
    predictions = Predictions(
        nll=torch.tensor([[1.0, 3.0, 100.0]]),
        best=torch.tensor([[7, 8, 9]]),
        correct=torch.tensor([[True, False, True]]),
        positions=torch.tensor([[1, 2, 0]]),
        weights=torch.tensor([[1.0, 1.0, 0.0]]),
        hidden=torch.tensor([[False, True, True]]),
        sampled=torch.tensor([[False, False, True]]),
    )
    found = summarize([Step(loss(0.0), NOTHING, generator=predictions, main=predictions)])
    assert found["generator_loss"] == found["mlm_loss"] == 2.0
    assert found["generator_accuracy"] == 0.5
    assert found["generator_hidden_accuracy"] == 0.0  # the correct token was not hidden, so it could be copied
    assert found["sampled_accuracy"] == 0.0
