"""Extractive question answering: find the answer to a question in a text, or decide that there is none.

Shapes: B windows, L tokens, H hidden size.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.config.finetune import HeadKind
from electra.data.files import to_json
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import TaskError
from electra.model.body import Body
from electra.model.heads import find_head
from electra.model.networks import TaskNetwork
from electra.tasks.answering.head import QuestionAnsweringHead
from electra.tasks.answering.questions import Question
from electra.tasks.answering.scores import Graded, grade, score_answers
from electra.tasks.answering.spans import AnswerHead, best_answers, best_spans, score_spans
from electra.tasks.answering.windows import Window, cut_windows
from electra.tasks.base import Batch, Defaults, Known, Notes, Output, Prediction, Served, Task, mean_where
from electra.tasks.shown import Block, Field, Headline, Marked, Piece, Shares

UNANSWERABLE_WEIGHT = 0.5
PAPER_THRESHOLD = -2.75  # null odds of the original


class QuestionAnswering(Task[Question, Window, AnswerHead]):
    """Question answering; subclasses read the questions.

    Departures from the original: answerability is only trained if there are `unanswerable` questions, and a window
    without the answer of an answerable question counts as unanswerable (the original labels it answerable).
    """

    defaults = Defaults(epochs=2.0, max_length=512)

    def __init__(self, name: str, head: HeadKind | None, unanswerable: bool, known: Known) -> None:
        self.name, self.unanswerable = name, unanswerable
        self.metric = "best_f1" if unanswerable else "f1"
        self.threshold = float(known.get("null_threshold", PAPER_THRESHOLD if head == "paper" else 0.0))
        self._paper_head = head == "paper"

    @property
    def fields(self) -> tuple[Field, ...]:
        return Field("Question", lines=1), Field("Context", "The text that holds the answer.", lines=6)

    def example(self, texts: Sequence[str]) -> Question:
        question, context = texts
        return Question("", question, context)

    def show(self, texts: Sequence[str], prediction: Prediction) -> list[Block]:
        best = prediction["best"]
        others = [(found["text"], found["probability"]) for found in best]
        if not prediction["text"]:
            return [Headline("The text holds no answer"), *([Shares(others, "If there were one")] if best else [])]
        context, start = texts[1], best[0]["start"]
        stop = start + len(best[0]["text"])
        marked = Marked([Piece(context[:start]), Piece(context[start:stop], 1), Piece(context[stop:])])
        return [Headline(prediction["text"]), marked, Shares(others, "Answers that were considered")]

    def fits(self, network: TaskNetwork) -> bool:
        return isinstance(network.head, AnswerHead)

    def calibrate(self, examples: Sequence[Question], predictions: Sequence[Prediction]) -> dict[str, Any]:
        return {"null_threshold": _grade(examples, predictions).threshold("f1")} if self.unanswerable else {}

    def features(
        self, examples: Sequence[Question], tokenizer: Tokenizer, max_length: int, notes: Notes, training: bool
    ) -> list[Window]:
        return cut_windows(examples, tokenizer, max_length, notes, training)

    def head(self, encoder: Body) -> AnswerHead:
        make = QuestionAnsweringHead if self._paper_head else find_head(f"{encoder.family}ForQuestionAnswering")
        head: AnswerHead = make(encoder.config)
        return head

    def batch(self, features: Sequence[Window], rows: int, length: int) -> Batch:
        names = ("first", "last", "context_begin", "context_end", "starts_begin", "starts_end")
        bounds = torch.zeros(rows, len(names), dtype=torch.long)
        for row, window in enumerate(features):
            found = [*(window.target or (0, 0)), window.begin, window.end, window.starts.start, window.starts.stop]
            bounds[row] = torch.tensor(found)
        return dict(zip(names, bounds.unbind(1), strict=True))

    def loss(self, head: AnswerHead, hidden: Tensor, batch: Batch) -> Tensor:
        spans = score_spans(head, hidden, _allowed(hidden, batch), lambda start: batch["first"][:, None])
        start = F.cross_entropy(spans.start, batch["first"], reduction="none")
        end = F.cross_entropy(spans.end[:, 0], batch["last"], reduction="none")
        losses = (start + end) / 2
        if self.unanswerable and spans.unanswerable is not None:
            truth = batch["first"].eq(0).float()
            answerability = F.binary_cross_entropy_with_logits(spans.unanswerable, truth, reduction="none")
            losses = losses + UNANSWERABLE_WEIGHT * answerability
        return mean_where(losses, batch["weights"])

    def outputs(self, head: AnswerHead, hidden: Tensor, batch: Batch) -> Batch:
        """Return the best spans of each window; the scores of all spans would not fit into memory."""
        candidates = _between(hidden, batch["starts_begin"], batch["starts_end"])
        return best_spans(head, hidden, _allowed(hidden, batch), candidates, batch["context_end"])._asdict()

    def predictions(
        self, examples: Sequence[Question], features: Sequence[Window], outputs: Sequence[Output]
    ) -> list[Prediction]:
        pairs = zip(features, outputs, strict=True)
        found = []
        for question, (_, windows) in zip(examples, groupby(pairs, lambda pair: pair[0].example), strict=True):
            best, odds = best_answers(windows)
            prediction = {"id": question.id, "text": best[0]["text"] if best else ""}
            if self.unanswerable:
                prediction |= {"text": "" if odds > self.threshold else prediction["text"], "null_odds": odds}
            found.append(prediction | {"best": best})
        return found

    def score(self, examples: Sequence[Question], predictions: Sequence[Prediction]) -> dict[str, float]:
        if not self.unanswerable:
            return score_answers(list(map(best_text, predictions)), list(map(_known, examples)))
        graded = _grade(examples, predictions)
        return graded.at(self.threshold) | {f"best_{name}": graded.best(name).score for name in graded.scores}

    def note_unanswerable(self, questions: Sequence[Question], notes: Notes) -> None:
        """Note questions without an answer if training had none: the model always returns one."""
        count = 0 if self.unanswerable else sum(question.answers == () for question in questions)
        notes.add("questions without an answer, which the model cannot predict", count)

    def is_labeled(self, example: Question) -> bool:
        return example.answers is not None

    def files(self, examples: Sequence[Question], predictions: Sequence[Prediction]) -> dict[str, str]:
        contents = {"predictions.json": {prediction["id"]: prediction["text"] for prediction in predictions}}
        if self.unanswerable:
            from scipy.special import expit  # imported here because it takes a second

            odds = {prediction["id"]: prediction["null_odds"] for prediction in predictions}
            contents["na_prob.json"] = {name: float(expit(value)) for name, value in odds.items()}
        contents["nbest_predictions.json"] = {prediction["id"]: prediction["best"] for prediction in predictions}
        return {name: to_json(content, indent=2, ensure_ascii=False) for name, content in contents.items()}


def serve(network: TaskNetwork) -> Served | None:
    """Use a model that another program fine-tuned to answer questions on a table; its columns are not known."""
    if not isinstance(network.head, AnswerHead):
        return None
    columns = {"kind": "answering", "text": "question", "pair": "context", "label": "answers"}
    return Served("table", {"columns": columns, "unanswerable": False})


def best_text(prediction: Prediction) -> str:
    """Return the best text of a prediction, even if it was withheld."""
    return str(prediction["best"][0]["text"]) if prediction["best"] else ""


def _grade(examples: Sequence[Question], predictions: Sequence[Prediction]) -> Graded:
    odds = [prediction["null_odds"] for prediction in predictions]
    return grade(list(map(best_text, predictions)), odds, list(map(_known, examples)))


def _known(question: Question) -> list[str]:
    if question.answers is None:
        raise TaskError(f"question {question.id} has no answers, so predictions cannot be scored")
    return [answer.text for answer in question.answers]


def _between(hidden: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """Return a (B, L) mask of the tokens from `begin` (B,) to before `end` (B,)."""
    positions = torch.arange(hidden.size(1), device=hidden.device)
    return (begin[:, None] <= positions) & (positions < end[:, None])


def _allowed(hidden: Tensor, batch: Batch) -> Tensor:
    """Return a (B, L) mask of possible starts and ends: [CLS], the context and, as in the original, [SEP]."""
    first = torch.arange(hidden.size(1), device=hidden.device).eq(0)
    return first | _between(hidden, batch["context_begin"], batch["context_end"] + 1)
