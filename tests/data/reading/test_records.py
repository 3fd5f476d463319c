import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from electra.data.reading import records
from electra.data.reading.records import read_rows, read_texts
from electra.data.reading.sources import Source, find_sources
from electra.data.reading.text import read_documents
from electra.data.settings import Reading
from electra.errors import DataError


def texts(path: Path, column: str | None = None, **options) -> list[str]:
    return [passage.text for passage in read_documents([path], Reading(column=column, **options))]


def write(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def test_json_lines_are_records(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"id": "7", "text": "one\\r\\ntwo"}\n\n"three"\n{"text": null, "id": ""}\n')
    assert texts(path) == ["one\ntwo", "three"]


def test_csv_fields_may_hold_line_ends_and_quotes(tmp_path):
    path = write(tmp_path / "a.csv", 'id,text\n1,"one, ""two""\nthree"\n2,four\n')
    assert texts(path) == ['one, "two"\nthree', "four"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", '{"id": "doc-1", "text": null}\n{"id": "doc-2", "text": "one"}\n', ["one"]),
        ("a.jsonl", '{"id": "doc-1", "words": null}\n{"id": "doc-2", "words": "one and two"}\n', ["one and two"]),
        ("a.csv", "id,url,review\n1,http://a.b,ok\n2,http://a.c,a good one indeed\n", ["ok", "a good one indeed"]),
    ],
)
def test_the_text_column_is_detected_from_the_first_records(tmp_path, name, content, expected):
    assert texts(write(tmp_path / name, content)) == expected


def test_tsv_is_split_at_tabs(tmp_path):
    assert texts(write(tmp_path / "a.tsv", "text\tid\none, two\t1\n")) == ["one, two"]


