import re

import pytest

from electra.errors import DataError
from electra.playground.tokens import LONGEST_TEXT, Token, colored, cut, detect, percent, summary

TOKENS = [Token("", "the", 0.02), Token(" ", "car", 0.93), Token("", ".", 0.5)]


def plain(html: str) -> str:
    return re.sub(r"<small.*?</small>|<[^>]+>", "", html)


def test_the_text_is_unchanged_including_spaces_and_line_breaks(tiny_model):
    text = "The chef  ate\nthe meal ."
    assert plain(colored(detect(tiny_model, text))) == text


def test_every_token_shows_its_probability(tiny_model):
    text = "the chef ate"
    found = detect(tiny_model, text)
    assert [token.probability for token in found] == [token.probability for token in tiny_model.detect(text)]
    html = colored(found)
    for token in found:
        assert f"{percent(token.probability)} likely replaced" in html
        assert f'<small class="chance"> {percent(token.probability)}</small>' in html


def test_a_long_text_is_read_in_windows(tiny_model):
    assert len(detect(tiny_model, "the chef ate a meal . " * 50)) == 300 > tiny_model.window


def test_a_text_that_is_too_long_is_refused(tiny_model):
    with pytest.raises(DataError, match=r"has 10,001 characters; this page takes at most 10,000"):
        detect(tiny_model, "a" * (LONGEST_TEXT + 1))


def test_the_threshold_decides_which_tokens_are_flagged():
    assert colored(TOKENS, 0.6).count("flagged") == 1
    assert colored(TOKENS, 0.5).count("flagged") == 2
    assert summary(TOKENS, 0.6) == "1 of 3 tokens looks replaced, with a probability of 60\u00a0% or more."


def test_user_input_is_escaped():
    html = colored([Token("<b>", "<script>", 0.1)])
    assert "<script>" not in html
    assert "<b>" not in html


def test_a_character_spelled_by_several_tokens_is_shown_once():
    assert cut("5€ a", [(0, 1), (1, 2), (1, 2), (1, 2), (3, 4)]) == [
        *[("", "5"), ("", "€"), ("", ""), ("", "")],
        (" ", "a"),
    ]


@pytest.mark.parametrize(
    ("probability", "text"), [(0, "0 %"), (0.001, "<1 %"), (0.125, "12 %"), (0.999, ">99 %"), (1, "100 %")]
)
def test_only_exact_values_are_0_or_100_percent(probability, text):
    assert percent(probability) == text.replace(" ", "\u00a0")
