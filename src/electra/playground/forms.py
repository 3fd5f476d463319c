"""The form of a fine-tuned model: which texts it asks for, and its answer as HTML."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from electra.playground.colours import BLACK, KINDS, css
from electra.playground.tokens import LONGEST_TEXT, bounded, percent
from electra.recipes.evaluate import Tuned
from electra.tasks.answering.task import QuestionAnswering
from electra.tasks.base import Notes, Prediction
from electra.tasks.tagging.spans import OUTSIDE
from electra.tasks.tagging.task import TaggingTask
from electra.tasks.texts.labels import Value
from electra.tasks.texts.task import TextTask

MOST_ROWS = 20  # of a table of probabilities


@dataclass(frozen=True)
class Field:
    """A text that the form asks for."""

    label: str
    hint: str
    lines: int


def fields(tuned: Tuned) -> list[Field]:
    """Give the texts that the model's task is about."""
    names = [re.sub(r"(?<=[a-z])(?=\d)|_", " ", name).capitalize() for name in tuned.task.fields]
    if isinstance(tuned.task, TaggingTask):
        return [Field(names[0], "A space stands between words, and before a full stop or a comma.", 2)]
    if isinstance(tuned.task, QuestionAnswering):
        return [Field(names[0], "", 1), Field(names[1], "The text that holds the answer.", 6)]
    return [Field(name, "", 2) for name in names]


def answer(tuned: Tuned, texts: Sequence[str]) -> str:
    """Give the model's answer to the texts of a form."""
    texts = [bounded(text, LONGEST_TEXT) for text in texts]
    if not all(text.strip() for text in texts):
        return "<p>Fill in the form, and the answer appears here.</p>"
    notes = Notes()
    (prediction,) = tuned.predict([tuned.task.example(texts)], notes)
    remarks = "".join(f'<p class="remark">{escape(what)}: {count:,}</p>' for what, count in notes.counts.items())
    return _answer(tuned, texts, prediction) + remarks


def _answer(tuned: Tuned, texts: Sequence[str], prediction: Prediction) -> str:
    match tuned.task:
        case TextTask(kind=Value(low=low, high=high)):
            return _value(prediction["value"], low, high)
        case TextTask():
            labels = prediction["labels"] if "labels" in prediction else [prediction["label"]]
            return headline(", ".join(labels) or "None of the labels") + shares(prediction["probabilities"])
        case TaggingTask():
            return _tags(prediction, list(tuned.task.labels))
        case _:
            return _found(texts[1], prediction)


def headline(text: str) -> str:
    """Write the answer itself."""
    return f'<p class="answer" role="status">{escape(text)}</p>'


def shares(probabilities: Mapping[str, float]) -> str:
    """Write probabilities as a table with bars, the likeliest first."""
    ranked = sorted(probabilities.items(), key=lambda item: -item[1])[:MOST_ROWS]
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="bar"><i style="width: {share:.1%}"></i></td>'
        f"<td>{escape(percent(share))}</td></tr>"
        for name, share in ranked
    )
    return f'<table class="shares">{rows}</table>'


def _value(value: float, low: float, high: float) -> str:
    place = min(max((value - low) / (high - low), 0), 1)
    return headline(f"{value:.2f}") + (
        f'<div class="ruler"><span>{low:g}</span><div><i style="left: {place:.1%}"></i></div>'
        f"<span>{high:g}</span></div>"
    )


def _tags(prediction: Prediction, labels: Sequence[str]) -> str:
    """Write words with what they are: marked spans where there are spans, else each word's own tag."""
    words: list[str] = prediction["words"]
    if "spans" in prediction:
        found = [(span["start"], span["end"] + 1, span["type"]) for span in prediction["spans"]]
        said = f"{len(found)} found" if found else "Nothing found"
        kinds = sorted({label[2:] for label in labels if label != OUTSIDE})
    else:
        found = [(place, place + 1, tag) for place, tag in enumerate(prediction["tags"])]
        said, kinds = f"{len(found)} words tagged", list(labels)
    colours = {kind: css(KINDS[number % len(KINDS)]) for number, kind in enumerate(kinds)}
    parts: list[str] = []
    for (_, end, _), (start, stop, kind) in pairwise([(0, 0, ""), *found, (len(words), len(words), "")]):
        parts += map(escape, words[end:start])
        if stop > start:
            parts.append(mark(" ".join(words[start:stop]), colours[kind], kind))
    return f'{headline(said)}<p class="marked">{" ".join(parts)}</p>' + _chances(prediction)


def _chances(prediction: Prediction) -> str:
    """Write the probability of every word's tag."""
    rows = "".join(
        f'<tr><th scope="row">{escape(word)}</th><td>{escape(tag)}</td>'
        f"<td>{'not read' if chance is None else escape(percent(chance))}</td></tr>"
        for word, tag, chance in zip(*(prediction[name] for name in ("words", "tags", "probabilities")), strict=True)
    )
    return (
        f'<details><summary>Every word, its tag and probability</summary><table class="shares">{rows}</table></details>'
    )


def mark(text: str, background: str, kind: str = "") -> str:
    """Write a text as marked, with the name of what it is."""
    name = f"<small>{escape(kind)}</small>" if kind else ""
    return f'<mark style="background: {background}; color: {css(BLACK)}">{escape(text)}{name}</mark>'


def _found(context: str, prediction: Prediction) -> str:
    """Write an answer, its place in the context, and the other answers that were weighed."""
    best: list[dict[str, Any]] = prediction["best"]
    others = shares({found["text"]: found["probability"] for found in best})
    if not prediction["text"]:
        weighed = f"<h3>If there were one</h3>{others}" if best else ""
        return headline("The text holds no answer") + weighed
    start = best[0]["start"]
    stop = start + len(best[0]["text"])
    marked = f"{escape(context[:start])}{mark(context[start:stop], css(KINDS[1]))}{escape(context[stop:])}"
    return f'{headline(prediction["text"])}<p class="marked">{marked}</p><h3>Answers that were weighed</h3>{others}'
