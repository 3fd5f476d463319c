"""The public datasets: SQuAD (a JSON tree), MRQA (JSON lines with one context each), records with one question each."""

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, starmap
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ValidationError, model_validator

from electra.config.finetune import FinetuneConfig
from electra.data.reading.records import read_rows
from electra.data.reading.sources import Source, read_chunks
from electra.errors import TaskError
from electra.tasks.answering.questions import Answer, Question, make_question
from electra.tasks.answering.task import QuestionAnswering
from electra.tasks.base import HUB, Known, Notes, Split, contents, hub_sources


class Dataset(NamedTuple):
    """The files of a dataset, and whether it has questions without an answer."""

    files: tuple[str, ...]  # possible names, in order of preference
    hub: str = "plain_text"  # config of the dataset on the hub
    unanswerable: bool = False


DATASETS = {
    "squad-1.1": Dataset(("{split}-v1.1.json", "{split}.json")),
    "squad-2.0": Dataset(("{split}-v2.0.json", "{split}.json"), hub="squad_v2", unanswerable=True),
    "mrqa": Dataset(("{split}.jsonl", "{split}.jsonl.gz")),
}


class DatasetAnswering(QuestionAnswering):
    """Question answering on one of the public datasets."""

    def __init__(self, name: str, config: FinetuneConfig, known: Known) -> None:
        self.dataset = DATASETS[name]
        super().__init__(name, config.head, self.dataset.unanswerable, known)
        self._data, self._file = config.data, config.file

    def read(self, split: Split, notes: Notes) -> list[Question]:
        sources = self._sources(split)
        questions = checked(chain.from_iterable(map(read_questions, sources)), sources[0])
        self.note_unanswerable(questions, notes)
        return questions

    def inputs(self, source: str, notes: Notes) -> Iterator[Question]:
        return read_questions(source)

    def _sources(self, split: Split) -> list[str]:
        named = self._file(split)
        on_hub, folder = hub_sources(self._data, self.dataset.hub, HUB[split], [self.name])
        if on_hub and not named:
            return on_hub
        names = [named] if named else [name.format(split=split) for name in self.dataset.files]
        for path in (folder / name for name in names):
            if path.is_file():
                return [str(path)]
        raise TaskError(f"no {' or '.join(names)} in {folder}; found {contents(folder)}")


Layout = TypeVar("Layout", bound=BaseModel)
Asked = TypeVar("Asked", bound=BaseModel)  # a question of SQuAD or MRQA


class _Context(BaseModel, Generic[Asked]):
    context: str
    qas: list[Asked]


class _SquadAnswer(BaseModel):
    text: str
    answer_start: int


class _SquadQuestion(BaseModel):
    id: str | int
    question: str
    answers: list[_SquadAnswer] | None = None  # missing in a test file
    is_impossible: bool = False  # not in SQuAD 1.1


class _SquadArticle(BaseModel):
    paragraphs: list[_Context[_SquadQuestion]]


class _SquadFile(BaseModel):
    data: list[_SquadArticle]


class _Detected(BaseModel):
    text: str
    char_spans: list[tuple[int, int]]  # the last character is included


class _MrqaQuestion(BaseModel):
    qid: str
    question: str
    answers: list[str] | None = None
    detected_answers: list[_Detected] = []


class _HubAnswers(BaseModel):
    text: list[str]
    answer_start: list[int]

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.text) != len(self.answer_start):
            raise ValueError(f"{len(self.text)} texts, but {len(self.answer_start)} positions")
        return self

    def answers(self) -> tuple[Answer, ...]:
        return tuple(starmap(Answer, zip(self.text, self.answer_start, strict=True)))


class _Record(BaseModel):
    id: str | int | None = None
    question: str
    context: str
    answers: _HubAnswers | list[str] | str | None = None  # SQuAD on the hub has positions, other tables only texts


def read_questions(source: str) -> Iterator[Question]:
    """Read questions from a `.json` file of SQuAD, or else from records of MRQA or with one question each.

    Records are read one by one from JSON lines, a table or a dataset of the hub; "-" is standard input.
    """
    return _squad(source) if ".json" in Path(source).suffixes[-2:] else _records(source)


def checked(questions: Iterable[Question], where: str) -> list[Question]:
    """Return all questions; refuse an empty file, and repeated ids, which identify predictions."""
    listed = list(questions)
    if not listed:
        raise TaskError(f"{where} has no questions")
    counts = Counter(question.id for question in listed)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise TaskError(f"{where}: id {repeated[0]} occurs twice; each question needs a unique id")
    return listed


def _squad(source: str) -> Iterator[Question]:
    content = b"".join(read_chunks(Source(source, "jsonl"))).removeprefix(BOM_UTF8)
    tree = _parse(_SquadFile, content, f"{source} is not a SQuAD file")
    for paragraph in (paragraph for article in tree.data for paragraph in article.paragraphs):
        for entry in paragraph.qas:
            known = () if entry.is_impossible else entry.answers
            answers = None if known is None else tuple(Answer(answer.text, answer.answer_start) for answer in known)
            yield Question(str(entry.id), entry.question, paragraph.context, answers)


def _records(source: str) -> Iterator[Question]:
    for number, (where, record) in enumerate(read_rows(source), 1):
        if "qas" in record:
            part = _parse(_Context[_MrqaQuestion], record, f"{where} is not an MRQA record")
            yield from (_mrqa(entry, part.context) for entry in part.qas)
        elif "header" not in record:  # the first line of MRQA's files
            found = _parse(_Record, record, f"{where} is not a question with its context")
            name = str(number if found.id is None else found.id)
            if isinstance(found.answers, _HubAnswers):
                yield Question(name, found.question, found.context, found.answers.answers())
            else:
                answers = [found.answers] if isinstance(found.answers, str) else found.answers
                yield make_question(name, found.question, found.context, answers)


def _mrqa(entry: _MrqaQuestion, context: str) -> Question:
    """Put answers with a known position first: training uses the first that occurs in the context.

    If no answer is spelled like a detected one, the first answer gets the first detected position.
    """
    if entry.answers is None:
        return Question(entry.qid, entry.question, context)
    detected = [found for found in entry.detected_answers if found.char_spans]
    places = {found.text.lower(): found.char_spans[0] for found in reversed(detected)}
    if detected and places.keys().isdisjoint(map(str.lower, entry.answers)):
        places = {text.lower(): detected[0].char_spans[0] for text in entry.answers[:1]}
    spans = {text: (first, last + 1) for text, (first, last) in places.items()}
    answers = [Answer(text, *spans.get(text.lower(), ())) for text in entry.answers]
    ordered = tuple(sorted(answers, key=lambda answer: answer.start is None))
    return Question(entry.qid, entry.question, context, ordered)


def read_answers(raw: Mapping[str, Any], where: str) -> tuple[Answer, ...]:
    """Read answers in the hub's format: a list of texts and a list of their positions."""
    return _parse(_HubAnswers, raw, f"{where} has no answers with positions").answers()


def _parse(layout: type[Layout], raw: Mapping[str, Any] | bytes, complaint: str) -> Layout:
    """Check a record or the content of a file; the error names the first invalid field."""
    try:
        return layout.model_validate_json(raw) if isinstance(raw, bytes) else layout.model_validate(raw)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        message = first["msg"][:1].lower() + first["msg"][1:]
        raise TaskError(f"{complaint}: {place}: {message}") from None
