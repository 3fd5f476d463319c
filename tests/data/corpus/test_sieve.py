import numpy as np
import pytest

from electra.data.corpus.encode import TokenBlock, tokenize_documents
from electra.data.corpus.sieve import Report, Sieve
from electra.data.reading.text import Passage
from electra.data.settings import Cleaning
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece

TOKENIZER = wordpiece([*SPECIAL_TOKENS, "a", "b", "##a", "##b"])


def block(*passages: Passage | str, cleaning: Cleaning | None = None) -> TokenBlock:
    whole = [Passage(passage) if isinstance(passage, str) else passage for passage in passages]
    return tokenize_documents(whole, TOKENIZER, cleaning or Cleaning(), np.dtype(np.uint16))


def test_the_split_depends_only_on_the_text():
    texts = [format(number, "b").replace("0", "a").replace("1", "b") for number in range(4000)]
    fates, _ = Sieve(Cleaning(), 0.1).sift(block(*texts), Report())
    assert fates.count("heldout") / len(fates) == pytest.approx(0.1, abs=0.02)
    later, _ = Sieve(Cleaning(), 0.1).sift(block(*reversed(texts)), Report())
    assert later == fates[::-1]


def test_unknown_tokens_are_counted():
    report = Report()
    Sieve(Cleaning(), 0).sift(block("a b", "a cat ab", "ü"), report)
    assert (report.tokens_read, report.unknown_tokens) == (7, 2)


def test_a_larger_held_out_fraction_includes_a_smaller_one():
    texts = ["ab" * number for number in range(1, 500)]
    few, many = (Sieve(Cleaning(), fraction).sift(block(*texts), Report())[0] for fraction in (0.1, 0.3))
    assert {n for n, fate in enumerate(few) if fate == "heldout"} < {n for n, f in enumerate(many) if f == "heldout"}


def test_the_first_passage_decides_for_a_long_document():
    cleaning = Cleaning(min_characters=2)
    sieve, report = Sieve(cleaning, 0), Report()
    parts = [Passage("a", True, False), Passage("ab", False, False), Passage("", False, True), Passage("bb")]
    assert sieve.sift(block(*parts[:2], cleaning=cleaning), report)[0] == [None, None]
    assert sieve.sift(block(*parts[2:], cleaning=cleaning), report)[0] == [None, "train"]
    assert (report.documents_read, report.dropped["too short"].documents) == (2, 1)


def test_duplicates_are_found_across_blocks():
    cleaning = Cleaning(duplicates="exact")
    sieve, report = Sieve(cleaning, 0), Report()
    fates = [sieve.sift(block(*texts, cleaning=cleaning), report)[0] for texts in (["ab", "ba"], ["bb", "ab", "bb"])]
    assert fates == [["train", "train"], ["train", None, None]]
    assert report.dropped["exact duplicate"].examples == ["ab", "bb"]


def test_a_document_without_tokens_is_reported():
    report = Report()
    assert Sieve(Cleaning(), 0).sift(block("\u200b", "a"), report)[0] == [None, "train"]
    assert report.dropped["without tokens"].documents == 1


def test_a_report_gives_a_few_examples_and_counts_all():
    cleaning = Cleaning(min_characters=5)
    report, whole = Report(), Report()
    Sieve(cleaning, 0).sift(block(*"ab" * 5, "ababab", cleaning=cleaning), report)
    whole.add(report)
    whole.add(report)
    dropped = whole.dropped["too short"]
    assert (whole.documents_read, dropped.documents, dropped.characters, dropped.examples) == (22, 20, 20, [*"aba"])
