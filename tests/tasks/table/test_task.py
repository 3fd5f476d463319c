import csv
import json
from datetime import datetime
from decimal import Decimal

import pytest

from electra.config.load import load_finetune_config
from electra.data.files import to_json
from electra.errors import ElectraError, TaskError
from electra.tasks.base import Notes
from electra.tasks.build import build_task
from electra.tasks.table.task import TableAnswering, TableTagging, TableTexts


@pytest.fixture
def write(tmp_path):
    """Write the splits of a table and make the task that it is for."""

    def write(train: list[dict], dev: list[dict] | None = None, *overrides: str, known=None):
        for split, rows in (("train", train), ("dev", dev or train)):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / f"{split}.jsonl").write_text(lines)
        return build_task(load_finetune_config("table", [f"data={tmp_path}", *overrides]), known)

    return write


TEXTS = [{"text": "good soup", "label": "yes"}, {"text": "bad, soup", "label": "no"}]


def test_classes_are_those_of_the_training_rows(write):
    task = write(TEXTS)
    assert isinstance(task, TableTexts)
    assert (task.labels, task.metric, task.problem) == (("no", "yes"), "accuracy", "single_label_classification")
    assert [(example.texts, example.label) for example in task.read("dev", Notes())] == [
        (("good soup",), "yes"),
        (("bad, soup",), "no"),
    ]
    assert task.detected() == ["table.kind=classification table.text=text table.label=label", "2 labels: no, yes"]


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"text": "good soup", "label": "yes"}, "table.kind=classification table.text=text table.label=label"),
        ({"words": "a cat", "tags": "O B-X"}, "table.kind=tagging table.text=words table.label=tags"),
    ],
)
def test_columns_that_are_not_used_are_named(write, row, columns):
    rows = [row, row | {"label": "no"}] if "label" in row else [row]
    task = write([{"": number, "title": "soup", "where": "here", **row} for number, row in enumerate(rows)])
    assert (task.detected()[0], task.detected()[-1]) == (columns, "not used: title, where")
    assert "not used" not in write(rows).detected()[-1]


def test_spaces_around_labels_and_names_of_columns_do_not_count(tmp_path):
    (tmp_path / "rows.csv").write_text("  text ,label \na,yes \nb, no\nc,yes\nd,no\n")
    task = build_task(load_finetune_config("table", [f"data={tmp_path / 'rows.csv'}", "table.text=text"]))
    assert task.labels == ("no", "yes")


@pytest.mark.parametrize(
    ("labels", "doubt"),
    [
        (["NA", "good", "None", "nan"], "labels that may mean that there is none: NA, None, nan"),
        (["Good", "bad", "good"], "labels that differ only in case: Good, good"),
        (
            ["a, b", "a", "b", "b, a", "a,b"],
            "if a cell has several labels, set table.kind=multilabel table.separator=,",
        ),
        (["a, b", "a", "b", "b, a"], None),
    ],
)
def test_labels_that_may_be_wrong_are_named(write, labels, doubt):
    task = write([{"text": f"soup {number}", "label": label} for number, label in enumerate(labels)])
    assert task.detected()[2:] == ([doubt] if doubt else [])


def test_a_label_with_a_comma_is_quoted(write):
    rows = [{"text": "soup", "label": "food, warm"}, {"text": "mat", "label": "thing"}]
    assert write(rows).detected()[1] == '2 labels: "food, warm", thing'
    assert write(rows, None, "table.separator=,").detected()[1] == "3 labels: food, thing, warm"


def test_numbers_are_sorted_by_their_value(write):
    rows = [{"text": "a b", "label": label} for label in (10, 9, 100)]
    assert write(rows).labels == ("9", "10", "100")


def test_labels_that_only_look_like_numbers_are_sorted_as_words(write):
    rows = [{"text": f"soup {label}", "label": label} for label in ("nan", "10", "inf", "2", "9", "7")]
    assert write(rows, None, "table.kind=classification").labels == ("2", "7", "9", "10", "inf", "nan")


def test_several_labels_at_once_come_as_lists_or_with_a_separator(write):
    lists = [{"text": "a b", "labels": ["x", "y"]}, {"text": "c d", "labels": []}, {"text": "e f", "labels": ["y"]}]
    task = write(lists)
    assert (task.labels, task.problem) == (("x", "y"), "multi_label_classification")
    assert [example.label for example in task.read("train", Notes())] == [("x", "y"), (), ("y",)]
    joined = [{"text": "a b", "labels": "x;y"}, {"text": "c d", "labels": ""}, {"text": "e f", "labels": "y; x"}]
    task = write(joined, None, "table.separator=;")
    assert [example.label for example in task.read("train", Notes())] == [("x", "y"), (), ("x", "y")]


