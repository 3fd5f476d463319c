"""Settings that Python code gives, where no parser of a command line has looked at them before."""

import pytest

from electra.data.settings import Building, Cleaning, Reading, Vocabulary
from electra.errors import DataError


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Building(length=32, cut="pack"), r"^cut='pack': choose packed, paper$"),
        (lambda: Reading(format="txt"), r"^format='txt': choose text, jsonl, csv, tsv, parquet, dataset$"),
        (lambda: Cleaning(unicode="nfc"), r"^unicode='nfc': choose keep, NFC, NFKC$"),
        (lambda: Cleaning(min_characters=-5), r"^min_characters has to be 0 or more; found -5$"),
        (lambda: Cleaning(max_repetition=7), r"^max_repetition is a share, from 0 to 1; found 7$"),
        (lambda: Vocabulary(size=100, model="foo"), r"^model='foo': choose auto, wordpiece, unigram, bpe$"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_what_is_not_set_is_looked_for():
    assert Reading().format is None
