"""A text as coloured tokens: the darker, the likelier the discriminator holds a token for a replacement."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from electra.errors import DataError
from electra.model.pretrained import Pretrained
from electra.playground.colours import css, gradient, ink, shade

LONGEST_TEXT = 10_000  # characters that one may paste
THRESHOLD = 0.5  # from which a token is said to look replaced


class Token(NamedTuple):
    """A token as it stands in a text, and what the discriminator thinks of it."""

    before: str  # what parts it from the token before it: a space, the end of a line, nothing
    text: str
    probability: float  # of being replaced
    exchanged: bool = False  # whether it really was


def detect(model: Pretrained, text: str) -> list[Token]:
    """Give the tokens of a text with their probabilities of being replaced."""
    detections = model.detect(bounded(text, LONGEST_TEXT))
    pieces = cut(text, [detection.span for detection in detections])
    return [Token(*piece, found.probability) for piece, found in zip(pieces, detections, strict=True)]


def bounded(text: str, most: int) -> str:
    """Give the text back, or refuse one that is too long for a page."""
    if len(text) > most:
        raise DataError(f"The text has {len(text):,} characters; this page takes at most {most:,}.")
    return text


def cut(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[str, str]]:
    """Cut a text into tokens and what stands before each; a space that belongs to a token counts as before it.

    Of several tokens that spell one character the first has it, and the others have nothing.
    """
    pieces, end = [], 0
    for start, stop in spans:
        start, stop = max(start, end), max(stop, end)
        bare = text[start:stop].lstrip()
        pieces.append((text[end : stop - len(bare)], bare))
        end = stop
    return pieces


def coloured(tokens: Sequence[Token], threshold: float = THRESHOLD) -> str:
    """Write tokens as HTML; each has its probability on hover and for screen readers, in sight from the threshold."""
    return f'<p class="tokens">{"".join(_coloured(token, threshold) for token in tokens)}</p>'


def summary(tokens: Sequence[Token], threshold: float) -> str:
    """Say in a sentence how many tokens look replaced."""
    if not tokens:
        return "Type or paste a text, and its words are coloured here."
    found = sum(token.probability >= threshold for token in tokens)
    verb = "looks" if found == 1 else "look"
    return f"{found:,} of {len(tokens):,} tokens {verb} replaced, with a probability of {percent(threshold)} or more."


def scale() -> str:
    """Write the key to the colours."""
    return (
        '<div class="scale" role="img" aria-label="Colours go from light, surely original, to dark, surely replaced">'
        f'<span>original</span><i style="background: {gradient()}"></i><span>replaced</span></div>'
    )


def percent(probability: float) -> str:
    """Write a probability for people; nothing but certainty is 0 % or 100 %."""
    if 0 < probability < 0.005:
        return "<1 %"
    if 0.995 <= probability < 1:
        return ">99 %"
    return f"{probability:.0%}".replace("%", " %")


def _coloured(token: Token, threshold: float) -> str:
    background = shade(token.probability)
    kinds = ["token"]
    kinds += ["flagged"] if token.probability >= threshold else []
    kinds += ["exchanged"] if token.exchanged else []
    chance = escape(percent(token.probability))
    return (
        f'{escape(token.before)}<span class="{" ".join(kinds)}" title="{chance} likely replaced" '
        f'style="background: {css(background)}; color: {css(ink(background))}">'
        f'{escape(token.text)}<small class="chance"> {chance}</small></span>'
    )
