import numpy as np
import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence

from electra.errors import TaskError
from electra.tasks.texts.labels import Classes, LabelSets, Value

COLORS = ("red", "green", "blue")


def test_a_class_is_trained_by_its_number_and_read_with_probabilities():
    kind = Classes(COLORS)
    logits = torch.tensor([[2.0, 0.0, 1.0], [0.0, 0.0, 5.0]])
    targets = torch.tensor([kind.target("red"), kind.target("blue")])
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 2]), reduction="none")
    assert torch.equal(kind.losses(logits, targets), expected)
    read = kind.read(logits[0].numpy())
    assert read["label"] == "red"
    assert sum(read["probabilities"].values()) == pytest.approx(1)
    assert list(read["probabilities"]) == list(COLORS)


def test_an_unknown_class_is_named_with_the_known_ones():
    with pytest.raises(
        TaskError, match=r"dev line 3: unknown label 'gren'; known: red, green, blue; did you mean green"
    ):
        Classes(COLORS).parse("gren", "dev line 3")


def test_no_number_is_taken_for_a_slip_of_another():
    with pytest.raises(TaskError, match=r"unknown label '1\.0'; known: 0, 1$"):
        Classes(["0", "1"]).parse("1.0", "dev line 3")


def test_sets_come_as_lists():
    kind = LabelSets(COLORS)
    assert kind.parse(["blue", "red", "blue"], "here") == ("red", "blue")  # in one order: runs are known by it
    assert kind.parse([], "here") == ()
    assert kind.target(["blue"]) == [0.0, 0.0, 1.0]
    with pytest.raises(TaskError, match="unknown label 'pink'"):
        kind.parse(["red", "pink"], "here")


def test_sets_are_read_label_by_label():
    read = LabelSets(COLORS).read(np.array([3.0, -1.0, 0.1], np.float32))
    assert read["labels"] == ["red", "blue"]
    assert read["probabilities"]["green"] == pytest.approx(1 / (1 + np.e))


def test_a_value_lies_between_its_bounds():
    kind = Value(1, 5)  # the original divides by the upper bound alone
    assert kind.target(1.0) == [0.0]
    assert kind.target(5.0) == [1.0]
    assert kind.read(np.array([0.5], np.float32)) == {"value": 3.0}
    with pytest.raises(TaskError, match="line 2: 'high' is not a number"):
        kind.parse("high", "line 2")


@pytest.mark.parametrize("raw", ["nan", "inf", "1e300", -1e300, 10**400, "9" * 400])
def test_a_value_that_cannot_be_trained_on_is_refused(raw):
    with pytest.raises(TaskError, match=r"^line 2: .* is not a number between -1e\+15 and 1e\+15$"):
        Value(1, 5).parse(raw, "line 2")


def test_many_labels_are_not_all_named():
    with pytest.raises(TaskError, match=r"known: 0, 1, .*, 29 …$"):
        Classes([str(number) for number in range(100)]).parse("x", "here")


@pytest.mark.parametrize(
    ("kind", "same", "other"),
    [
        (Classes(COLORS), [[2.0, 1.0, 0.0], [0.3, 0.2, 0.1]], [0.0, 1.0, 0.0]),
        (LabelSets(COLORS), [[2.0, -1.0, -3.0], [0.1, -0.2, -0.1]], [1.0, 1.0, -1.0]),
        (Value(0, 5), [[0.5], [0.509]], [0.52]),
    ],
)
def test_predictions_that_are_all_the_same_are_told_from_others(kind, same, other):
    read = [kind.read(np.array(logits, np.float32)) for logits in (*same, other)]
    assert kind.is_constant(read[:2])
    assert not kind.is_constant(read)


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        (Classes(COLORS), lambda logits: Categorical(logits=logits)),
        (LabelSets(COLORS), lambda logits: Bernoulli(logits=logits)),
        (Value(0, 1), lambda logits: Normal(logits, 1)),
    ],
)
def test_the_divergence_of_predictions_is_symmetric_and_that_of_their_distributions(kind, family):
    torch.manual_seed(0)
    before, after = torch.randn(2, 4, len(kind.names))
    ones = [kl_divergence(family(one), family(other)) for one, other in ((before, after), (after, before))]
    expected = sum(one if one.dim() == 1 else one.mean(1) for one in ones)
    torch.testing.assert_close(kind.divergence(before, after), expected)
    torch.testing.assert_close(kind.divergence(after, before), expected)
