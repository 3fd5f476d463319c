"""The form of a fine-tuned model: its answer as HTML. What the form asks for and shows is up to the task."""

from collections.abc import Sequence
from html import escape

from electra.playground.colors import BLACK, KINDS, css
from electra.playground.tokens import LONGEST_TEXT, bounded, percent
from electra.recipes.evaluate import Tuned
from electra.tasks.base import Notes
from electra.tasks.shown import Block, Details, Headline, Marked, Piece, Scale, Shares

MOST_ROWS = 20  # of a table of probabilities


def answer(tuned: Tuned, texts: Sequence[str]) -> str:
    """Return the model's answer to the texts of a form."""
    texts = [bounded(text, LONGEST_TEXT) for text in texts]
    if not all(text.strip() for text in texts):
        return "<p>Fill in the form, and the answer appears here.</p>"
    notes = Notes()
    (prediction,) = tuned.predict([tuned.task.example(texts)], notes)
    remarks = "".join(f'<p class="remark">{escape(what)}: {count:,}</p>' for what, count in notes.counts.items())
    return "".join(map(render, tuned.task.show(texts, prediction))) + remarks


def render(block: Block) -> str:
    """Return a block as HTML."""
    match block:
        case Headline(text):
            return f'<p class="answer" role="status">{escape(text)}</p>'
        case Shares():
            return _shares(block)
        case Scale(value, low, high):
            place = min(max((value - low) / (high - low), 0), 1)
            pointer = f'<div><i style="left: {place:.1%}"></i></div>'
            return f'<div class="ruler"><span>{low:g}</span>{pointer}<span>{high:g}</span></div>'
        case Marked(pieces):
            return f'<p class="marked">{"".join(map(_piece, pieces))}</p>'
        case Details(title, rows):
            table = f'<table class="shares">{"".join(map(_row, rows))}</table>'
            return f"<details><summary>{escape(title)}</summary>{table}</details>"


def _shares(shares: Shares) -> str:
    """Return numbers as a table with bars, largest first."""
    rows = []
    for name, share in sorted(shares.rows, key=lambda row: -row[1])[:MOST_ROWS]:
        number = percent(share) if shares.in_percent else f"{share:.2f}"
        bar = f'<td class="bar"><i style="width: {max(share, 0):.1%}"></i></td><td>{escape(number)}</td>'
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{bar}</tr>')
    title = f"<h3>{escape(shares.title)}</h3>" if shares.title else ""
    return f'{title}<table class="shares">{"".join(rows)}</table>'


def _piece(piece: Piece) -> str:
    if piece.color is None:
        return escape(piece.text)
    background = css(KINDS[piece.color % len(KINDS)])
    kind = f"<small>{escape(piece.kind)}</small>" if piece.kind else ""
    return f'<mark style="background: {background}; color: {css(BLACK)}">{escape(piece.text)}{kind}</mark>'


def _row(cells: Sequence[str | float]) -> str:
    first, *others = (escape(cell if isinstance(cell, str) else percent(cell)) for cell in cells)
    return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>'
