import random
import warnings

import pytest
from seqeval.metrics import f1_score, precision_score, recall_score

from electra.tasks.tagging.spans import Span, find_spans, marks_spans, scheme_of, span_scores, write_tags

SENTENCE = "B-NP I-NP O B-VP B-NP I-NP I-NP".split()
SPANS = [Span(0, 1, "NP"), Span(3, 3, "VP"), Span(4, 6, "NP")]
RULES = ("conlleval", "original")


@pytest.mark.parametrize("rule", RULES)
def test_spans_of_the_reference_sentence(rule):
    assert find_spans(SENTENCE, rule) == SPANS


def test_the_reference_sentence_in_bioes():
    assert write_tags(SPANS, 7, "bioes") == ["B-NP", "E-NP", "O", "S-VP", "B-NP", "I-NP", "E-NP"]


def test_a_change_of_type_starts_a_span_for_conlleval_and_goes_unseen_for_the_original():
    assert find_spans(["B-NP", "I-VP"]) == [Span(0, 0, "NP"), Span(1, 1, "VP")]
    assert find_spans(["B-NP", "I-VP"], "original") == [Span(0, 1, "VP")]


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("I-NP I-NP O I-VP I-NP B-NP I-NP", "IOB1"),
        ("B-NP I-NP O B-VP B-NP B-NP I-NP", "IOB2"),
        ("B-NP E-NP O S-VP S-NP B-NP E-NP", "BIOES"),
        ("B-NP L-NP O U-VP U-NP B-NP L-NP", "BIOES"),
    ],
)
def test_every_scheme_is_told_and_gives_the_same_spans(tags, scheme):
    assert scheme_of([tags.split()]) == scheme
    assert find_spans(tags.split()) == [Span(0, 1, "NP"), Span(3, 3, "VP"), Span(4, 4, "NP"), Span(5, 6, "NP")]


def test_tags_that_follow_no_scheme_are_told():
    assert scheme_of([["I-NP", "O", "B-VP"]]) == "irregular"


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
@pytest.mark.parametrize("rule", RULES)
def test_written_spans_read_back_equal(scheme, rule):
    draw = random.Random(0)
    for _ in range(200):
        tags = draw.choices(["O", "B-A", "I-A", "B-B", "I-B"], k=draw.randint(0, 12))
        spans = find_spans(tags, rule)
        assert find_spans(write_tags(spans, len(tags), scheme), rule) == spans


def test_a_type_may_hold_a_dash():
    assert find_spans(["B-NP-SBJ", "I-NP-SBJ"]) == [Span(0, 1, "NP-SBJ")]


@pytest.mark.parametrize("alphabet", ["O B-A I-A B-B I-B", "O B-A I-A E-A S-A B-B E-B", "O I-A B-A I-B"])
def test_scores_equal_those_of_seqeval_on_random_tags(alphabet):
    draw = random.Random(1)
    for _ in range(50):
        lengths = [draw.randint(1, 9) for _ in range(draw.randint(1, 6))]
        truth, guess = ([draw.choices(alphabet.split(), k=length) for length in lengths] for _ in range(2))
        scores = span_scores([find_spans(tags) for tags in truth], [find_spans(tags) for tags in guess])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of nothing to divide by
            expected = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
            assert scores == pytest.approx({name: score(truth, guess) for name, score in expected.items()})


def test_scores_of_nothing_are_zero():
    assert span_scores([[]], [[]]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}


@pytest.mark.parametrize(
    ("tags", "marks"), [("B-NP O I-NP", True), ("NN VB O", False), ("O O", False), ("NN-X", False)]
)
def test_tags_of_spans_are_told_from_plain_ones(tags, marks):
    assert marks_spans(tags.split()) is marks
