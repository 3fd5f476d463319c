import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electra.data.reading import text
from electra.data.reading.text import Passage, Tally, read_documents
from electra.data.settings import Reading
from electra.errors import DataError

LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=30), max_size=20)
ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\n \t\n"])


def documents(path: Path, **options) -> list[str]:
    """Return the documents of a file, joining the passages of long ones."""
    found: list[str] = []
    for passage in read_documents([path], Reading(**options)):
        if passage.first:
            found.append(passage.text)
        else:
            found[-1] += passage.text
    return found


def write(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("blank", ["one\ntwo", "three"]),
        ("line", ["one", "two", "three"]),
        ("file", ["one\ntwo\nthree"]),
        ("auto", ["one\ntwo", "three"]),
    ],
)
def test_documents_are_separated_as_requested(tmp_path, how, expected):
    assert documents(write(tmp_path, "\none\r\ntwo\n \t\n\rthree"), documents=how) == expected


def test_long_lines_without_blank_ones_are_documents(tmp_path):
    assert len(documents(write(tmp_path, ("word " * 100 + "\n") * 3))) == 3


def test_short_lines_without_blank_ones_are_sentences_of_one_document(tmp_path):
    assert len(documents(write(tmp_path, "A sentence.\n" * 3))) == 1


def test_a_long_document_is_split_into_passages(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "PASSAGE_LIMIT", 10)
    path = write(tmp_path, "aaaa\nbbbb\ncccc\n\ndddd")
    assert list(read_documents([path])) == [
        Passage("aaaa\nbbbb", True, False),
        Passage("cccc", False, True),
        Passage("dddd", True, True),
    ]


def test_a_long_line_is_cut_at_white_space(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LINE_LIMIT", 8)
    assert documents(write(tmp_path, "aaa bbb ccc ddd"), documents="file") == ["aaa bbb\n ccc ddd"]


def test_a_long_line_without_white_space_is_cut_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LINE_LIMIT", 4)
    assert documents(write(tmp_path, "abcdefghij\nk"), documents="line") == ["abcd\nefgh\nij", "k"]


def test_the_time_for_a_very_long_line_is_linear(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LINE_LIMIT", 16)
    path = write(tmp_path, "word " * 200_000 + "\n" + "word " * 20_000)
    start = time.process_time()
    assert documents(path, documents="file")
    assert time.process_time() - start < 2


@given(LINES, ENDS, st.sampled_from(["auto", "blank", "line", "file"]), st.integers(1, 40), st.integers(1, 60))
def test_only_white_space_is_lost(tmp_path_factory, lines, end, how, line_limit, passage_limit):
    content = end.join(lines)
    path = write(tmp_path_factory.mktemp("text"), content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "LINE_LIMIT", line_limit)
        patch.setattr(text, "PASSAGE_LIMIT", passage_limit)
        passages = list(read_documents([path], Reading(documents=how)))
    read = "".join(passage.text for passage in passages)
    assert re.sub(r"\s", "", read) == re.sub(r"\s", "", content.removeprefix("\ufeff"))
    assert [passage.first for passage in passages[1:]] == [passage.last for passage in passages[:-1]]
    assert all(len(line) <= line_limit for passage in passages for line in passage.text.split("\n"))


@given(LINES, st.data())
def test_lines_are_documents_for_all_kinds_of_line_ends(tmp_path_factory, lines, data):
    content = "".join(line + data.draw(st.sampled_from(["\n", "\r", "\r\n"])) for line in lines)
    path = write(tmp_path_factory.mktemp("text"), content)
    expected = [line for line in "\n".join(lines).removeprefix("\ufeff").split("\n") if line.strip()]
    assert documents(path, documents="line") == expected


def test_a_tally_reports_progress(tmp_path):
    tally = Tally()
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in paths:
        path.write_text("one\n\ntwo")
    list(read_documents(paths, None, tally))
    assert (tally.bytes_read, tally.total_bytes, tally.documents) == (16, 16, {"blank": 2})


def test_plain_text_has_no_columns(tmp_path):
    (tmp_path / "a.txt").write_text("text\none\n")
    with pytest.raises(DataError, match=r"column=text, but .*a\.txt is read as text; drop it, or set --format"):
        list(read_documents([tmp_path], Reading(column="text")))
    (tmp_path / "b.csv").write_text("text\ntwo\n")
    assert [passage.text for passage in read_documents([tmp_path], Reading(column="text"))] == ["text\none", "two"]


def test_records_are_not_cut_into_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("{}")
    with pytest.raises(DataError, match=r"a\.jsonl: documents=line does not fit jsonl; choose auto, record"):
        documents(path, documents="line")


def test_an_empty_file_has_no_documents(tmp_path):
    assert documents(write(tmp_path, "")) == []
