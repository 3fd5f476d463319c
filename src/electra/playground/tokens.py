"""A text as colored tokens: the darker a token, the likelier it was replaced."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from electra.errors import DataError
from electra.model.pretrained import Pretrained
from electra.playground.colors import css, gradient, ink, shade

LONGEST_TEXT = 10_000  # characters
PERCENT = "\u00a0%"  # a line never breaks before the sign
THRESHOLD = 0.5  # a token with at least this probability is flagged as replaced


class Token(NamedTuple):
    """A token of a text and its probability of being replaced."""

    before: str  # text since the previous token: a space, a line break, nothing
    text: str
    probability: float
    exchanged: bool = False  # whether the user replaced it


def detect(model: Pretrained, text: str) -> list[Token]:
    """Return the tokens of a text with their probabilities of being replaced."""
    detections = model.detect(bounded(text, LONGEST_TEXT))
    pieces = cut(text, [detection.span for detection in detections])
    return [Token(*piece, found.probability) for piece, found in zip(pieces, detections, strict=True)]


def bounded(text: str, most: int) -> str:
    """Return the text, or raise an error if it is too long."""
    if len(text) > most:
        raise DataError(f"The text has {len(text):,} characters; this page takes at most {most:,}.")
    return text


def cut(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[str, str]]:
    """Split a text into pairs: the text before a token, and the token.

    If several tokens spell one character, the first one gets it and the others are empty.
    """
    pieces, end = [], 0
    for start, stop in spans:
        start, stop = max(start, end), max(stop, end)
        pieces.append((text[end:start], text[start:stop]))
        end = stop
    return pieces


def colored(tokens: Sequence[Token], threshold: float = THRESHOLD) -> str:
    """Return tokens as HTML, with probabilities on hover and for screen readers, and visible if flagged."""
    return f'<p class="tokens">{"".join(_colored(token, threshold) for token in tokens)}</p>'


def summary(tokens: Sequence[Token], threshold: float) -> str:
    """Return a sentence with the number of flagged tokens."""
    if not tokens:
        return "Type or paste text to see its words colored here."
    found = sum(token.probability >= threshold for token in tokens)
    verb = "looks" if found == 1 else "look"
    return f"{found:,} of {len(tokens):,} tokens {verb} replaced, with a probability of {percent(threshold)} or more."


def scale() -> str:
    """Return the legend of the colors."""
    return (
        '<div class="scale" role="img" aria-label="Colors go from light (surely original) to dark (surely replaced)">'
        f'<span>original</span><i style="background: {gradient()}"></i><span>replaced</span></div>'
    )


def percent(probability: float) -> str:
    """Return a probability in percent; only exact values show as 0 % or 100 %."""
    if 0 < probability < 0.005:
        return f"<1{PERCENT}"
    if 0.995 <= probability < 1:
        return f">99{PERCENT}"
    return f"{100 * probability:.0f}{PERCENT}"


def _colored(token: Token, threshold: float) -> str:
    background = shade(token.probability)
    kinds = "token" + " flagged" * (token.probability >= threshold) + " exchanged" * token.exchanged
    chance = escape(percent(token.probability))
    return (
        f'{escape(token.before)}<span class="{kinds}" title="{chance} likely replaced" '
        f'style="background: {css(background)}; color: {css(ink(background))}">'
        f'{escape(token.text)}<small class="chance"> {chance}</small></span>'
    )
