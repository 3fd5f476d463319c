"""A question about a text, and where its answers stand in that text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A text that answers a question."""

    text: str
    start: int | None = None  # its first character in the context, where the data say so
    end: int | None = None  # the character behind it, where the data say so: there it may be spelt otherwise


@dataclass(frozen=True)
class Question:
    """A question, the text to look for its answer in, and the answers that count as right."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None  # None: not known; (): the context holds no answer


def make_question(id: str, question: str, context: str, answers: Sequence[str] | None) -> Question:
    """Make a question out of texts alone, such as the cells of a table; blank answers say that there is none."""
    known = None if answers is None else tuple(Answer(text) for text in answers if text.strip())
    return Question(id, question, context, known)


def locate(answer: Answer, context: str) -> tuple[int, int] | None:
    """Give the first and the end character of an answer in its context, None where it does not occur.

    The place that the data name counts if they name its end too, or if the answer stands there. Else it is the
    occurrence as a whole word that is nearest to that place, if need be one of another case, with other spaces or
    inside a word.
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
