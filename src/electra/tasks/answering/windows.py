"""Windows over long contexts: [CLS] question [SEP] a part of the context [SEP].

The tokenizer's character offsets map a span of tokens to the exact text of the context. The original rebuilds the text
from word pieces and searches for it in the context, which can fail.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import TaskError
from electra.tasks.answering.questions import Question, locate
from electra.tasks.base import Feature, Notes

LONGEST_QUESTION = 64  # tokens
LONGEST_ANSWER = 30  # tokens; longer spans are never predicted
STRIDE = 128  # at most so many tokens between the starts of two windows
SPECIALS = 3  # [CLS] and two [SEP]

Span = tuple[int, int]  # first and last token; (0, 0), at [CLS], if the answer is not in the window


@dataclass(frozen=True)
class Context:
    """The tokens of a context, shared by all windows over it."""

    text: str
    ids: list[int]
    offsets: list[tuple[int, int]]  # first character of each token, and the one after it

    def tokens(self, characters: tuple[int, int]) -> Span | None:
        """Return the first and last token that overlap a range of characters, or None."""
        begin, end = characters
        first = bisect_right(self.offsets, begin, key=lambda offset: offset[1])
        last = bisect_left(self.offsets, end, key=lambda offset: offset[0]) - 1
        return (first, last) if first <= last else None


@dataclass(frozen=True, kw_only=True)
class Window(Feature[Span]):
    """A question with a part of its context."""

    context: Context
    begin: int  # start of the part in `ids`
    skipped: int  # tokens of the context before the part
    starts: range  # tokens in `ids` that have more context here than in other windows

    @property
    def end(self) -> int:
        """The end of the part in `ids`: the last [SEP]."""
        return len(self.ids) - 1

    def answer(self, first: int, last: int) -> tuple[str, int]:
        """Return the text of the context between two tokens of `ids`, and its first character."""
        move = self.skipped - self.begin
        begin, end = self.context.offsets[first + move][0], self.context.offsets[last + move][1]
        return self.context.text[begin:end].rstrip(), begin


def cut_windows(
    questions: Sequence[Question], tokenizer: Tokenizer, max_length: int, notes: Notes, training: bool
) -> list[Window]:
    """Cut contexts into windows; in training, questions without a usable answer are skipped.

    The target of a window without the answer is [CLS], so that its spans lose to those of the window with the answer.
    """
    if max_length <= SPECIALS:
        raise TaskError(
            f"max_length={max_length} leaves no room for a question and its context; use at least {SPECIALS + 1}"
        )
    longest = min(LONGEST_QUESTION, (max_length - SPECIALS) // 2)
    texts = list(dict.fromkeys(question.context for question in questions))  # in SQuAD five questions share one
    encoded = zip(texts, tokenizer.encode(texts), strict=True)
    contexts = {text: Context(text, encoding.ids, tokenizer.spans(encoding, text)) for text, encoding in encoded}
    windows: list[Window] = []
    asked = tokenizer.encode([question.question for question in questions])
    for number, (question, encoding) in enumerate(zip(questions, asked, strict=True)):
        context = contexts[question.context]
        answer = _answer_tokens(question, context, notes) if question.answers else None
        if training and answer is None and question.answers != ():
            notes.add("questions skipped: no answer to train on")
            continue
        notes.add("truncated questions", len(encoding.ids) > longest)
        head = [tokenizer.cls_id, *encoding.ids[:longest], tokenizer.sep_id]
        stretches, parts = _stretches(len(context.ids), max_length - len(head) - 1)
        holds = [answer is not None and answer[0] in stretch and answer[1] in stretch for stretch in stretches]
        notes.add("answers that do not fit into a window", answer is not None and not any(holds))
        for stretch, best, held in zip(stretches, parts, holds, strict=True):
            move = len(head) - stretch.start
            ids = [*head, *context.ids[stretch.start : stretch.stop], tokenizer.sep_id]
            types = [0] * len(head) + [1] * (len(stretch) + 1)
            target = (answer[0] + move, answer[1] + move) if answer and held else (0, 0)
            starts = range(best.start + move, best.stop + move)
            place = {"begin": len(head), "skipped": stretch.start}
            windows.append(Window(number, ids, types, target, context=context, starts=starts, **place))
    return windows


@lru_cache(1 << 16)  # many questions have contexts, and rooms, of the same length
def _stretches(count: int, room: int) -> tuple[list[range], list[range]]:
    """Return the ranges of a context's windows, and the parts with the most context there."""
    stretches = list(cut(count, room))
    return stretches, max_context(stretches)


def cut(count: int, room: int) -> Iterator[range]:
    """Return ranges of at most `room` tokens that cover `count` tokens.

    The stride is at most half of `room`, so that an answer at the end of one range is complete in the next.
    """
    stride = min(STRIDE, max(1, room // 2))
    start = 0
    while start + room < count:
        yield range(start, start + room)
        start += stride
    yield range(start, count)


def max_context(stretches: Sequence[range]) -> list[range]:
    """Return the part of each stretch whose tokens have the most context there; every token is in exactly one part.

    Context is the smaller number of tokens to the left and right, plus 1 % of the length of the stretch.
    """
    positions = np.arange(max(stretch.stop for stretch in stretches))
    context = np.full((len(stretches), len(positions)), -1.0)
    for row, stretch in zip(context, stretches, strict=True):
        inside = positions[stretch.start : stretch.stop]
        row[inside] = np.minimum(inside - stretch.start, stretch.stop - 1 - inside) + 0.01 * len(stretch)
    owners = context.argmax(0)  # the first maximum
    edges = np.searchsorted(owners, np.arange(len(stretches) + 1)).tolist()  # parts are in the order of stretches
    return [range(first, end) for first, end in pairwise(edges)]


def _answer_tokens(question: Question, context: Context, notes: Notes) -> Span | None:
    """Return the tokens of the first answer that occurs in the context."""
    for answer in question.answers or ():
        characters = locate(answer, context.text)
        tokens = context.tokens(characters) if characters else None
        if characters and tokens:
            notes.add("answers found at another position", answer.start not in (None, characters[0]))
            too_long = tokens[1] - tokens[0] >= LONGEST_ANSWER
            notes.add(f"answers of more than {LONGEST_ANSWER} tokens, which are never predicted", too_long)
            return tokens
    notes.add("answers not in their context")
    return None