def test_a_table_of_values_is_a_regression(write):
    task = write([{"a": "x y", "b": "x z", "score": 1.5}, {"a": "p q", "b": "p r", "score": 4}])
    assert task.problem == "regression"
    assert task.detected()[1] == "values from 1.5 to 4"
    assert [(example.texts, example.label) for example in task.read("dev", Notes())][1] == (("p q", "p r"), 4.0)


def test_a_table_of_words_and_tags_is_tagging(write):
    rows = [
        {"id": 3, "tokens": ["a", "cat"], "ner_tags": ["O", "B-X"]},
        {"id": 4, "tokens": "New York".split(), "ner_tags": ["B-X", "I-X"]},
    ]
    task = write(rows)
    assert [sentence.id for sentence in task.read("dev", Notes())] == [3, 4]
    assert isinstance(task, TableTagging)
    assert (task.labels, task.metric) == (("O", "B-X", "I-X"), "f1")
    assert task.read("dev", Notes())[1].words == ("New", "York")


@pytest.mark.parametrize("tags", [["O", "PER"], [0, 1]])
def test_it_is_shown_that_tags_do_not_mark_spans(write, tags):
    row = {"tokens": ["a", "cat"], "ner_tags": tags}
    assert write([row]).detected()[2].startswith("accuracy of single tags is scored, because they do not mark spans")
    assert len(write([row | {"ner_tags": ["O", "B-X"]}]).detected()) == 2


def test_a_table_of_questions_is_answering(write):
    rows = [
        {"id": "a", "question": "who ate?", "context": "the cat ate", "answers": ["the cat", "cat"]},
        {"id": "b", "question": "who slept?", "context": "the cat ate", "answers": {"text": [], "answer_start": []}},
        {
            "id": "c",
            "question": "what?",
            "context": "ate a cat ate",
            "answers": {"text": ["ate"], "answer_start": [10]},
        },
    ]
    task = write(rows)
    assert isinstance(task, TableAnswering)
    assert task.unanswerable
    first, second, third = task.read("dev", Notes())
    assert [answer.text for answer in first.answers] == ["the cat", "cat"]
    assert (second.id, second.answers) == ("b", ())
    assert third.answers[0].start == 10


def test_questions_whose_ids_stand_twice_are_known_by_their_rows(write):
    row = {"id": "a document", "question": "who ate?", "context": "the cat ate", "answers": ["cat"]}
    notes = Notes()
    assert [question.id for question in write([row, row, row]).read("train", notes)] == ["0", "1", "2"]
    assert dict(notes.counts) == {"questions are identified by row numbers, because ids repeat": 3}


def test_questions_without_an_answer_are_noted_where_training_has_none(write):
    row = {"question": "who ate?", "context": "the cat ate", "answer": "cat"}
    notes = Notes()
    write([row], [row | {"question": "who slept?", "answer": ""}]).read("dev", notes)
    assert notes.counts == {"questions without an answer, which the model cannot predict": 1}


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"text": "Paris", "answer_start": 3}, "has no answers with positions: text: input should be a valid list"),
        ({"text": ["Paris"], "start": [3]}, "has no answers with positions: answer_start: field required"),
        ({"text": ["Paris"], "answer_start": [3, 4]}, "1 texts, but 2 positions"),
    ],
)
def test_answers_that_are_none_are_one_line(write, answers, reason):
    good = {"question": "who ate?", "context": "the cat ate", "answers": {"text": ["cat"], "answer_start": [4]}}
    with pytest.raises(TaskError, match=reason):
        write([good, good | {"answers": answers}]).read("dev", Notes())


def test_a_task_is_made_again_from_what_a_model_knows_of_it(write, tmp_path):
    answers = {"question": "who?", "context": "a cat", "answer": "cat"}
    tags = {"words": "a cat", "tags": "O B-X"}
    values = {"text": "a cat", "score": 0.5}
    for rows in (TEXTS, [answers], [tags], [values, {**values, "score": 1}]):
        task = write(rows)
        known = json.loads(json.dumps(task.describe()))
        again = build_task(load_finetune_config("table", ["data=nowhere.csv"]), known)
        assert type(again) is type(task)
        assert (again.labels, again.metric, again.describe()) == (task.labels, task.metric, task.describe())
        assert again.detected() == task.detected()


def test_columns_can_be_called_otherwise_when_a_model_is_used(write, tmp_path):
    known = write(TEXTS).describe()
    (tmp_path / "new.csv").write_text("body\nfine soup\n")
    task = build_task(load_finetune_config("table", ["table.text=body"]), known)
    assert [example.texts for example in task.inputs(str(tmp_path / "new.csv"), Notes())] == [("fine soup",)]


