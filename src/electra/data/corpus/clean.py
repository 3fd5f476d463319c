"""Cleaning, all of it optional: what is changed in a document, and which documents are dropped."""

import hashlib
import re
import unicodedata
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from electra.data.reading.text import PASSAGE_LIMIT
from electra.data.settings import Cleaning
from electra.errors import DataError

Keys = npt.NDArray[np.uint64]

# Everything but tab and line end that Unicode calls a control, and the marks that only steer a display.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
SHINGLE_WORDS, SHINGLE_CHARACTERS = 5, 10  # a run whose repetition counts; characters where words are not spaced
BANDS, BAND_HASHES = 14, 8  # finds 92 % of the pairs whose shingles agree to 80 %, 5 % of those that agree to 50 %
EXCERPT = 80  # characters
KEY_LIMIT = 1 << 25  # keys held for comparison: a quarter of a gigabyte, at times twice that


def check_cleaning(cleaning: Cleaning) -> None:
    """Refuse what cannot be done: here, where an optional package is missing, or at all."""
    if cleaning.max_characters is not None and cleaning.max_characters > PASSAGE_LIMIT:
        raise DataError(
            f"max_characters {cleaning.max_characters:,}: documents beyond {PASSAGE_LIMIT:,} characters are read in "
            "parts, and judged by the first; give less, or leave it out"
        )
    if cleaning.duplicates == "near" and find_spec("datasketch") is None:
        raise DataError("near duplicates are found with datasketch: pip install -e '.[clean]' in the checkout")


def mend(text: str, cleaning: Cleaning) -> str:
    """Give the text in the Unicode form asked for, without control characters if so asked."""
    if cleaning.unicode != "keep":
        text = unicodedata.normalize(cleaning.unicode, text)
    return CONTROLS.sub("", text) if cleaning.controls == "drop" else text


def fault(text: str, cleaning: Cleaning, whole: bool = True) -> str | None:
    """Say why a document is to be dropped, if it is; one of which this is a part is longer than any limit."""
    if len(text) < cleaning.min_characters:
        return "too short"
    if cleaning.max_characters is not None and (len(text) > cleaning.max_characters or not whole):
        return "too long"
    if cleaning.max_repetition is not None and repetition(text) > cleaning.max_repetition:
        return "repetitive"
    return None


def duplicate_keys(text: str, cleaning: Cleaning) -> list[int]:
    """Give the numbers by which duplicates meet: documents that share one are taken for the same."""
    if cleaning.duplicates == "keep":
        return []
    return band_keys(text) if cleaning.duplicates == "near" else [digest(text)]


def digest(text: str) -> int:
    """Hash a text to 64 bits."""
    return _hash(text.encode())


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def shingles(text: str) -> list[str]:
    """Give every run of five words, or of ten characters where white space is rare."""
    words = text.split()
    if len(words) * 20 >= len(text):
        return [" ".join(words[i : i + SHINGLE_WORDS]) for i in range(max(1, len(words) - SHINGLE_WORDS + 1))]
    letters = "".join(words)
    return [letters[i : i + SHINGLE_CHARACTERS] for i in range(max(1, len(letters) - SHINGLE_CHARACTERS + 1))]


def repetition(text: str) -> float:
    """Give the share of a text's shingles that repeat an earlier one."""
    found = shingles(text)
    return 1 - len(set(found)) / len(found)


def band_keys(text: str) -> list[int]:
    """Hash a document's MinHash signature band by band; near duplicates agree in a whole band."""
    from datasketch import MinHash

    signature = MinHash(num_perm=BANDS * BAND_HASHES)
    signature.update_batch([shingle.encode() for shingle in set(shingles(text.casefold()))])
    bands = signature.hashvalues.astype("<u8").reshape(BANDS, BAND_HASHES)
    return [_hash(bytes([number]) + band.tobytes()) for number, band in enumerate(bands)]


class Seen:
    """A set of 64-bit keys in sorted runs, eight bytes each; what comes after the limit is no longer taken in."""

    def __init__(self, limit: int = KEY_LIMIT) -> None:
        self.room = limit
        self.runs: list[Keys] = []

    def add(self, keys: Keys) -> None:
        """Take keys in; runs of like size are merged, so that there are few."""
        keys = keys[: self.room]
        self.room -= len(keys)
        if len(keys):
            self.runs.append(np.sort(keys))
        while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
            last = self.runs.pop()
            self.runs[-1] = np.concatenate([self.runs[-1], last])
            self.runs[-1].sort(kind="stable")  # fast for two runs

    def contains(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Say for each key whether it was taken in."""
        found = np.zeros(keys.shape, np.bool_)
        for run in self.runs:
            places = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            found |= run[places] == keys
        return found


def find_duplicates(seen: Seen, keys: Keys) -> npt.NDArray[np.bool_]:
    """Say which documents of a (documents, keys) array share a key with an earlier one, and remember all."""
    found = seen.contains(keys)
    flat = keys.ravel()
    repeated = np.ones(len(flat), np.bool_)
    repeated[np.unique(flat, return_index=True)[1]] = False
    seen.add(flat)
    duplicates: npt.NDArray[np.bool_] = np.any(found | repeated.reshape(keys.shape), axis=1)
    return duplicates


def excerpt(text: str) -> str:
    """Give the start of a text on one line, for a report."""
    start = " ".join(text[: 4 * EXCERPT].split())
    return start if len(start) <= EXCERPT else start[: EXCERPT - 1] + "…"
