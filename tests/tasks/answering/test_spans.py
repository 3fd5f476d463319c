import math

import numpy as np
import pytest
import torch

from electra.tasks.answering import spans
from electra.tasks.answering.head import HuggingFaceSpanHead, QuestionAnsweringHead
from electra.tasks.answering.questions import Question
from electra.tasks.answering.spans import best_answers, best_spans
from electra.tasks.answering.windows import cut_windows
from electra.tasks.base import Notes

LENGTH = 24
BEGIN, END = 5, 20  # of the context
STARTS = range(5, 14)


def masks() -> tuple[torch.Tensor, torch.Tensor]:
    positions = torch.arange(LENGTH)
    allowed = (positions == 0) | ((positions >= BEGIN) & (positions <= END))
    candidates = (positions >= STARTS.start) & (positions < STARTS.stop)
    return allowed.expand(2, -1), candidates.expand(2, -1)


def random_head(kind, config):
    torch.manual_seed(3)
    head = kind(config)
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return head.eval()


def log_probabilities(head, hidden, start: int, allowed) -> tuple[torch.Tensor, torch.Tensor]:
    """What a window says of each token as the start, and of each as the end after `start`, by the plain formulas."""
    if isinstance(head, HuggingFaceSpanHead):
        starts, ends = head(hidden).unbind(-1)
    else:
        starts = head.start(hidden)[:, 0]
        pairs = torch.cat([hidden[start].expand_as(hidden), hidden], dim=-1)
        ends = head.end(torch.nn.functional.gelu(head.end_hidden(pairs)))[:, 0]
    return tuple(logits.masked_fill(~allowed, -1000).log_softmax(0) for logits in (starts, ends))


@pytest.mark.parametrize("kind", [QuestionAnsweringHead, HuggingFaceSpanHead])
@torch.no_grad()
def test_the_best_spans_are_those_of_a_search_over_all(tiny_config, monkeypatch, kind):
    monkeypatch.setattr(spans, "LONGEST_ANSWER", 4)
    head = random_head(kind, tiny_config.model)
    hidden = torch.randn(2, LENGTH, tiny_config.model.hidden_size)
    allowed, candidates = masks()
    found = best_spans(head, hidden, allowed, candidates, torch.tensor([END, END]))
    for row in range(2):
        every = []
        for first in STARTS:
            start, end = log_probabilities(head, hidden[row], first, allowed[row])
            every += [(float(start[first] + end[last]), first, last) for last in range(first, min(first + 4, END))]
        expected = sorted(every, reverse=True)[: spans.KEPT]
        assert list(zip(found.first[row].tolist(), found.last[row].tolist(), strict=True)) == [
            (first, last) for _, first, last in expected
        ]
        scores = torch.tensor([score for score, *_ in expected])
        torch.testing.assert_close(found.score[row], scores, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_the_beam_takes_the_likeliest_starts_among_those_that_are_possible(tiny_config, monkeypatch):
    monkeypatch.setattr(spans, "BEAM", 2)
    head = random_head(QuestionAnsweringHead, tiny_config.model)
    hidden = torch.randn(2, LENGTH, tiny_config.model.hidden_size)
    allowed, candidates = masks()
    found = best_spans(head, hidden, allowed, candidates, torch.tensor([END, END]))
    logits = head.start(hidden)[..., 0]
    for row in range(2):
        likeliest = sorted(STARTS, key=lambda token: -logits[row, token])[:2]
        assert set(found.first[row].tolist()) == set(likeliest)


@torch.no_grad()
def test_a_window_without_a_possible_start_has_no_span(tiny_config):
    allowed, candidates = masks()
    for kind in (QuestionAnsweringHead, HuggingFaceSpanHead):
        head = random_head(kind, tiny_config.model)
        hidden = torch.randn(2, LENGTH, tiny_config.model.hidden_size)
        found = best_spans(head, hidden, allowed, torch.zeros_like(candidates), torch.tensor([END, END]))
        assert bool((found.score == -math.inf).all())
        assert bool(found.null_odds.isfinite().all())


@torch.no_grad()
def test_without_a_class_for_it_no_answer_is_weighed_as_the_span_at_the_first_token(tiny_config):
    head = random_head(HuggingFaceSpanHead, tiny_config.model)
    hidden = torch.randn(2, LENGTH, tiny_config.model.hidden_size)
    allowed, candidates = masks()
    found = best_spans(head, hidden, allowed, candidates, torch.tensor([END, END]))
    logits = head(hidden)
    best = logits[0, found.first[0, 0], 0] + logits[0, found.last[0, 0], 1]
    torch.testing.assert_close(found.null_odds[0], logits[0, 0].sum() - best, rtol=1e-4, atol=1e-4)


def output(*rows: tuple[int, int, float], odds: float) -> dict[str, np.ndarray]:
    first, last, score = (np.array(column) for column in zip(*rows, strict=True))
    return {"first": first, "last": last, "score": score, "null_odds": np.array(odds)}


def test_windows_join_into_different_texts_with_probabilities(tokenizer):
    """The same text from two places counts once, by its better score; the most answerable window says the odds."""
    first, second = cut_windows([Question("1", "a", "the cat sat on the mat the dog")], tokenizer, 10, Notes(), False)
    assert (first.begin, second.begin, second.skipped) == (3, 3, 3)
    answers, odds = best_answers(
        [
            (first, output((3, 3, -2.0), (4, 5, -3.0), (3, 3, -math.inf), odds=-2.0)),
            (second, output((6, 6, -1.0), (5, 5, -4.0), odds=1.0)),
        ]
    )
    assert [(answer["text"], answer["start"]) for answer in answers] == [("the", 23), ("cat sat", 4), ("mat", 19)]
    weights = np.exp([-1.0, -3.0, -4.0])
    assert [answer["probability"] for answer in answers] == pytest.approx((weights / weights.sum()).tolist())
    assert odds == -2.0
