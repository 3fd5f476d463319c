import pytest

from electra.config.tasks import TableConfig
from electra.data.reading.records import Row
from electra.errors import TaskError
from electra.tasks.table.columns import Columns
from electra.tasks.table.detect import find_columns


def detect(*cells: dict, **settings) -> Columns:
    rows = [Row(f"t.csv line {number}", row) for number, row in enumerate(cells, 2)]
    return find_columns(rows, TableConfig(**settings))


def table(**columns: list) -> list[dict]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


SAID = ["good soup today", "bad bread again", "the cheese was good", "no rice for me"]
MORE = ["he ate the soup", "she left the bread", "they had cheese", "we went home"]
CLASSES = ["yes", "no", "yes", "no"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"text": SAID, "label": CLASSES}, Columns("classification", "text", None, "label")),
        ({"Label": CLASSES, "Review": SAID}, Columns("classification", "Review", None, "Label")),
        (
            {"id": [1, 2, 3, 4], "sentence1": SAID, "sentence2": MORE, "label": CLASSES},
            Columns("classification", "sentence1", "sentence2", "label", "id"),
        ),
        (
            {"premise": SAID, "hypothesis": MORE, "gold_label": CLASSES},
            Columns("classification", "premise", "hypothesis", "gold_label"),
        ),
        ({"one": SAID, "other": MORE, "verdict": CLASSES}, Columns("classification", "one", "other", "verdict")),
        ({"said": SAID, "mood": CLASSES}, Columns("classification", "said", None, "mood")),
        ({"text": SAID, "stars": ["1", "5", "4", "1"]}, Columns("classification", "text", None, "stars")),
        ({"text": SAID, "score": ["1.5", "5", "4", "1"]}, Columns("regression", "text", None, "score")),
        ({"text": SAID, "score": [0.1, 2.0, 3.0, 1.0]}, Columns("regression", "text", None, "score")),
        (
            {"text": SAID, "labels": ["a|b", "a", "b", "b|a"]},
            Columns("multilabel", "text", None, "labels", separator="|"),
        ),
        (
            {"text": SAID, "labels": [["a", "b"], [], ["b"], ["a"]]},
            Columns("multilabel", "text", None, "labels", separator=","),
        ),
        (
            {"tokens": [["a", "cat"]] * 4, "ner_tags": [["O", "B-X"]] * 4},
            Columns("tagging", "tokens", None, "ner_tags"),
        ),
        ({"words": ["a cat"] * 4, "tags": ["O O"] * 4}, Columns("tagging", "words", None, "tags")),
        (
            {"question": SAID, "context": MORE, "answer": ["soup", "bread", "cheese", "home"]},
            Columns("answering", "question", "context", "answer"),
        ),
    ],
)
def test_columns_are_told_by_their_names_and_by_what_they_hold(columns, expected):
    assert detect(*table(**columns)) == expected


def test_many_whole_numbers_are_values():
    rows = table(text=[f"text {number}" for number in range(30)], score=list(map(str, range(30))))
    assert detect(*rows).kind == "regression"


@pytest.mark.parametrize(
    ("first", "later", "kind"),
    [
        (["1", "2"], ["2.5"], "regression"),
        (["1", "2"], list(map(str, range(50))), "regression"),
        (["a", "b"], ["a|b", "b|a", "c|a", "b|c"], "multilabel"),
    ],
)
def test_the_kind_is_told_by_all_labels_of_a_file_that_is_sorted_by_them(first, later, kind):
    labels = [label for label in first for _ in range(600)] + later
    assert detect(*table(text=[f"text {number}" for number in range(len(labels))], label=labels)).kind == kind