def test_the_kind_of_a_model_is_fixed(write):
    known = write([{"words": "a cat", "tags": "O B-X"}]).describe()
    with pytest.raises(TaskError, match=r"was fine-tuned with table\.kind=tagging; drop table\.kind=classification"):
        build_task(load_finetune_config("table", ["table.kind=classification"]), known)


def test_columns_may_have_names_that_look_like_numbers(write):
    rows = [{"0": "good soup", "1": 1, "2": "yes"}, {"0": "bad soup", "1": 2, "2": "no"}]
    task = write(rows, rows, "table.text=0", "table.label=2")
    assert task.labels == ("no", "yes")


def test_inputs_come_from_tables_and_from_lines(write, tmp_path):
    pairs = [{"id": number, "sentence1": "a b", "sentence2": "c d", "label": number} for number in range(2)]
    task = write(pairs)
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "sentence1", "sentence2"], ["7", 'said "no", left', "two\nlines"]])
    (example,) = task.inputs(str(tmp_path / "new.csv"), Notes())
    assert (example.texts, example.id, example.label) == (('said "no", left', "two\nlines"), "7", None)
    (tmp_path / "new.txt").write_text("one\ttwo\n")
    assert [example.texts for example in task.inputs(str(tmp_path / "new.txt"), Notes())] == [("one", "two")]
    single = write(TEXTS)
    (tmp_path / "new.txt").write_text('{sic} the dog ate\n{"text": "a cat"}\n')
    assert [example.texts for example in single.inputs(str(tmp_path / "new.txt"), Notes())] == [
        ("{sic} the dog ate",),
        ("a cat",),
    ]
    for name in ("new.txt", "new.jsonl"):
        (tmp_path / name).write_text('{"text": "a cat"}\n{"text": "half a smile \\ud83d"}\n')
        with pytest.raises(ElectraError, match=rf"{name} line 2: a lone surrogate \(U\+D83D\)"):
            list(single.inputs(str(tmp_path / name), Notes()))
    (tmp_path / "words.txt").write_text("a small cat\n")
    tagging = write([{"words": "a cat", "tags": "O B-X"}])
    assert [sentence.words for sentence in tagging.inputs(str(tmp_path / "words.txt"), Notes())] == [
        ("a", "small", "cat")
    ]


@pytest.mark.parametrize("answers", [{"text": ["no position"]}, "not there"])
def test_answers_of_questions_to_predict_are_not_read(write, tmp_path, answers):
    task = write([{"question": "who ate?", "context": "the cat ate", "answers": ["the cat"]}] * 3)
    new = {"question": "who slept?", "context": "the dog slept", "answers": answers}
    (tmp_path / "new.jsonl").write_text(json.dumps(new) + "\n")
    notes = Notes()
    (question,) = task.inputs(str(tmp_path / "new.jsonl"), notes)
    assert (question.question, question.answers, notes.counts.total()) == ("who slept?", None, 0)


def test_what_cannot_be_predicted_is_named_with_its_line(write, tmp_path):
    (tmp_path / "new.jsonl").write_text('{"text": "a cat", "words": "a cat"}\n{"text": ["a"], "words": ""}\n')
    for rows, reason in [(TEXTS, "a list or a record"), ([{"words": "a cat", "tags": "O B-X"}], "without words")]:
        with pytest.raises(TaskError, match=rf"new\.jsonl line 2: .*{reason}"):
            list(write(rows).inputs(str(tmp_path / "new.jsonl"), Notes()))
    asked = write([{"question": "who?", "context": "a cat", "answer": "cat"}])
    (tmp_path / "new.jsonl").write_text('{"question": ["who?"], "context": "a cat"}\n')
    with pytest.raises(TaskError, match=r"new\.jsonl line 1: a list or a record"):
        list(asked.inputs(str(tmp_path / "new.jsonl"), Notes()))


@pytest.mark.parametrize("header", ["text", "id,text", "id,text,Review Score"])
def test_the_header_of_a_table_is_no_text_to_predict(write, tmp_path, header):
    (tmp_path / "new.txt").write_text(f"{header}\na cat\n")
    with pytest.raises(TaskError, match=r"new\.txt line 1 is the header of a table"):
        list(write(TEXTS).inputs(str(tmp_path / "new.txt"), Notes()))
    (tmp_path / "new.txt").write_text("a great, text\nbad\n")
    assert [example.texts for example in write(TEXTS).inputs(str(tmp_path / "new.txt"), Notes())] == [
        ("a great, text",),
        ("bad",),
    ]


