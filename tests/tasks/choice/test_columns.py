import json
import re

import pytest

from electra.config.load import load_finetune_config
from electra.errors import ElectraError
from electra.tasks.base import Notes
from electra.tasks.build import build_task
from electra.tasks.choice.columns import Choice

COPA = [
    {"premise": "The cat sat.", "choice1": "It was good.", "choice2": "It ate.", "question": "cause", "label": 0},
    {"premise": "A dog ate.", "choice1": "It sat.", "choice2": "It was good.", "question": "effect", "label": 1},
]
SWAG = """,video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label
0,a,1,The cat sat. It,The cat sat.,It,gold,ate.,sat.,was good.,cooked.,2
1,b,2,"A dog, a chef",A dog,a chef,gen,ate.,sat.,was.,cooked.,0
"""
HELLASWAG = [
    {"ind": 4, "ctx_a": "A cat", "ctx_b": "sat", "ctx": "A cat sat", "endings": ["a", "b", "c", "d"], "label": 3},
    {"ind": 9, "ctx_a": "A dog", "ctx_b": "ate", "ctx": "A dog ate", "endings": ["e", "f", "g", "h"], "label": 0},
]
XML = """<?xml version="1.0"?><copa-corpus version="1.0">
<item id="1" asks-for="cause" most-plausible-alternative="1"><p>It sat.</p><a1>Soup.</a1><a2>Mat.</a2></item>
<item id="2" asks-for="effect" most-plausible-alternative="2"><p>It ate.</p><a1>Cat.</a1><a2>Dog.</a2></item>
</copa-corpus>
"""


def lines(rows: list[dict]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def make(tmp_path):
    """Write files, and make the task that they are for."""

    def make(files: dict[str, str], *overrides: str, data=tmp_path):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        return build_task(load_finetune_config("choice", [f"data={data}", *overrides]))

    return make


def table(rows: list[dict], *overrides: str) -> tuple:
    return ({"train.jsonl": lines(rows), "dev.jsonl": lines(rows)}, *overrides)


def test_copa_is_read_as_superglue_publishes_it(make):
    hidden = [{key: value for key, value in row.items() if key != "label"} | {"idx": 7} for row in COPA]
    task = make({"train.jsonl": lines(COPA), "val.jsonl": lines(COPA), "test.jsonl": lines(hidden)})
    assert task.detected() == [
        "table.text=premise,question table.pair=choice1,choice2 table.label=label",
        "2 options per example; labels count from 0",
    ]
    assert task.read("dev", Notes()) == [
        Choice("The cat sat. What was the cause of this?", ("It was good.", "It ate."), 0),
        Choice("A dog ate. What happened as a result?", ("It sat.", "It was good."), 1),
    ]
    assert [example.right for example in task.read("test", Notes())] == [None, None]


def test_the_original_copa_is_xml_and_counts_from_one(make):
    task = make({"copa-dev.xml": XML, "copa-test.xml": XML}, "train_file=copa-dev.xml", "dev_file=copa-test.xml")
    assert task.read("dev", Notes()) == [
        Choice("It sat. What was the cause of this?", ("Soup.", "Mat."), 0, "1"),
        Choice("It ate. What happened as a result?", ("Cat.", "Dog."), 1, "2"),
    ]


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        ("<copa", "copa.xml is not XML"),
        (XML.replace('alternative="2"', 'alternative="3"'), "copa.xml item 2: most-plausible-alternative is '3'"),
        (XML.replace("<a2>Dog.</a2>", ""), "copa.xml item 2: option 2 of 2 is empty"),
    ],
)
def test_xml_that_is_not_copas_is_refused(make, tmp_path, xml, reason):
    with pytest.raises(ElectraError, match=reason):
        make({"copa.xml": xml}, data=tmp_path / "copa.xml")


def test_swag_is_read_as_published(make):
    header, first, second, _ = SWAG.split("\n")
    hidden = "\n".join(line.rpartition(",")[0] for line in (header, first, second)) + "\n"
    task = make({"train.csv": SWAG, "val.csv": SWAG, "test.csv": hidden})
    assert task.detected()[0] == ("table.text=startphrase table.pair=ending0,ending1,ending2,ending3 table.label=label")
    assert task.detected()[-1] == "not used: video-id, fold-ind, sent1, sent2, gold-source"
    first, second = task.read("dev", Notes())
    assert first == Choice("The cat sat. It", ("ate.", "sat.", "was good.", "cooked."), 2)
    assert (second.context, second.right) == ("A dog, a chef", 0)
    assert [example.right for example in task.read("test", Notes())] == [None, None]


def test_hellaswag_is_read_as_published(make):
    hidden = lines([{key: value for key, value in row.items() if key != "label"} for row in HELLASWAG])
    files = {"train": lines(HELLASWAG), "val": lines(HELLASWAG), "test": hidden}
    task = make({f"hellaswag_{split}.jsonl": text for split, text in files.items()})
    assert task.detected()[0] == "table.text=ctx table.pair=endings table.label=label table.id=ind"
    assert task.read("dev", Notes())[0] == Choice("A cat sat", ("a", "b", "c", "d"), 3, 4)
    assert [(example.right, example.id) for example in task.read("test", Notes())] == [(None, 4), (None, 9)]


