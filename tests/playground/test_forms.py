import re

import pytest

from electra.errors import DataError
from electra.playground.forms import answer, render
from electra.recipes.evaluate import load_tuned
from electra.tasks.shown import Shares


@pytest.fixture
def tuned(tuned_run):
    return lambda kind, epochs=1: load_tuned(tuned_run(kind, epochs))


def asked(model) -> list[str]:
    return [field.label for field in model.task.fields]


def test_a_class_is_named_and_all_probabilities_are_shown(tuned):
    model = tuned("classes")
    assert asked(model) == ["Text"]
    html = answer(model, ["the cat sat"])
    assert re.search(r'class="answer" role="status">Label: (tame|wild)<', html)
    assert html.count('scope="row"') == 2


def test_a_pair_asks_for_two_texts_under_the_names_of_their_columns(tuned):
    model = tuned("pairs")
    assert asked(model) == ["Sentence 1", "Sentence 2"]
    assert 'scope="row">same<' in answer(model, ["the cat sat", "a cat ate"])


def test_several_labels_may_apply_at_once(tuned):
    html = answer(tuned("sets", 10), ["the cat ate"])
    headline = re.search(r'class="answer" role="status">(.*?)<', html)[1]
    assert "food" in headline.removeprefix("Labels: ").split(", ")


def test_a_value_stands_between_its_bounds(tuned):
    html = answer(tuned("values"), ["good good"])
    assert re.search(r'role="status">-?\d+\.\d\d<', html)
    assert "<span>0.5</span>" in html
    assert "<span>3.5</span>" in html


def test_spans_are_marked_with_their_type(tuned):
    html = answer(tuned("spans", 15), ["the cat sat on a mat"])
    assert re.search(r"the <mark [^>]*>cat<small>ONE</small></mark> sat on a <mark [^>]*>mat<small>TWO</small>", html)


def test_plain_tags_are_written_at_every_word(tuned):
    html = answer(tuned("words", 15), ["the dog sat"])
    marked = html.partition("<details>")[0]
    assert re.findall(r">(\w+)<small>(\w+)</small>", marked) == [("the", "DET"), ("dog", "NOUN"), ("sat", "VERB")]


def test_the_answer_to_a_question_is_marked_in_its_text(tuned):
    model = tuned("questions", 15)
    assert asked(model) == ["Question", "Context"]
    html = answer(model, ["who sat", "the dog sat on a mat"])
    assert re.search(r'<p class="marked"><mark [^>]*>the dog</mark> sat on a mat</p>', html)
    assert html.count('scope="row"') > 1


def test_what_was_cut_off_is_said(tuned):
    assert "truncated inputs: 1" in answer(tuned("classes"), ["the cat sat " * 20])


def test_an_unfinished_form_is_not_answered(tuned):
    assert "Fill in the form" in answer(tuned("pairs"), ["the cat sat", " "])


def test_a_text_beyond_the_bound_is_refused(tuned):
    with pytest.raises(DataError, match="10,001 characters"):
        answer(tuned("classes"), ["a" * 10_001])


def test_what_the_user_types_is_never_markup(tuned):
    assert "<b>" not in answer(tuned("spans"), ["<b> cat"])


def test_cosines_are_no_probabilities():
    html = render(Shares([("far", -0.25), ("near", 0.96)], in_percent=False))
    assert re.findall(r"width: ([\d.]+)%", html) == ["96.0", "0.0"]
    assert re.findall(r"<td>([^<]+)</td>", html) == ["0.96", "-0.25"]
