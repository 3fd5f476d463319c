import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from electra.data.corpus import clean
from electra.data.corpus.clean import (
    Seen,
    check_cleaning,
    duplicate_keys,
    excerpt,
    fault,
    find_duplicates,
    mend,
    repetition,
)
from electra.data.reading.text import PASSAGE_LIMIT
from electra.data.settings import Cleaning
from electra.errors import DataError


def words(count: int, seed: int) -> list[str]:
    source = random.Random(seed)
    return ["".join(source.choices("abcdefgh", k=5)) for _ in range(count)]


def duplicates(texts: list[str], kind: str) -> list[bool]:
    keys = np.array([duplicate_keys(text, Cleaning(duplicates=kind)) for text in texts], np.uint64)
    return find_duplicates(Seen(), keys).tolist()


def test_text_is_not_changed_by_default():
    assert mend("e\u0301\u200b\x07 ﬁ", Cleaning()) == "e\u0301\u200b\x07 ﬁ"


@pytest.mark.parametrize(("form", "expected"), [("NFC", "é ﬁ"), ("NFKC", "é fi")])
def test_text_is_normalized_on_request(form, expected):
    assert mend("e\u0301 ﬁ", Cleaning(unicode=form)) == expected


def test_control_characters_are_dropped_but_not_line_ends():
    assert mend("a\x07\u200b\tb\nc\u202e", Cleaning(controls="drop")) == "a\tb\nc"


@pytest.mark.parametrize("mark", "\u061c\u200e\u200f\u202a\u202e\u2066\u2067\u2068\u2069")
def test_direction_marks_are_control_characters(mark):
    assert mend(f"a{mark}b", Cleaning(controls="drop")) == "ab"


@pytest.mark.parametrize(
    ("text", "cleaning", "expected"),
    [
        ("abc", Cleaning(), None),
        ("abc", Cleaning(min_characters=4), "too short"),
        ("abc", Cleaning(max_characters=2), "too long"),
        ("buy it now or never " * 20, Cleaning(max_repetition=0.5), "repetitive"),
        (" ".join(words(100, 1)), Cleaning(max_repetition=0.5), None),
    ],
)
def test_dropped_documents_have_a_reason(text, cleaning, expected):
    assert fault(text, cleaning) == expected


def test_max_characters_beyond_the_passage_limit_is_refused():
    check_cleaning(Cleaning(max_characters=PASSAGE_LIMIT))
    with pytest.raises(DataError, match=r"max_characters 2,000,000 is too large; use at most 1,048,576"):
        check_cleaning(Cleaning(max_characters=2_000_000))


def test_repetition_is_found_in_text_without_spaces():
    assert repetition("吾輩は猫である名前はまだ無い") == 0
    assert repetition("吾輩は猫である" * 20) > 0.9


def test_exact_duplicates_are_found_after_the_first():
    assert duplicates(["a", "b", "a", "c", "b"], "exact") == [False, False, True, False, True]


def test_near_duplicates_are_found():
    text = words(400, 1)
    changed = [*text[:200], "another", *text[201:]]
    assert duplicates([" ".join(t) for t in (text, words(400, 2), changed)], "near") == [False, False, True]


def test_near_duplicates_need_datasketch(monkeypatch):
    monkeypatch.setattr(clean, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install '\.\[clean\]' in the checkout"):
        clean.check_cleaning(Cleaning(duplicates="near"))


@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=20), max_size=20))
def test_the_set_contains_exactly_the_added_keys(batches):
    seen, expected = Seen(), set()
    for batch in batches:
        keys = np.array(batch, np.uint64)
        assert seen.contains(keys).tolist() == [key in expected for key in batch]
        seen.add(keys)
        expected |= set(batch)


def test_the_number_of_key_arrays_stays_small():
    seen = Seen()
    for start in range(0, 10_000, 10):
        seen.add(np.arange(start, start + 10, dtype=np.uint64))
    assert sum(map(len, seen.runs)) == 10_000
    assert len(seen.runs) < 12


@pytest.mark.parametrize("batch", [1, 7, 40])
def test_many_keys_are_kept_in_files(batch, tmp_path, monkeypatch):
    monkeypatch.setattr(clean, "RUN_KEYS", 10)
    seen, keys = Seen(tmp_path), np.random.default_rng(0).integers(0, 2**64, 200, np.uint64)
    for start in range(0, 100, batch):
        seen.add(keys[start : min(start + batch, 100)])
    assert sum(len(run) for run in seen.runs if not isinstance(run, np.memmap)) < 50
    assert seen.contains(keys.reshape(2, 100)).tolist() == [[True] * 100, [False] * 100]
    assert not list(tmp_path.iterdir())  # nothing is left behind if the process is killed


def test_an_excerpt_is_one_short_line():
    assert excerpt("one\n two") == "one two"
    assert len(excerpt("word " * 100)) == 80