@pytest.mark.parametrize("answers", [["true", "false"], [True, False], ["yes", "no"]])
def test_questions_that_are_answered_with_yes_or_no_are_classified(answers):
    rows = table(question=SAID, passage=["there was no soup, I know", *MORE[1:]], answer=answers * 2)
    assert detect(*rows) == Columns("classification", "question", "passage", "answer")


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [
        ({"text": SAID, "labels": ["['a', 'b']", "[]", '["b"]', ""]}, "labels"),
        ({"words": ["['a' 'cat']"] * 4, "tags": ["O O"] * 4}, "words"),
        ({"words": ["a cat"] * 4, "tags": ["[0, 1]"] * 4}, "tags"),
        ({"question": SAID, "context": MORE, "answers": ["{'text': ['soup'], 'answer_start': [9]}"] * 4}, "answers"),
    ],
)
def test_lists_that_are_written_as_text_are_refused(columns, wrong):
    with pytest.raises(TaskError, match=rf"line 2: column '{wrong}' has lists or records as text; use JSON lines"):
        detect(*table(**columns))


def test_labels_in_brackets_are_no_lists():
    assert detect(*table(text=SAID, label=["[yes]", "[no]"] * 2)).kind == "classification"


@pytest.mark.parametrize(
    ("labels", "kind"), [(["a;b", "a", "b;c", "a"], None), (["a|b", "", "a|b", "c|d"], "multilabel")]
)
def test_labels_are_separated_by_the_sign_that_they_have(labels, kind):
    separator = next(sign for sign in "|;" if sign in labels[0])
    assert detect(*table(text=SAID, labels=labels), kind=kind) == Columns(
        "multilabel", "text", None, "labels", separator=separator
    )


def test_a_sign_inside_of_labels_is_no_separator():
    assert detect(*table(text=SAID, label=["a|b", "c", "a|b", "c"])).kind == "classification"


def test_what_is_set_is_taken():
    rows = table(text=SAID, title=MORE, label=CLASSES, other=["1", "2", "1", "2"])
    found = detect(*rows, text="title", label="other", kind="regression")
    assert found == Columns("regression", "title", None, "other")
    assert detect(*rows, pair="title") == Columns("classification", "text", "title", "label")
    assert detect(*table(text=SAID, label=["a/b", "a", "b", ""]), separator="/").kind == "multilabel"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"label": "lable"},
            r"t\.csv line 2: no column 'lable' \(table\.label\); found text, label; did you mean label\?",
        ),
        ({"text": "body"}, r"no column 'body' \(table\.text\); found text, label"),
        ({"pair": "second"}, r"no column 'second' \(table\.pair\)"),
        ({"id": "key"}, r"no column 'key' \(table\.id\)"),
    ],
)
def test_a_missing_column_is_named_with_those_that_are_there(settings, message):
    with pytest.raises(TaskError, match=message):
        detect(*table(text=SAID, label=CLASSES), **settings)


def test_a_table_without_anything_like_a_label_is_refused():
    with pytest.raises(TaskError, match=r"which column is the label\? set table\.label, one of one, other"):
        detect(*table(one=SAID, other=MORE))


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"gender": ["f", "m"] * 2, "comment": SAID, "diagnosis": CLASSES}, "gender, diagnosis"),
        ({"출처": ["앱", "웹", "앱", "웹"], "본문": SAID, "분류": CLASSES}, "출처, 분류"),
        ({"text": SAID, "toxic": [0, 1, 1, 0], "insult": [0, 0, 1, 0]}, "toxic, insult"),
        ({"category": ["a", "b"] * 2, "review": SAID, "rating": [1, 2, 2, 1]}, "category, rating"),
        ({"topic": ["a", "b"] * 2, "text": SAID, "stance": CLASSES}, "topic, stance"),
    ],
)
def test_of_several_columns_like_labels_none_is_guessed(columns, found):
    with pytest.raises(TaskError, match=rf"which column is the label\? set table\.label, one of {found}$"):
        detect(*table(**columns))
    assert detect(*table(**columns), label=found.split(", ")[1]).label == found.split(", ")[1]


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        ({"review": SAID, "mood": CLASSES, "split": ["train", "dev"] * 2}, "mood"),
        (
            {"date": ["1", "2"] * 2, "lang": ["ko", "en"] * 2, "user_id": [7, 8] * 2, "body": SAID, "mood": CLASSES},
            "mood",
        ),
        ({"text": SAID, "annotator1": CLASSES, "annotator2": CLASSES, "gold": CLASSES}, "gold"),
        ({"text": SAID, "label": CLASSES, "category": CLASSES}, "label"),
        ({"text": SAID, "category": ["books"] * 4, "rating": [1, 2] * 2}, "rating"),
        ({"text": SAID, "lang": ["ko", "en"] * 2}, "lang"),  # the only other column
        ({"word": ["a", "b", "a", "b", "c", "c"], "kind": ["x", "y"] * 3}, "kind"),
        ({"said": ["so it was good"] * 2 + ["so it was bad"] * 2, "mood": CLASSES, "by": ["a", "a", "a", "a"]}, "mood"),
    ],
)
def test_the_label_is_told_apart_from_what_else_repeats(columns, label):
    assert detect(*table(**columns)).label == label


