"""Plots of a classifier's mistakes as SVG: confusion matrix and calibration."""

from collections import Counter
from collections.abc import Sequence
from html import escape

import numpy as np

CELL, MARGIN, SIDE = 56, 120, 320  # pixels: a cell, the labels around the cells, the calibration plot
MOST_CLASSES = 20  # that a plot has room for
BINS = 10  # of confidence
INK, PALE = "#1b3a57", "#e8eef4"


def confusion(names: Sequence[str], truth: Sequence[str], guess: Sequence[str]) -> str:
    """Draw a confusion matrix with true classes as rows; darker cells have a larger share of their row."""
    counts, rows = Counter(zip(truth, guess, strict=True)), Counter(truth)
    size = MARGIN + CELL * len(names) + 10
    parts = [_text(MARGIN + CELL * len(names) / 2, 24, "predicted", size=13), _text(12, 24, "true ↓", "start", size=13)]
    for number, name in enumerate(names):
        middle = MARGIN + CELL * (number + 0.5)
        short = escape(name if len(name) <= 14 else name[:13] + "…")
        parts.append(_text(MARGIN - 8, middle + 4, short, "end"))
        turned = f'transform="rotate(-45 {middle:g} {MARGIN - 8})"'
        parts.append(_text(middle, MARGIN - 8, short, "start", more=turned))
    for row, true in enumerate(names):
        for column, predicted in enumerate(names):
            count = counts[true, predicted]
            share = count / rows[true] if rows[true] else 0.0
            x, y = MARGIN + CELL * column, MARGIN + CELL * row
            parts.append(
                f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" fill="{INK if count else PALE}" '
                f'fill-opacity="{max(share, 0.06) if count else 1:.3f}"/>'
            )
            ink = "#fff" if share > 0.5 else "#111"
            parts.append(_text(x + CELL / 2 - 1, y + CELL / 2 + 4, f"{count:,}", more=f'fill="{ink}"'))
    return _svg(size, size, parts)


def calibration(confidence: Sequence[float], right: Sequence[bool]) -> str:
    """Draw accuracy (bars) against the probability of the prediction; the dashed line is perfect calibration."""
    left, top = 56, 30
    title = f"accuracy; expected calibration error {expected_error(confidence, right):.3f}"
    parts = [_text(left + SIDE / 2, top + SIDE + 44, "probability of the prediction", size=13)]
    parts.append(_text(left, 18, title, "start"))
    for tick in (0, 0.5, 1):
        parts.append(_text(left - 8, top + SIDE * (1 - tick) + 4, f"{tick:g}", "end"))
        parts.append(_text(left + SIDE * tick, top + SIDE + 18, f"{tick:g}"))
    bins = _bins(confidence)
    counts, hits = np.bincount(bins, minlength=BINS), np.bincount(bins, right, BINS)
    for number in np.flatnonzero(counts):
        x, share = left + SIDE * number / BINS, hits[number] / counts[number]
        label = f"<title>{counts[number]:,} examples, {share:.1%} correct</title>"
        parts.append(
            f'<rect x="{x:g}" y="{top + SIDE * (1 - share):g}" width="{SIDE / BINS - 2:g}" height="{SIDE * share:g}" '
            f'fill="{INK}">{label}</rect>'
        )
    parts.append(f'<rect x="{left}" y="{top}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#888"/>')
    parts.append(f'<path d="M{left} {top + SIDE} L{left + SIDE} {top}" stroke="#c4622d" stroke-dasharray="4 4"/>')
    return _svg(left + SIDE + 20, top + SIDE + 60, parts)


def expected_error(confidence: Sequence[float], right: Sequence[bool]) -> float:
    """Return the expected calibration error over bins of confidence."""
    surplus = np.bincount(_bins(confidence), np.subtract(confidence, right, dtype=float))
    return float(np.abs(surplus).sum() / max(len(confidence), 1))


def _bins(confidence: Sequence[float]) -> np.ndarray:
    """Return the number of each value's bin."""
    numbers: np.ndarray = np.minimum(np.array(confidence) * BINS, BINS - 1).astype(int)
    return numbers


def _text(x: float, y: float, text: str, anchor: str = "middle", size: int = 12, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" {more}>{text}</text>'


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )
