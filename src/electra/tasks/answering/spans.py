"""Find the best spans of each window on the device, and turn them into answers on the host.

Shapes: B windows, L tokens, H hidden size, K starts considered, W tokens of the longest answer, N spans kept.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from electra.tasks.answering.head import (
    OUTSIDE,
    HuggingFaceSpanHead,
    ModernSpanHead,
    QuestionAnsweringHead,
    Spans,
    outside,
)
from electra.tasks.answering.windows import LONGEST_ANSWER, Window
from electra.tasks.base import Output

BEAM = 20  # starts considered per window
KEPT = 20  # spans kept per window, and answers listed per question

AnswerHead = QuestionAnsweringHead | HuggingFaceSpanHead | ModernSpanHead


class BestSpans(NamedTuple):
    """The best spans of each window, best first; missing ones have score -inf."""

    first: Tensor  # (B, N) tokens
    last: Tensor  # (B, N) tokens
    score: Tensor  # (B, N) log probability in the window
    null_odds: Tensor  # (B,) log odds that the window has no answer


def score_spans(head: AnswerHead, hidden: Tensor, allowed: Tensor, choose: Callable[[Tensor], Tensor]) -> Spans:
    """Score spans; `choose` returns the starts (B, K) given their logits.

    Only the paper's head is restricted to the `allowed` (B, L) tokens. Hugging Face's head learns over all tokens:
    transformers applies no mask to its logits.
    """
    if isinstance(head, QuestionAnsweringHead):
        spans: Spans = head(hidden, allowed, choose)
        return spans
    start, end = head(hidden).float().unbind(-1)
    starts = choose(start)
    return Spans(start, starts, end[:, None].expand(-1, starts.size(1), -1), None)


def best_spans(head: AnswerHead, hidden: Tensor, allowed: Tensor, candidates: Tensor, ends: Tensor) -> BestSpans:
    """Find the best spans that start at one of the `candidates` (B, L) and end before `ends` (B,).

    The original applies the beam before it discards starts outside the context or with more context in another window,
    and ends that are too far away; here these are excluded from the beam.
    """
    beam = min(BEAM, hidden.size(1))
    spans = score_spans(head, hidden, allowed, lambda start: (start + outside(candidates)).topk(beam).indices)
    reach = torch.arange(LONGEST_ANSWER, device=hidden.device)
    last = spans.starts[..., None] + reach  # (B, K, W)
    possible = candidates.gather(1, spans.starts)[..., None] & (last < ends[:, None, None])
    start = (spans.start + outside(allowed)).log_softmax(-1)
    end = (spans.end + outside(allowed)[:, None]).log_softmax(-1)
    at_last = end.gather(2, last.clamp(max=hidden.size(1) - 1))
    score = (start.gather(1, spans.starts)[..., None] + at_last).masked_fill(~possible, -math.inf).flatten(1)
    best = score.topk(min(KEPT, score.size(1)))
    odds = spans.unanswerable
    if odds is None:  # "no answer" is the span at [CLS]; this head's end is independent of the start
        # JSON has no infinity: without a possible span the odds are about 1,000.
        odds = start[:, 0] + end[:, 0, 0] - best.values[:, 0].clamp(min=OUTSIDE)
    first = spans.starts[..., None].expand_as(last).flatten(1).gather(1, best.indices)
    return BestSpans(first, last.flatten(1).gather(1, best.indices), best.values, odds)


def best_answers(windows: Iterable[tuple[Window, Output]]) -> tuple[list[dict[str, Any]], float]:
    """Merge the spans of a question's windows: distinct texts, best first, and the log odds of no answer.

    Probabilities are relative to the listed texts, as in the original. The window with the lowest odds counts.
    """
    found: dict[str, tuple[float, int]] = {}  # best score of a text, and its first character
    odds = math.inf
    for window, output in windows:
        odds = min(odds, float(output["null_odds"]))
        for first, last, score in zip(*(output[name].tolist() for name in ("first", "last", "score")), strict=True):
            if score == -math.inf:
                break
            text, start = window.answer(first, last)
            if text and (text not in found or score > found[text][0]):
                found[text] = (score, start)
    ranked = sorted(found.items(), key=lambda entry: -entry[1][0])[:KEPT]
    chances = np.exp([score - ranked[0][1][0] for _, (score, _) in ranked])
    shares = (chances / chances.sum()).tolist()
    pairs = zip(ranked, shares, strict=True)
    return [{"text": text, "start": start, "probability": share} for (text, (_, start)), share in pairs], odds
