"""Optional cleaning: what is changed in documents and which are dropped."""

import hashlib
import re
import unicodedata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import numpy.typing as npt

from electra.data.reading.text import PASSAGE_LIMIT
from electra.data.settings import Cleaning, Duplicates
from electra.errors import DataError

Keys = npt.NDArray[np.uint64]

# Unicode control characters except tab and line ends, and invisible formatting marks.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
SHINGLE_WORDS, SHINGLE_CHARACTERS = 5, 10  # characters for scripts without spaces
BANDS, BAND_HASHES = 14, 8  # finds 92 % of pairs with 80 % common shingles, 5 % of those with 50 %
EXCERPT = 80  # characters
KEYS: dict[Duplicates, int] = {"keep": 0, "exact": 1, "near": BANDS}  # of a document
RUN_KEYS = 1 << 22  # longer arrays of keys are kept in a file


def check_cleaning(cleaning: Cleaning) -> None:
    """Check that the settings are possible and the optional package they need is installed."""
    if cleaning.max_characters is not None and cleaning.max_characters > PASSAGE_LIMIT:
        raise DataError(
            f"max_characters {cleaning.max_characters:,} is too large; use at most {PASSAGE_LIMIT:,} "
            "(longer documents are read in parts) or leave it out"
        )
    if cleaning.duplicates == "near" and find_spec("datasketch") is None:
        raise DataError("finding near duplicates needs datasketch; run: pip install '.[clean]' in the checkout")


def mend(text: str, cleaning: Cleaning) -> str:
    """Normalize Unicode and drop control characters, as configured."""
    if cleaning.unicode != "keep":
        text = unicodedata.normalize(cleaning.unicode, text)
    return CONTROLS.sub("", text) if cleaning.controls == "drop" else text


def fault(text: str, cleaning: Cleaning, complete: bool = True) -> str | None:
    """Return why a document is dropped, or None; one that is not `complete` exceeds any limit."""
    if len(text) < cleaning.min_characters:
        return "too short"
    if cleaning.max_characters is not None and (len(text) > cleaning.max_characters or not complete):
        return "too long"
    if cleaning.max_repetition is not None and repetition(text) > cleaning.max_repetition:
        return "repetitive"
    return None


def duplicate_keys(text: str, cleaning: Cleaning) -> list[int]:
    """Return the keys for finding duplicates: documents that share a key count as duplicates."""
    if cleaning.duplicates == "keep":
        return []
    return band_keys(text) if cleaning.duplicates == "near" else [digest(text.encode())]


def digest(data: bytes) -> int:
    """Hash bytes to 64 bits."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def shingles(text: str) -> list[str]:
    """Return all word 5-grams, or character 10-grams if spaces are rare."""
    words = text.split()
    if len(words) * 20 >= len(text):
        return [" ".join(words[i : i + SHINGLE_WORDS]) for i in range(max(1, len(words) - SHINGLE_WORDS + 1))]
    letters = "".join(words)
    return [letters[i : i + SHINGLE_CHARACTERS] for i in range(max(1, len(letters) - SHINGLE_CHARACTERS + 1))]


def repetition(text: str) -> float:
    """Return the fraction of a text's shingles that repeat an earlier one."""
    found = shingles(text)
    return 1 - len(set(found)) / len(found)


def band_keys(text: str) -> list[int]:
    """Return a hash for each band of a document's MinHash signature; near duplicates share at least one."""
    from datasketch import MinHash

    signature = MinHash(num_perm=BANDS * BAND_HASHES)
    signature.update_batch([shingle.encode() for shingle in set(shingles(text.casefold()))])
    bands = signature.hashvalues.astype("<u8").reshape(BANDS, BAND_HASHES)
    return [digest(bytes([number]) + band.tobytes()) for number, band in enumerate(bands)]


class Seen:
    """A set of 64-bit keys, stored in sorted arrays, the long ones in files without a name in `folder`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.runs: list[Keys] = []

    def add(self, keys: Keys) -> None:
        """Add keys; arrays of similar size are merged to keep their number small."""
        if len(keys):
            self.runs.append(np.sort(keys))
        while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
            last = self.runs.pop()
            self.runs[-1] = self._merged(self.runs[-1], last)

    def _merged(self, one: Keys, other: Keys) -> Keys:
        """Merge two sorted arrays in constant memory: keys are hashes, so equal ranges of both have similar sizes."""
        ends = range(RUN_KEYS, len(one), RUN_KEYS)
        places = [0, *np.searchsorted(other, one[list(ends)]).tolist(), len(other)]
        parts = (
            np.sort(np.concatenate([one[start : start + RUN_KEYS], other[places[number] : places[number + 1]]]))
            for number, start in enumerate([0, *ends])
        )
        if len(one) + len(other) < RUN_KEYS:
            return next(parts)
        with TemporaryFile(dir=self.folder) as file:
            for part in parts:
                part.tofile(file)
            file.flush()
            return np.memmap(file, np.uint64, "r")

    def contains(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Return for each key whether it is in the set."""
        found = np.zeros(keys.size, np.bool_)
        order = np.argsort(keys, axis=None)  # neighbors are on the same page of a file
        ordered = keys.ravel()[order]
        for run in self.runs:
            places = np.minimum(np.searchsorted(run, ordered), len(run) - 1)
            found[order] |= run[places] == ordered
        return found.reshape(keys.shape)


def find_duplicates(seen: Seen, keys: Keys) -> npt.NDArray[np.bool_]:
    """Return which documents of a (documents, keys) array share a key with an earlier one, and add all to `seen`."""
    found = seen.contains(keys)
    flat = keys.ravel()
    repeated = np.ones(len(flat), np.bool_)
    repeated[np.unique(flat, return_index=True)[1]] = False
    seen.add(flat)
    duplicates: npt.NDArray[np.bool_] = np.any(found | repeated.reshape(keys.shape), axis=1)
    return duplicates


def excerpt(text: str) -> str:
    """Return the start of a text on one line, for the report."""
    start = " ".join(text[: 4 * EXCERPT].split())
    return start if len(start) <= EXCERPT else start[: EXCERPT - 1] + "…"