def test_what_is_no_number_is_an_empty_cell(write, tmp_path):
    with pytest.raises(TaskError, match=r"line 3: the label in column 'label' is empty"):
        write([*TEXTS, {"text": "some soup", "label": float("nan")}])
    task, notes = write([*TEXTS, {"text": float("nan"), "label": "no"}]), Notes()
    assert task.read("train", notes)[2].texts == ("",)
    assert notes.counts == {"empty texts": 1}
    (tmp_path / "new.jsonl").write_text('{"text": NaN}\n')
    assert [example.texts for example in task.inputs(str(tmp_path / "new.jsonl"), Notes())] == [("",)]


def test_bytes_are_read_as_text(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = {"text": [b"good soup", b"bad soup"], "label": [b"yes", b"no"], "picture": [b"\xff", b"\xfe"]}
    parquet.write_table(pyarrow.table(table), tmp_path / "train.parquet")
    task = build_task(load_finetune_config("table", [f"data={tmp_path}", "table.dev_fraction=0.5"]))
    assert task.labels == ("no", "yes")
    source = str(tmp_path / "train.parquet")
    assert [example.texts for example in task.inputs(source, Notes())] == [("good soup",), ("bad soup",)]
    parquet.write_table(pyarrow.table(table | {"text": table["picture"]}), tmp_path / "train.parquet")
    with pytest.raises(TaskError, match=r"train\.parquet row 1: bytes that are not UTF-8"):
        list(task.inputs(source, Notes()))


@pytest.mark.parametrize(
    ("id", "expected"),
    [(Decimal("7.5"), "7.5"), (datetime(2026, 1, 2), "2026-01-02 00:00:00"), (b"\xff", "ff"), (b"a1", "a1"), (7, 7)],
)
def test_an_id_of_any_type_is_written_with_its_prediction(tmp_path, id, expected):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"id": [id] * 2, "text": ["good soup", "bad soup"], "label": ["yes", "no"]})
    parquet.write_table(table, tmp_path / "train.parquet")
    task = build_task(load_finetune_config("table", [f"data={tmp_path}", "table.dev_fraction=0.5"]))
    found = [example.id for example in task.inputs(str(tmp_path / "train.parquet"), Notes())]
    assert json.loads(to_json(found)) == [expected] * 2


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_tag_is_refused_and_makes_no_single_tags_of_spans(write, empty):
    rows = [{"words": ["a", "cat"], "tags": ["O", "B-X"]}, {"words": ["a", "dog"], "tags": [empty, "B-X"]}]
    with pytest.raises(TaskError, match=r"train\.jsonl line 2: an empty tag; every word needs a tag"):
        write(rows)


def test_parquet_is_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"text": ["good soup", "bad soup"], "labels": [["a", "b"], ["b"]]})
    parquet.write_table(table, tmp_path / "train.parquet")
    task = build_task(load_finetune_config("table", [f"data={tmp_path}", "table.dev_fraction=0.5"]))
    assert len(task.read("train", Notes())) == len(task.read("dev", Notes())) == 1
    assert task.labels == ("a", "b")  # whichever part they fell into


def test_empty_texts_are_noted(write):
    notes = Notes()
    write([*TEXTS, {"text": None, "label": "no"}]).read("train", notes)
    assert notes.counts == {"empty texts": 1}


@pytest.mark.parametrize(
    ("train", "dev", "overrides", "message"),
    [
        (
            TEXTS,
            [{"text": "soup", "label": "yess"}],
            [],
            r"dev\.jsonl line 1: unknown label 'yess'; known: no, yes; did you mean yes\?",
        ),
        (TEXTS, [{"text": "soup", "lable": "yes"}], [], r"dev\.jsonl line 1: no column 'label' \(table\.label\)"),
        (
            TEXTS,
            [{"txt": "soup", "label": "yes"}],
            [],
            r"no column 'text' \(table\.text\); found txt, label; did you mean txt\?",
        ),
        (TEXTS, [{"text": "soup", "label": ""}], [], r"line 1: the label in column 'label' is empty"),
        (TEXTS, None, ["table.kind=regression"], r"line 1: 'yes' is not a number"),
        (TEXTS[:1], None, [], r"which column is the label|all rows have the same label in column 'label'"),
        (
            [{"text": "a b", "score": 0.5}] * 2,
            None,
            [],
            r"all rows have the same label in column 'score', so there is nothing to learn",
        ),
        ([{"words": "a cat", "tags": "O"}], None, [], r"train\.jsonl line 1: 2 words, but 1 tags"),
        ([{"words": "", "tags": ""}], None, [], r"line 1: a sentence without words"),
        (TEXTS, None, ["table.kind=answering"], r"answering needs a column of contexts; set table\.pair"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_in_one_line(write, train, dev, overrides, message):
    with pytest.raises(ElectraError, match=message) as caught:
        write(train, dev, *overrides).read("dev", Notes())
    assert "\n" not in str(caught.value)
