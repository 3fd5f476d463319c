"""What a form asks for and shows, in terms that any front end can render: a page, a notebook, a terminal."""

import re
from collections.abc import Sequence
from typing import NamedTuple


class Field(NamedTuple):
    """A text that a form asks for."""

    label: str
    hint: str = ""
    lines: int = 2


class Headline(NamedTuple):
    """The answer itself."""

    text: str


class Shares(NamedTuple):
    """Names with their probabilities, or with other numbers of which 1 is the largest, under an optional title."""

    rows: Sequence[tuple[str, float]]
    title: str = ""
    in_percent: bool = True


class Scale(NamedTuple):
    """A value between two bounds."""

    value: float
    low: float
    high: float


class Piece(NamedTuple):
    """A part of a text; marked if it has a color, which is counted from 0."""

    text: str
    color: int | None = None
    kind: str = ""  # shown next to a marked piece


class Marked(NamedTuple):
    """A text with marked pieces, which follow each other without spaces between."""

    pieces: Sequence[Piece]


class Details(NamedTuple):
    """Rows that are shown on request; a number is a probability."""

    title: str
    rows: Sequence[Sequence[str | float]]


Block = Headline | Shares | Scale | Marked | Details


def column_label(column: str) -> str:
    """Return the name of a column as the label of a field: `sentence1` is "Sentence 1"."""
    return re.sub(r"(?<=[a-z])(?=\d)|_", " ", column).capitalize()
