import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from electra.data.corpus.cut import SHORTEST_PIECE, Frame, PackedCut, PaperCut, Row, SentenceCut

CLS, SEP, PAD = 2, 3, 0
TEXT = 10  # ids from here on are text


def frame(length: int) -> Frame:
    return Frame(length, CLS, SEP, PAD, np.dtype(np.uint16))


class Script:
    """Returns the listed numbers, then numbers that lead to the common case."""

    def __init__(self, draws: Sequence[float] = (), targets: Sequence[int] = ()) -> None:
        self.draws = list(draws)
        self.targets = list(targets)

    def random(self) -> float:
        return self.draws.pop(0) if self.draws else 0.99

    def randint(self, a: int, b: int) -> int:
        return self.targets.pop(0)


def document(*lines: int, start: int = TEXT) -> tuple[np.ndarray, np.ndarray]:
    """Return a document with lines of these lengths and consecutive ids."""
    return np.arange(start, start + sum(lines)).astype(np.uint16), np.array(lines, np.int64)


def paper(length: int, random_source, *documents: tuple[np.ndarray, np.ndarray]) -> list[Row]:
    cut = PaperCut(frame(length), random_source)
    return [row for ids, lines in documents for row in cut.add(ids, lines)]


def segments(row: Row) -> list[list[int]]:
    """Return the ids of each segment after checking the special tokens around them."""
    ids = row.ids.tolist()
    assert ids[0] == CLS
    parts: list[list[int]] = [[]]
    for token in ids[1:]:
        if token == SEP:
            parts.append([])
        else:
            parts[-1].append(token)
    assert set(parts.pop()) <= {PAD}
    return parts


def sizes(row: Row) -> list[int]:
    return [len(part) for part in segments(row)]


@pytest.mark.parametrize(
    ("lines", "draws", "expected"),
    [
        ((5, 4, 7), (0.5, 0.5), [5, 8]),
        ((5, 4, 7), (0.05,), [14]),
        ((5, 4, 7), (0.5, 0.4), [9, 4]),
        ((40,), (0.5,), [14]),
        ((3, 2, 11), (0.5, 0.99), [5, 8]),
        ((3, 3, 10), (0.5, 0.6), [3, 10]),
    ],
)
def test_the_papers_cut_makes_the_originals_segments(lines, draws, expected):
    [row] = paper(16, Script(draws), document(*lines))
    assert sizes(row) == expected
    assert row.tokens == sum(expected)
    kept = [token for part in segments(row) for token in part]
    assert kept[: expected[0]] == list(range(TEXT, TEXT + expected[0]))


def test_the_papers_cut_ends_an_example_with_the_document():
    rows = paper(16, Script(), document(3), document(2, 2))
    assert [int((row.ids != PAD).sum()) for row in rows] == [5, 6]


def test_an_example_may_exceed_a_short_target():
    # Draws for the first example: two segments, then a short target (5 % chance) of 7 tokens.
    rows = paper(16, Script((0.5, 0.01), (7,)), document(16), document(6, 6))
    assert sizes(rows[1]) == [6, 6]
    assert int((rows[1].ids != PAD).sum()) == 15


@pytest.mark.parametrize(
    ("length", "line", "kept"),
    [
        (128, 20, 0.896),
        (128, 50, 0.838),
        (128, 100, 0.632),
        (128, 300, 0.420),
        (512, 20, 0.979),
        (512, 50, 0.927),
        (512, 100, 0.852),
        (512, 300, 0.851),
    ],
)
def test_the_papers_cut_keeps_as_much_text_as_the_original(length, line, kept):
    lines = 2_000_000 // line
    ids = np.full(lines * line, TEXT, np.uint16)
    rows = paper(length, random.Random(1), (ids, np.full(lines, line)))
    assert sum(row.tokens for row in rows) / len(ids) == pytest.approx(kept, rel=0.01)


def test_a_tenth_of_the_papers_examples_has_one_segment():
    rows = paper(128, random.Random(2), (np.full(500_000, TEXT, np.uint16), np.full(50_000, 10)))
    single = sum(len(sizes(row)) == 1 for row in rows) / len(rows)
    assert single == pytest.approx(0.1, abs=0.02)


