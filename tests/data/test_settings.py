"""Settings given by Python code are checked like those of the command line."""

import pytest

from electra.data.settings import Building, Cleaning, Reading, Vocabulary
from electra.errors import DataError


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Building(length=32, cut="pack"), r"^cut='pack': choose sentences, packed, paper$"),
        (lambda: Reading(format="txt"), r"^format='txt': choose text, jsonl, csv, tsv, parquet, dataset$"),
        (lambda: Cleaning(unicode="nfc"), r"^unicode='nfc': choose keep, NFC, NFKC$"),
        (lambda: Cleaning(min_characters=-5), r"^min_characters must be 0 or more; found -5$"),
        (lambda: Cleaning(max_repetition=7), r"^max_repetition must be between 0 and 1; found 7$"),
        (lambda: Vocabulary(size=100, model="foo"), r"^model='foo': choose auto, wordpiece, unigram, bpe$"),
    ],
)
def test_invalid_settings_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_the_format_is_detected_by_default():
    assert Reading().format is None
