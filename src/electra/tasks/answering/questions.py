"""A question about a text, and the positions of its answers."""

import re
from collections.abc import Sequence
from typing import NamedTuple


class Answer(NamedTuple):
    """A text that answers a question."""

    text: str
    start: int | None = None  # first character in the context, if known
    end: int | None = None  # character after it, if known; the context may spell it differently


class Question(NamedTuple):
    """A question, its context, and the accepted answers."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None  # None: unknown; (): the context has no answer


def make_question(id: str, question: str, context: str, answers: Sequence[str] | None) -> Question:
    """Make a question from texts, such as the cells of a table; blank answers are dropped."""
    known = None if answers is None else tuple(Answer(text) for text in answers if text.strip())
    return Question(id, question, context, known)


def locate(answer: Answer, context: str) -> tuple[int, int] | None:
    """Return the first character of an answer in its context and the one after it, or None if it does not occur.

    A given position is used if its end is given too, or if the answer is there. Otherwise it is the nearest occurrence:
    complete words before parts of words, the same case before any case, with any spaces.
    """
    if answer.start is not None and answer.end is not None:
        return answer.start, answer.end
    if answer.start is not None and answer.text and context.startswith(answer.text, answer.start):
        return answer.start, answer.start + len(answer.text)
    words = answer.text.split()
    if not words:
        return None
    pattern = r"\s+".join(map(re.escape, words))
    stated = answer.start or 0
    for expression in (rf"(?<!\w){pattern}(?!\w)", pattern):
        for case in (re.NOFLAG, re.IGNORECASE):
            found = [match.span() for match in re.finditer(expression, context, case)]
            if found:
                return min(found, key=lambda span: abs(span[0] - stated))
    return None