def test_a_table_that_is_sorted_by_its_labels_has_them_all_compared():
    rows = table(text=[f"text {n}" for n in range(2000)], mood=["a"] * 1500 + ["b"] * 500, by=["x", "y"] * 1000)
    with pytest.raises(TaskError, match=r"set table\.label, one of mood, by$"):
        detect(*rows)


def test_numbers_with_a_comma_are_told_of():
    rows = table(text=[f"text {number}" for number in range(30)], label=[f"{number},5" for number in range(30)])
    with pytest.raises(TaskError, match=r"column 'label' has decimal commas, such as 0,5; write points"):
        detect(*rows)


def test_a_single_word_among_numbers_is_told_of():
    rows = table(text=[f"text {number}" for number in range(30)], label=[*(f"{number}.5" for number in range(29)), "?"])
    with pytest.raises(TaskError, match=r"line 31: '\?' in column 'label' is not a number, unlike most values"):
        detect(*rows)


def test_a_column_of_free_text_is_no_label():
    rows = table(text=[f"text {number}" for number in range(30)], label=[f"remark {number}" for number in range(30)])
    with pytest.raises(TaskError, match=r"column 'label' has 30 different values in 30 rows, too many for labels"):
        detect(*rows)
    assert detect(*rows, kind="classification").label == "label"


def test_a_table_without_text_is_refused():
    with pytest.raises(TaskError, match=r"which column is the text\? set table\.text, one of size"):
        detect(*table(size=["1", "2", "3", "4"], label=CLASSES))
    with pytest.raises(TaskError, match=r"which column is the text\? there is no column besides the label"):
        detect(*table(label=CLASSES))


def test_what_was_detected_is_said_as_the_command_line_sets_it():
    columns = Columns("multilabel", "the text", None, "label", separator=";")
    assert str(columns) == "table.kind=multilabel table.text='the text' table.label=label table.separator=';'"


def test_a_row_in_the_place_of_the_header_is_refused():
    rows = table(**{"it was good": SAID, "a": ["a", "b", "a", "b"]})
    with pytest.raises(TaskError, match=r"^t\.csv line 2: 'a' in the header is also a label"):
        detect(*rows)
    assert detect(*rows, label="a").label == "a"


@pytest.mark.parametrize("cell", [["a", "b"], {"a": 1}])
def test_what_is_no_text_is_not_read_as_one(cell):
    with pytest.raises(TaskError, match="line 3: a list or a record instead of a text in text"):
        Columns("classification", "text", label="label").read_texts(Row("line 3", {"text": cell}))


def test_a_record_is_no_list_of_words():
    with pytest.raises(TaskError, match="line 3: a record instead of words"):
        Columns("tagging", "words", label="tags").read_words(Row("line 3", {"words": {"a": 1}}))
