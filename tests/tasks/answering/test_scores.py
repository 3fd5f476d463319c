"""The official rules, stated once more and plainly, against what the scores give."""

import random
import re
import string

import numpy as np
import pytest

from electra.tasks.answering.scores import (
    Graded,
    exact_match,
    grade,
    normalize,
    overlap_f1,
    overlap_f1_or_both_empty,
    score_answers,
)

WORDS = ["the", "a", "an", "cat", "Cat,", "cats", "the-cat", "sat", "sat.", "!", "", "1,000", "É"]


def plain_words(text: str) -> list[str]:
    """Normalized words by the letter of the rule: lower case, no punctuation, no articles."""
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return [word for word in re.sub(r"\b(a|an|the)\b", " ", kept).split() if word]


def plain_f1(prediction: str, answer: str) -> float:
    ours, theirs = plain_words(prediction), plain_words(answer)
    rest, shared = list(theirs), 0
    for word in ours:
        if word in rest:
            rest.remove(word)
            shared += 1
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def plain_search(scores, odds, answerable, texts):
    """The official search for a threshold, one question after the other."""
    current = best = sum(not has for has in answerable)
    threshold = 0.0
    for number in sorted(range(len(odds)), key=lambda number: odds[number]):
        if answerable[number]:
            current += scores[number]
        elif texts[number]:
            current -= 1
        if current > best:
            best, threshold = current, odds[number]
    return best / len(scores), threshold


def random_text(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randrange(5)))


def test_texts_are_normalized():
    assert normalize("The  Cat, a dog!") == "cat dog"


def test_f1_of_texts_that_share_two_of_three_words():
    assert overlap_f1("the cat sat", "cat sat down") == pytest.approx(0.8)


def test_two_empty_texts_agree_in_2_0_alone():
    assert overlap_f1("", "the") == 0.0
    assert overlap_f1_or_both_empty("", "the") == 1.0
    assert overlap_f1_or_both_empty("", "cat") == 0.0


def test_random_texts_score_as_the_rules_say():
    draw = random.Random(0)
    for _ in range(2000):
        prediction, answer = random_text(draw), random_text(draw)
        assert exact_match(prediction, answer) == float(plain_words(prediction) == plain_words(answer))
        assert overlap_f1(prediction, answer) == pytest.approx(plain_f1(prediction, answer))


def test_the_best_of_several_answers_counts():
    found = score_answers(["the cat sat", "dog"], [["cat sat down", "cat sat"], ["mouse"]])
    assert found == {"exact": 0.5, "f1": 0.5}


def test_a_question_without_a_right_answer_fails_in_1_1():
    assert score_answers(["cat"], [[]]) == {"exact": 0.0, "f1": 0.0}


def graded(scores, odds, answerable, given):
    return Graded({"f1": np.array(scores)}, np.array(odds), np.array(answerable), np.array(given))


def test_the_threshold_search_finds_what_separates():
    found = graded([1.0, 1.0, 0.0], [-5.0, -3.0, 4.0], [True, True, False], [True, True, True]).best("f1")
    assert found == (1.0, -3.0)


@pytest.mark.parametrize(("threshold", "moved"), [(-5.0, -4.0), (-3.0, -2.0), (4.0, 5.0)])
def test_a_threshold_gets_room_for_rounding_and_withholds_the_same_answers(threshold, moved):
    found = graded([1.0, 1.0, 0.0], [-5.0, -3.0, 4.0], [True, True, False], [True, True, True])
    assert found.with_room(threshold) == moved
    assert found.at(moved) == found.at(threshold)


def test_where_no_answer_is_best_all_are_withheld():
    found = graded([0.0, 0.0], [-4.0, -1.0], [True, False], [True, True])
    assert found.best("f1") == (0.5, 0.0)  # the official search names odds that withhold nothing here
    assert found.at(found.threshold("f1"))["f1"] == 0.5


def test_the_threshold_search_is_the_official_one():
    draw = random.Random(1)
    for _ in range(300):
        count = draw.randrange(1, 12)
        answerable = [draw.random() < 0.5 for _ in range(count)]
        odds = [float(draw.randrange(-4, 5)) for _ in range(count)]
        texts = [draw.choice(["x", "x", ""]) for _ in range(count)]
        scores = [
            draw.choice([0.0, 0.5, 1.0]) if has else float(not text)
            for has, text in zip(answerable, texts, strict=True)
        ]
        found = graded(scores, odds, answerable, [bool(text) for text in texts]).best("f1")
        expected = plain_search(scores, odds, answerable, texts)
        assert found.score == pytest.approx(expected[0])
        assert found.odds == expected[1]


def test_2_0_scores_both_kinds_of_questions_at_a_threshold_and_at_the_best_one():
    predictions = ["cat", "dog", "mat", "soup"]
    answers = [["cat", "a cat"], ["dog"], [], ["the"]]  # an answer without a word is no answer
    found = grade(predictions, [-2.0, 1.0, 2.0, -1.0], answers)
    both = {"": 0.5, "has_answer_": 0.5, "no_answer_": 0.5}
    assert found.at(0.0) == {f"{kind}{name}": value for name in ("exact", "f1") for kind, value in both.items()}
    assert found.best("exact") == found.best("f1") == (0.75, -2.0)


def test_without_questions_of_a_kind_its_score_is_zero():
    assert grade(["cat"], [0.0], [["cat"]]).at(0.0)["no_answer_f1"] == 0.0
