"""Tags and the spans that they mark: schemes, conversion, and the F1 of spans."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from electra.config.tasks import Scheme, SpanRule

OUTSIDE = "O"
TAG = re.compile(r"[BIESLUM]-.+|O")
BILOU = str.maketrans("LUM", "ESI")  # other letters for the same positions: last, unit, middle


class Span(NamedTuple):
    """Consecutive words of a type; `end` is the last word."""

    start: int
    end: int
    type: str


def marks_spans(tags: Iterable[str]) -> bool:
    """Return whether all tags belong to a span scheme, unlike parts of speech."""
    found = set(tags)
    return found != {OUTSIDE} and all(TAG.fullmatch(tag) for tag in found)


def scheme_of(sentences: Iterable[Sequence[str]]) -> str:
    """Return the scheme of the tags: IOB1, IOB2, BIOES, or irregular."""
    iob1 = iob2 = True
    for tags in sentences:
        for before, tag in zip((OUTSIDE, *tags), tags, strict=False):
            if tag[0] in "ESLUM":
                return "BIOES"
            continues = before != OUTSIDE and before[2:] == tag[2:]
            iob2 = iob2 and (tag[0] != "I" or continues)
            iob1 = iob1 and (tag[0] != "B" or continues)  # in IOB1, B only separates adjacent spans of the same type
    return "IOB2" if iob2 else "IOB1" if iob1 else "irregular"


def find_spans(tags: Sequence[str], rule: SpanRule = "conlleval") -> list[Span]:
    """Return the spans that tags of any scheme mark, in order.

    By the rules of conlleval, the standard scorer, a tag of another type starts a new span. In the original only B, S
    and O separate spans, and the last tag sets the type.
    """
    tags = [tag[0].translate(BILOU) + tag[1:] for tag in tags]
    if rule == "conlleval":
        from seqeval.metrics.sequence_labeling import get_entities  # imported here because it takes two seconds

        return [Span(start, end, kind) for kind, start, end in get_entities(tags)]
    spans: list[Span] = []
    for place, tag in enumerate(tags):
        if tag == OUTSIDE:
            continue
        continues = tag[0] not in "BS" and place > 0 and tags[place - 1] != OUTSIDE
        start = spans.pop().start if continues else place
        spans.append(Span(start, place, tag[2:]))
    return spans


def write_tags(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """Return spans as tags."""
    tags = [OUTSIDE] * length
    for start, end, kind in spans:
        tags[start : end + 1] = [f"I-{kind}"] * (end + 1 - start)
        tags[start] = f"B-{kind}"
        if scheme == "bioes":
            tags[end] = f"E-{kind}" if end > start else f"S-{kind}"
    return tags


def span_scores(truth: Sequence[Sequence[Span]], guess: Sequence[Sequence[Span]]) -> dict[str, float]:
    """Return precision, recall and F1 of spans over all sentences; 0 where undefined."""
    right = sum(len(set(one) & set(other)) for one, other in zip(truth, guess, strict=True))
    guessed, true = sum(map(len, guess)), sum(map(len, truth))
    return {
        "f1": 2 * right / (guessed + true) if guessed + true else 0.0,
        "precision": right / guessed if guessed else 0.0,
        "recall": right / true if true else 0.0,
    }
