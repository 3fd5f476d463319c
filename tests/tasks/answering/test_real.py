"""The published SQuAD files, where they are at hand."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from electra.config.load import load_finetune_config
from electra.data.tokens.tokenizer import load_tokenizer
from electra.tasks.answering.files import DatasetAnswering, read_questions
from electra.tasks.answering.questions import locate
from electra.tasks.answering.scores import normalize
from electra.tasks.base import Notes

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the tasks of ../shared/data")


@pytest.fixture(scope="module")
def squad(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("squad")
    for version in ("1.1", "2.0"):
        with tarfile.open(SHARED / f"tasks/squad-{version}.tar.xz") as pack:
            pack.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(
    ("file", "questions", "unanswerable"),
    [
        pytest.param("squad-1.1/train-v1.1.json", 87_599, 0, marks=pytest.mark.slow),
        ("squad-1.1/dev-v1.1.json", 10_570, 0),
        pytest.param("squad-2.0/train-v2.0-partial.json", 87_599 + 17_416, 17_416, marks=pytest.mark.slow),
        ("squad-2.0/dev-v2.0.json", 11_873, 5_945),
    ],
)
def test_files_hold_the_official_number_of_questions(squad, file, questions, unanswerable):
    found = list(read_questions(str(squad / file)))
    assert len(found) == questions
    assert sum(question.answers == () for question in found) == unanswerable


def perfect(window, question) -> dict[str, np.ndarray]:
    """The spans of a model that knows every right answer and where the window has it."""
    spans = []
    for answer in question.answers:
        tokens = window.context.tokens(locate(answer, question.context))
        first, last = (token - window.skipped + window.begin for token in tokens)
        if first in window.starts and last < window.end:
            text, _ = window.answer(first, last)
            spans.append((-float(text != answer.text) - (not normalize(text)), first, last))  # two answers are "."
    score, first, last = zip(*sorted(spans, reverse=True), strict=True) if spans else ([-np.inf], [0], [0])
    odds = -5.0 if spans else 5.0
    return {"score": np.array(score), "first": np.array(first), "last": np.array(last), "null_odds": np.array(odds)}


@pytest.mark.parametrize(("version", "wrong"), [pytest.param("1.1", 1, marks=pytest.mark.slow), ("2.0", 0)])
def test_right_answers_put_through_windows_and_back_score_in_full(squad, version, wrong):
    """All but one question of 1.1, whose answers are all "four" out of "fourth"."""
    task = DatasetAnswering(f"squad-{version}", load_finetune_config("squad", [f"data={squad}"]), {})
    examples = task.read("dev", Notes())
    notes = Notes()
    windows = task.features(examples, load_tokenizer(SHARED / "vocab/vocab.txt"), 384, notes, training=False)
    assert len(windows) > len(examples)
    assert [what.split()[-1] for what in notes.counts] == ["predicted"]  # a few answers are long
    outputs = [perfect(window, examples[window.example]) for window in windows]
    scores = task.score(examples, task.predictions(examples, windows, outputs))
    assert scores["exact"] == pytest.approx(1 - wrong / len(examples))
    assert scores["f1"] == pytest.approx(scores["exact"])
