"""Tags and the spans that they mark: which scheme a file uses, and the F1 of whole spans."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Scheme = Literal["bio", "bioes"]  # what the network predicts
Rule = Literal["conlleval", "original"]
OUTSIDE = "O"
TAG = re.compile(r"[BIESLUM]-.+|O")
BILOU = str.maketrans("LUM", "ESI")  # other letters for the same places: last, unit, middle


class Span(NamedTuple):
    """Some words in a row, the last one included, and what they are."""

    start: int
    end: int
    type: str


def marks_spans(tags: Iterable[str]) -> bool:
    """Tell whether all tags are of a scheme for spans, and not the plain ones of parts of speech."""
    found = set(tags)
    return found != {OUTSIDE} and all(TAG.fullmatch(tag) for tag in found)


def scheme_of(sentences: Iterable[Sequence[str]]) -> str:
    """Name the scheme of some sentences' tags: IOB1, IOB2, BIOES, or irregular."""
    iob1 = iob2 = True
    for tags in sentences:
        for before, tag in zip((OUTSIDE, *tags), tags, strict=False):
            if tag[0] in "ESLUM":
                return "BIOES"
            continues = before != OUTSIDE and before[2:] == tag[2:]
            iob2 = iob2 and (tag[0] != "I" or continues)
            iob1 = iob1 and (tag[0] != "B" or continues)  # there B only parts a span from one of its own kind
    return "IOB2" if iob2 else "IOB1" if iob1 else "irregular"


def find_spans(tags: Sequence[str], rule: Rule = "conlleval") -> list[Span]:
    """Give the spans that tags of any scheme mark, in order.

    By the rules of conlleval, which scores these tasks, a tag of another type starts another span. To the original only
    B, S and O part spans, and the last tag gives the type.
    """
    tags = [tag[0].translate(BILOU) + tag[1:] for tag in tags]
    if rule == "conlleval":
        from seqeval.metrics.sequence_labeling import get_entities  # takes two seconds to import

        return [Span(start, end, kind) for kind, start, end in get_entities(tags)]
    spans: list[Span] = []
    for place, tag in enumerate(tags):
        if tag == OUTSIDE:
            continue
        goes_on = tag[0] not in "BS" and place > 0 and tags[place - 1] != OUTSIDE
        start = spans.pop().start if goes_on else place
        spans.append(Span(start, place, tag[2:]))
    return spans


def write_tags(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """Write spans as tags."""
    tags = [OUTSIDE] * length
    for start, end, kind in spans:
        tags[start : end + 1] = [f"I-{kind}"] * (end + 1 - start)
        tags[start] = f"B-{kind}"
        if scheme == "bioes":
            tags[end] = f"E-{kind}" if end > start else f"S-{kind}"
    return tags


def span_scores(truth: Sequence[Sequence[Span]], guess: Sequence[Sequence[Span]]) -> dict[str, float]:
    """Give precision, recall and F1 of whole spans over all sentences; what cannot be divided is 0."""
    right = sum(len(set(one) & set(other)) for one, other in zip(truth, guess, strict=True))
    guessed, true = sum(map(len, guess)), sum(map(len, truth))
    return {
        "f1": 2 * right / (guessed + true) if guessed + true else 0.0,
        "precision": right / guessed if guessed else 0.0,
        "recall": right / true if true else 0.0,
    }