def test_parquet_is_read_a_column_at_a_time(tmp_path):
    table = pyarrow.table({"id": ["a", None, "c"], "story": [None, "a long text", "another"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert texts(tmp_path / "a.parquet") == ["a long text", "another"]
    assert texts(tmp_path / "a.parquet", "id") == ["a", "c"]


def broken_text() -> pyarrow.Array:
    return pyarrow.Array.from_buffers(pyarrow.string(), 2, pyarrow.array([b"a\xffb", b"more"]).buffers())


@pytest.mark.parametrize(("invalid", "expected"), [("replace", ["a\ufffdb", "more"]), ("skip", ["ab", "more"])])
def test_invalid_bytes_in_parquet_are_handled_like_other_invalid_text(tmp_path, invalid, expected):
    parquet.write_table(pyarrow.table({"text": broken_text()}), tmp_path / "a.parquet")
    assert texts(tmp_path / "a.parquet", invalid=invalid) == expected
    with pytest.raises(DataError, match=r"a\.parquet: .*invalid UTF-8 \(U\+DCFF\) in a record; electra train"):
        texts(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"cannot read .*a\.parquet: 'utf-8' codec"):
        list(read_rows(str(tmp_path / "a.parquet")))


def test_other_columns_of_parquet_are_not_read(tmp_path):
    far_off = pyarrow.array([2**50], pyarrow.timestamp("ms"))
    parquet.write_table(pyarrow.table({"when": far_off, "story": ["once"]}), tmp_path / "a.parquet")
    assert texts(tmp_path / "a.parquet") == ["once"]
    with pytest.raises(DataError, match=r"cannot read .*a\.parquet: date value out of range"):
        texts(tmp_path / "a.parquet", "when")


def test_parquet_without_text_is_refused_with_its_columns(tmp_path):
    parquet.write_table(pyarrow.table({"id": [1], "size": [2]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: no column with text; found id, size"):
        texts(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="column id holds int, not text"):
        texts(tmp_path / "a.parquet", "id")


def test_parquet_text_may_be_any_string_type(tmp_path):
    table = {"a": pyarrow.array(["x"]).dictionary_encode(), "b": pyarrow.array(["long"], pyarrow.large_string())}
    parquet.write_table(pyarrow.table(table), tmp_path / "a.parquet")
    assert (texts(tmp_path / "a.parquet"), texts(tmp_path / "a.parquet", "a")) == (["long"], ["x"])


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_tables_with_the_same_columns_are_read_from_the_same_column(tmp_path, kind):
    for name, question, answer in [("a", "why?", "because it is so"), ("b", "and why is that again?", "no")]:
        record = {"question": question, "answer": answer}
        path = tmp_path / f"{name}.{kind}"
        if kind == "parquet":
            parquet.write_table(pyarrow.Table.from_pylist([record]), path)
        else:
            write(path, json.dumps(record) if kind == "jsonl" else f"question,answer\n{question},{answer}\n")
    assert texts(tmp_path) == ["because it is so", "no"]
    assert texts(tmp_path / f"b.{kind}") == ["and why is that again?"]


def test_a_missing_dataset_may_be_a_missing_folder(monkeypatch):
    import datasets

    def unreachable(*names, **settings):
        raise ConnectionError("Couldn't reach it")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    expected = "no file or folder texts/mine, and no such dataset on the Hugging Face Hub: Couldn't reach it"
    with pytest.raises(DataError, match=expected):
        list(read_rows("texts/mine"))


def test_a_dataset_is_streamed(tmp_path):
    write(tmp_path / "train.jsonl", '{"text": "one"}\n{"text": "two"}\n')
    assert list(read_texts(Source(str(tmp_path), "dataset"), None, [])) == ["one", "two"]


def test_a_usual_column_name_is_preferred_to_the_longest_text(tmp_path):
    path = write(tmp_path / "a.jsonl", json.dumps({"url": "http://example.org/long", "content": "short"}))
    assert texts(path) == ["short"]


def test_without_a_usual_name_the_longest_text_is_used(tmp_path):
    assert texts(write(tmp_path / "a.jsonl", '{"id": "7", "story": "once upon a time"}')) == ["once upon a time"]


def test_lone_surrogates_are_handled_like_invalid_text(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "a\\ud800b"}')
    assert texts(path, invalid="replace") == ["a\ufffdb"]


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        (
            "a.jsonl",
            '{"text": "x"}\n{"text"',
            None,
            r"a\.jsonl line 2: not a JSON record: Expecting ':' delimiter, column 8$",
        ),
        ("a.jsonl", "[" * 100_000, None, r"a\.jsonl line 1: not a JSON record"),
        ("a.jsonl", "[1]", None, "line 1: found a JSON list; each line must be an object or a string"),
        ("a.jsonl", '{"a": 1, "b": 2}', None, "line 1: no column with text; found a, b"),
        ("a.jsonl", '{"text": "x"}', "story", "line 1: no column story; found text"),
        ("a.jsonl", '{"text": "x"}\n{"story": "y"}', None, "line 2: no column text; found story"),
        ("a.jsonl", '{"text": 7}', "text", "line 1: column text holds int, not text"),
        ("a.csv", "id,text\n1\n", None, r"a\.csv line 2: 1 fields, but the header has 2"),
        ("a.csv", 'id,text\n1,a\n2,"open\n3,b\n', None, r"a\.csv line 3: a quoted field begins here and does not end"),
        ("a.csv", 'id,text\n1,"a"b\n', None, r"a\.csv line 2: ',' expected after '\"'"),
        ("a.parquet", "no parquet", None, r"cannot read .*a\.parquet"),
    ],
)
def test_a_broken_record_is_refused_with_its_location(tmp_path, name, content, column, message):
    with pytest.raises(DataError, match=message):
        texts(write(tmp_path / name, content), column)


def test_a_record_too_large_for_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RECORD_LIMIT", 100)
    with pytest.raises(DataError, match="a record has more than 100 characters"):
        texts(write(tmp_path / "a.jsonl", json.dumps({"text": "x" * 200})))


def test_parquet_from_standard_input_is_refused():
    [source] = find_sources(["-"], "parquet")[0]
    with pytest.raises(DataError, match="Parquet cannot be read from standard input"):
        list(read_texts(source, None, []))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", 'id,text\n1,"one, two"\n2,three\n'),
        ("rows.tsv", "id\ttext\n1\tone, two\n2\tthree\n"),
        ("rows.jsonl", '{"id": "1", "text": "one, two"}\n\n{"id": "2", "text": "three"}\n'),
    ],
)
def test_rows_are_records_with_their_location(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    rows = list(read_rows(str(tmp_path / name)))
    assert [row.cells for row in rows] == [{"id": "1", "text": "one, two"}, {"id": "2", "text": "three"}]
    assert rows[0].where.startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("content", "found"), [("text\na\n\n\nb\n\n\n", ["a", "", "", "b"]), ("text,id\na,1\n\nb,2\n", ["a", "b"])]
)
def test_an_empty_line_between_others_is_a_row_of_a_table_with_one_column(tmp_path, content, found):
    (tmp_path / "rows.csv").write_text(content)
    assert [row.cells["text"] for row in read_rows(str(tmp_path / "rows.csv"))] == found
    assert texts(tmp_path / "rows.csv") == ["a", "b"]  # a document has text


def test_parquet_rows_are_read(tmp_path):
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "label": [0, 1]}), tmp_path / "rows.parquet")
    rows = [row.cells for row in read_rows(str(tmp_path / "rows.parquet"))]
    assert rows == [{"text": "a", "label": 0}, {"text": "b", "label": 1}]