def test_the_papers_cut_is_deterministic():
    first, again, other = (
        [row.ids.tolist() for row in paper(32, random.Random(seed), document(*[7] * 200))] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_the_papers_cut_returns_where_documents_begin():
    rows = paper(16, Script(), document(20, 20), document(2))
    assert [row.starts for row in rows] == [(0,), (), (0,)]


def test_each_packed_piece_is_from_one_document():
    cut = PackedCut(frame(16), random.Random())
    rows = [*cut.add(*document(3)), *cut.add(*document(20, start=30)), *cut.finish()]
    assert [segments_of_runs(row) for row in rows] == [[[10, 11, 12], [*range(30, 39)]], [[*range(39, 50)]]]
    assert [row.starts for row in rows] == [(0, 5), ()]
    assert [row.tokens for row in rows] == [12, 11]


def segments_of_runs(row: Row) -> list[list[int]]:
    runs: list[list[int]] = []
    for token in row.ids.tolist():
        if token == CLS:
            runs.append([])
        elif token >= TEXT:
            runs[-1].append(token)
    return runs


def test_a_document_does_not_begin_in_the_last_few_places_of_a_row():
    cut = PackedCut(frame(16), random.Random())
    rows = [*cut.add(*document(8)), *cut.add(*document(10, start=30)), *cut.finish()]
    assert [segments_of_runs(row) for row in rows] == [[[*range(10, 18)]], [[*range(30, 40)]]]


def test_a_short_document_that_fits_is_placed_at_once():
    cut = PackedCut(frame(16), random.Random())
    rows = [*cut.add(*document(8)), *cut.add(*document(4, start=30)), *cut.finish()]
    assert [segments_of_runs(row) for row in rows] == [[[*range(10, 18)], [*range(30, 34)]]]


@given(st.lists(st.integers(0, 200), max_size=30), st.integers(16, 64))
def test_packing_keeps_every_token_in_order(lengths, length):
    cut = PackedCut(frame(length), random.Random())
    ids = np.arange(TEXT, TEXT + sum(lengths)).astype(np.uint16)
    rows: list[Row] = []
    for part in np.split(ids, np.cumsum(lengths)):
        rows += cut.add(part, np.array([len(part)]))
    rows += cut.finish()
    stored = np.concatenate([row.ids for row in rows]) if rows else ids
    assert stored[stored >= TEXT].tolist() == ids.tolist()
    assert sum(row.tokens for row in rows) == len(ids)
    assert sum(len(row.starts) for row in rows) == sum(size > 0 for size in lengths)
    padding = [int((row.ids == PAD).sum()) for row in rows[:-1]]
    assert all(count < SHORTEST_PIECE + 2 for count in padding)


@given(st.lists(st.lists(st.integers(0, 60), max_size=8), max_size=10), st.integers(16, 40), st.integers(0, 9))
def test_the_papers_cut_drops_text_only_at_the_end_of_an_example(documents, length, seed):
    rows = paper(length, random.Random(seed), *[document(*lines, start=1000) for lines in documents])
    for row in rows:
        assert 1 <= len(sizes(row)) <= 2
        assert row.tokens == sum(sizes(row)) > 0
    assert sum(len(row.starts) for row in rows) == sum(sum(lines) > 0 for lines in documents)


def sentence_rows(length: int, *documents: tuple[np.ndarray, np.ndarray]) -> list[list[list[int]]]:
    cut = SentenceCut(frame(length), random.Random())
    rows = [row for ids, sentences in documents for row in cut.add(ids, sentences)]
    return [segments_of_runs(row) for row in [*rows, *cut.finish()]]


def test_a_sentence_that_was_cut_off_is_repeated_in_the_next_row():
    assert sentence_rows(16, document(9, 9)) == [[[*range(10, 24)]], [[*range(19, 28)]]]


def test_the_rest_of_a_sentence_longer_than_a_row_is_not_lost():
    assert sentence_rows(16, document(20, 4)) == [[[*range(10, 24)]], [[*range(24, 34)]]]


def test_a_sentence_that_begins_in_the_middle_of_a_row_may_be_repeated_from_there():
    rows = sentence_rows(32, document(12), document(25, start=50))
    assert rows == [[[*range(10, 22)], [*range(50, 66)]], [[*range(50, 75)]]]


@given(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=12), max_size=8), st.integers(16, 64))
def test_every_token_is_kept_and_rows_begin_at_sentences(documents, length):
    cut = SentenceCut(frame(length), random.Random())
    begins, rows, start = set(), [], TEXT
    for sentences in documents:
        ids, sizes = document(*sentences, start=start)
        begins |= {start, *(start + np.cumsum(sizes)).tolist()}
        rows += cut.add(ids, sizes)
        start += len(ids)
    rows += cut.finish()
    kept = [token for row in rows for token in row.ids.tolist() if token >= TEXT]
    assert sorted(set(kept)) == list(range(TEXT, start))
    for row, next_row in pairwise(rows):
        assert (row.ids == PAD).sum() < SHORTEST_PIECE + 2
        first, before = int(next_row.ids[1]), row.ids[row.ids >= TEXT]
        assert first in begins or (first == before[-1] + 1 and begins.isdisjoint(before[1:].tolist()))