@pytest.mark.parametrize("hidden", [-1, "-1", "", None])
def test_a_test_split_of_the_hub_hides_its_labels(make, hidden):
    task = make(table(COPA)[0] | {"test.jsonl": lines([row | {"label": hidden} for row in COPA])})
    assert [example.right for example in task.read("test", Notes())] == [None, None]


def test_parquet_is_read_too(make, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(HELLASWAG), tmp_path / "train.parquet")
    assert [example.right for example in make({}, "dev_file=train.parquet").read("dev", Notes())] == [3, 0]


OPTIONS = ["soup", "mat", "cat"]


@pytest.mark.parametrize(
    ("labels", "meaning"),
    [
        ([0, 2, 1], "labels count from 0"),
        (["0", "2", "1"], "labels count from 0"),
        ([1, 3, 2], "labels count from 1"),
        (["A", "C", "b"], "labels are letters from A"),
        (["soup", "cat", "mat "], "labels repeat the option"),
    ],
)
def test_labels_are_read_as_fits_all_rows(make, labels, meaning):
    rows = [{"question": "what", "options": OPTIONS, "answer": label} for label in labels]
    task = make(*table(rows))
    assert task.detected()[1] == f"3 options per example; {meaning}"
    assert [example.right for example in task.read("dev", Notes())] == [0, 2, 1]


def test_numbers_as_options_are_not_taken_for_the_places_that_labels_count(make):
    rows = [{"question": "what", "options": ["2", "0", "1"], "answer": label} for label in ("0", "2", "1")]
    assert [example.right for example in make(*table(rows)).read("dev", Notes())] == [0, 2, 1]
    rows = [{"question": "what", "options": ["7", "8", "0"], "answer": label} for label in ("0", "7", "8")]
    assert [example.right for example in make(*table(rows)).read("dev", Notes())] == [2, 0, 1]


def test_options_may_have_names_as_on_the_hub(make):
    choices = {"text": ["soup", "mat"], "label": ["1", "2"]}
    rows = [{"id": str(number), "question": "what", "choices": choices, "answerKey": "1"} for number in range(2)]
    assert [example.right for example in make(*table(rows)).read("dev", Notes())] == [0, 0]


def test_columns_can_be_set(make):
    rows = [{"story": "a b", "last": "c", "one": "x", "two": "y", "right": "two", "key": 3}] * 2
    rows = [row | {"right": row["two"]} for row in rows]
    keys = ["table.text=story,last", "table.pair=one, two", "table.label=right", "table.id=key"]
    task = make(*table(rows, *keys))
    assert task.read("dev", Notes())[0] == Choice("a b c", ("x", "y"), 1, 3)
    assert task.detected()[0] == "table.text=story,last table.pair=one,two table.label=right table.id=key"


def test_options_in_one_cell_need_a_separator(make):
    files = {"train.csv": "text,options,label\na,x|y,0\nb,x|y|z,2\n"}
    with pytest.raises(ElectraError, match=r"train\.csv line 2: column 'options' has no list.*set table\.separator"):
        make(files)
    task = make(files, "table.separator=|", "dev_file=train.csv")
    assert [example.options for example in task.read("dev", Notes())] == [("x", "y"), ("x", "y", "z")]
    assert task.detected()[1].startswith("2 to 3 options")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"label": 4}, r"line 3: label 4 is none of the 4 options (labels count from 0)"),
        ({"label": "9" * 400}, r"line 3: label '99"),
        ({"label": -1}, r"line 3: label -1 is none of the 4 options"),
        ({"label": "grass"}, r"line 3: label 'grass' is none of the 4 options"),
        ({"label": None}, r"line 3: label None is none of the 4 options"),
        ({"endings": ["a", " ", "c"]}, r"line 3: option 2 of 3 is empty"),
        ({"endings": ["a", None]}, r"line 3: option 2 of 2 is empty"),
        ({"endings": ["a"]}, r"line 3: 1 options; an example needs at least two"),
        ({"endings": []}, r"line 3: 0 options; an example needs at least two"),
        ({"endings": "a b"}, r"line 3: column 'endings' has no list of options"),
    ],
)
def test_a_bad_example_is_refused_in_one_line_with_its_place(make, change, reason):
    rows = [*HELLASWAG, HELLASWAG[0] | change]
    with pytest.raises(ElectraError, match=re.escape(f"train.jsonl {reason}")) as caught:
        make(*table(rows)).read("train", Notes())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "overrides", "reason"),
    [
        ({"a": "x", "options": ["y", "z"], "label": 0}, [], "which column has the context? set table.text; found a,"),
        ({"text": "x", "b": ["y", "z"], "label": 0}, [], "which column has the options? set table.pair"),
        ({"text": "x", "options": ["y", "z"]}, [], "which column has the right option? set table.label"),
        ({"text": "x", "options": ["y", "z"], "label": 0}, ["table.pair=optoins"], "did you mean options?"),
    ],
)
def test_columns_that_are_not_found_are_asked_for(make, row, overrides, reason):
    with pytest.raises(ElectraError, match=re.escape(reason)):
        make(*table([row], *overrides))