def test_plain_text_is_not_a_table(tmp_path):
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(DataError, match="is not a table"):
        list(read_rows(str(tmp_path / "notes.txt")))


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        ('text\tlabel\n"so be it", he said\tyes\n"\tno\n', ['"so be it", he said', '"']),  # plain quotes
        ('text\tlabel\n"a ""b"" c"\tyes\n"d"\tno\n', ['a "b" c', "d"]),
        ('text\tlabel\n"a\tb"\tyes\n"c\nd"\tno\n', ["a\tb", "c\nd"]),
        ("text\tlabel\nit's 5\" wide\tyes\nd\tno\n", ["it's 5\" wide", "d"]),
    ],
)
def test_tab_separated_files_may_be_quoted_or_not(tmp_path, content, cells):
    (tmp_path / "rows.tsv").write_text(content)
    assert [row.cells["text"] for row in read_rows(str(tmp_path / "rows.tsv"))] == cells


def test_a_late_quote_in_a_tab_separated_file_does_not_join_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "START", 2)
    path = write(tmp_path / "rows.tsv", 'text\tid\none\t1\n"two\t2\nthree"\t3\n')
    assert [row.cells["text"] for row in read_rows(str(path))] == ["one", '"two', 'three"']


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_csv_may_have_another_delimiter(tmp_path, sign):
    (tmp_path / "rows.csv").write_text(f'text{sign}label\n"a{sign} b"{sign}yes\n')
    assert [row.cells for row in read_rows(str(tmp_path / "rows.csv"))] == [{"text": f"a{sign} b", "label": "yes"}]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_that_declares_the_delimiter_is_used_and_counted(tmp_path, end):
    (tmp_path / "rows.csv").write_text(end.join(["sep=|", "text, long|label", "a; b|yes", "c|no", ""]), newline="")
    found = list(read_rows(str(tmp_path / "rows.csv")))
    assert [dict(row.cells) for row in found] == [
        {"text, long": "a; b", "label": "yes"},
        {"text, long": "c", "label": "no"},
    ]
    assert [row.where.rsplit(" ", 2)[1:] for row in found] == [["line", "3"], ["line", "4"]]


def test_duplicate_column_names_are_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("text,text\na,b\n")
    cells = pyarrow.array(["a", "b"])
    parquet.write_table(pyarrow.table([cells, cells], names=["text", "text"]), tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        with pytest.raises(DataError, match=rf"{name}: two columns are called 'text'"):
            list(read_rows(str(tmp_path / name)))
