import gzip
import json

import pytest

from electra.errors import TaskError
from electra.tasks.answering.files import checked, read_questions
from electra.tasks.answering.questions import Answer, Question, locate


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_squad_file_gives_its_questions_in_order(squad_folder):
    first, second, third = read_questions(str(squad_folder / "dev-v2.0.json"))
    assert (first.id, first.question) == ("a", "Who cooked?")
    assert first.context.startswith("The chef")
    assert first.answers == (Answer("The chef", 0), Answer("chef", 4))
    assert second.answers == (Answer("the cat", 29),)
    assert third.answers == ()


def test_a_test_file_without_answers_is_read(tmp_path):
    tree = {"data": [{"paragraphs": [{"context": "A cat.", "qas": [{"id": "1", "question": "Who?"}]}]}]}
    assert list(read_questions(write(tmp_path / "test.json", tree))) == [Question("1", "Who?", "A cat.")]


def test_the_answers_that_2_0_calls_plausible_do_not_count(tmp_path):
    answer = {"text": "cat", "answer_start": 2}
    asked = {"id": "1", "question": "Who?", "is_impossible": True, "plausible_answers": [answer]}
    tree = {"data": [{"paragraphs": [{"context": "A cat.", "qas": [asked]}]}]}
    assert next(read_questions(write(tmp_path / "dev.json", tree))).answers == ()


MRQA = {
    "id": "",
    "context": "A cat sat. A cat ate.",
    "qas": [
        {
            "qid": "q1",
            "question": "Who sat?",
            "answers": ["the cat", "Cat"],
            "detected_answers": [{"text": "cat", "char_spans": [[2, 4], [13, 15]], "token_spans": [[1, 1], [5, 5]]}],
        }
    ],
}


def test_mrqa_is_read_compressed_with_its_first_detected_place(tmp_path):
    lines = json.dumps({"header": {"dataset": "Cats"}}) + "\n" + json.dumps(MRQA) + "\n"
    (tmp_path / "dev.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    [question] = read_questions(str(tmp_path / "dev.jsonl.gz"))
    assert question == Question("q1", "Who sat?", "A cat sat. A cat ate.", (Answer("Cat", 2, 5), Answer("the cat")))


def test_mrqa_has_a_place_to_learn_from_where_its_answers_are_spelt_otherwise(tmp_path):
    asked = MRQA["qas"][0] | {"answers": ["Kitty", "Felix"]}
    [question] = read_questions(write(tmp_path / "dev.jsonl", json.dumps(MRQA | {"qas": [asked]})))
    assert question.answers == (Answer("Kitty", 2, 5), Answer("Felix"))
    assert locate(question.answers[0], question.context) == (2, 5)


def test_mrqa_without_answers_is_read(tmp_path):
    lines = json.dumps({"context": "A cat.", "qas": [{"qid": "1", "question": "Who?"}]})
    assert list(read_questions(write(tmp_path / "test.jsonl", lines))) == [Question("1", "Who?", "A cat.")]


def test_a_file_of_the_hub_has_lists_of_answers_and_places(tmp_path):
    import pyarrow
    from pyarrow import parquet

    answers = [{"text": ["cat", "A cat"], "answer_start": [2, 0]}, {"text": [], "answer_start": []}]
    columns = {"id": ["a", "b"], "title": ["", ""], "context": ["A cat."] * 2, "question": ["Who?", "Why?"]}
    parquet.write_table(pyarrow.table(columns | {"answers": answers}), tmp_path / "validation-0.parquet")
    assert list(read_questions(str(tmp_path / "validation-0.parquet"))) == [
        Question("a", "Who?", "A cat.", (Answer("cat", 2), Answer("A cat", 0))),
        Question("b", "Why?", "A cat.", ()),
    ]


def test_lines_may_be_plain_questions(tmp_path):
    lines = '{"question": "Who?", "context": "A cat."}\n\n{"id": "x", "question": "?", "context": "", "answers": []}\n'
    found = list(read_questions(write(tmp_path / "a.jsonl", lines)))
    assert found == [Question("1", "Who?", "A cat."), Question("x", "?", "", ())]


def test_a_table_may_have_one_answer_for_each_question(tmp_path):
    table = write(tmp_path / "a.csv", "question,context,answers\nWho?,A cat.,cat\n")
    assert list(read_questions(table)) == [Question("1", "Who?", "A cat.", (Answer("cat"),))]


def test_a_squad_file_may_begin_with_the_mark_that_windows_writes(tmp_path):
    tree = {"data": [{"paragraphs": [{"context": "A cat.", "qas": [{"id": "7", "question": "Who?"}]}]}]}
    (tmp_path / "a.json").write_text(json.dumps(tree), encoding="utf-8-sig")
    assert list(read_questions(str(tmp_path / "a.json"))) == [Question("7", "Who?", "A cat.")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n", r"a\.json is not a SQuAD file: the file: invalid JSON"),
        ([], "is not a SQuAD file: the file: input should be an object"),
        ({"rows": []}, "is not a SQuAD file: data: field required"),
        (
            {"data": [{"paragraphs": [{"context": 1, "qas": []}]}]},
            r"data\.0\.paragraphs\.0\.context: input should be a",
        ),
        ({"data": []}, "has no questions"),
        ({"data": [{"paragraphs": [{"context": "", "qas": [{"id": "7", "question": ""}] * 2}]}]}, "id 7 occurs twice"),
    ],
)
def test_what_is_no_squad_file_is_refused_in_one_line(tmp_path, content, message):
    with pytest.raises(TaskError, match=message) as caught:
        checked(read_questions(write(tmp_path / "a.json", content)), "a.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"context": "a", "qas": [{"question": "b"}]}',
            r"a\.jsonl line 2 is not an MRQA record: qas\.0\.qid: field req",
        ),
        ('{"text": "a"}', r"a\.jsonl line 2 is not a question with its context: question: field required"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, message):
    with pytest.raises(TaskError, match=message):
        list(read_questions(write(tmp_path / "a.jsonl", f"\n{line}\n")))
