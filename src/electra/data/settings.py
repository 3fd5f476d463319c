"""Every knob of reading, cleaning and building, and of vocabularies, on one page."""

from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from electra.errors import DataError

Format = Literal["text", "jsonl", "csv", "tsv", "parquet", "dataset"]
Documents = Literal["auto", "blank", "line", "file", "record"]
Invalid = Literal["error", "replace", "skip"]
Unicode = Literal["keep", "NFC", "NFKC"]
Controls = Literal["keep", "drop"]
Duplicates = Literal["keep", "exact", "near"]
Cut = Literal["packed", "paper"]
Pieces = Literal["wordpiece", "unigram", "bpe"]
Model = Literal["auto", "wordpiece", "unigram", "bpe"]
Accents = Literal["auto", "keep", "strip"]

SHORTEST_LENGTH, LONGEST_LENGTH = 16, 65_536  # tokens
SMALLEST_SIZE: dict[Model, int] = {
    "auto": 50,
    "wordpiece": 50,
    "unigram": 50,
    "bpe": 261,
}  # 256 bytes, 5 special tokens
LARGEST_SIZE = 1_000_000  # pieces: four times the largest vocabulary that is in use
SMALLEST_SAMPLE = 20_000_000  # characters: more than the longest passage that is read can count for


class Checked:
    """Settings that refuse a word which is none of a field's choices: no parser has looked at those of Python code."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value, choices = getattr(self, name), _choices(kind)
            if choices and value is not None and value not in choices:
                raise DataError(f"{name}={value!r}: choose {', '.join(choices)}")


def _choices(kind: Any) -> list[str]:
    """Give the words that a type allows, none where it allows any."""
    parts = get_args(kind)
    return list(parts) if get_origin(kind) is Literal else [word for part in parts for word in _choices(part)]


@dataclass(frozen=True)
class Reading(Checked):
    """How documents are found in the sources; `None` and `auto` mean: look."""

    documents: Documents = "auto"  # what a document is; blank: what blank lines separate
    column: str | None = None  # that holds the text of a record
    format: Format | None = None  # of every source, whatever its name
    invalid: Invalid = "error"  # what to do with bytes that are no UTF-8


@dataclass(frozen=True)
class Cleaning(Checked):
    """What to change and which documents to drop; the defaults leave the text as it is."""

    unicode: Unicode = "keep"
    controls: Controls = "keep"
    duplicates: Duplicates = "keep"  # near: also documents that share most of their five-word runs
    min_characters: int = 0
    max_characters: int | None = None
    max_repetition: float | None = None  # share of a document's five-word runs that it has already had

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_characters < 0:
            raise DataError(f"min_characters has to be 0 or more; found {self.min_characters}")
        if self.max_repetition is not None and not 0 <= self.max_repetition <= 1:
            raise DataError(f"max_repetition is a share, from 0 to 1; found {self.max_repetition}")


@dataclass(frozen=True)
class Building(Checked):
    """What shapes a corpus, beside its text and its tokenizer."""

    length: int  # tokens in a sequence
    cut: Cut = "packed"
    seed: int = 0  # of the paper's coin tosses
    heldout: float = 0.005  # fraction of the documents
    reading: Reading = Reading()
    cleaning: Cleaning = Cleaning()
    shard_characters: int = 1 << 28  # of text for one shard: about 60 million tokens of English

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < SHORTEST_LENGTH:
            raise DataError(f"a length of {self.length} tokens is too short; give {SHORTEST_LENGTH} or more")
        if self.length > LONGEST_LENGTH:
            raise DataError(f"a length of {self.length:,} tokens is too long; give {LONGEST_LENGTH:,} or fewer")
        if not 0 <= self.heldout < 1:
            raise DataError(f"the held-out fraction has to be 0 or more and below 1; found {self.heldout}")


@dataclass(frozen=True)
class Vocabulary(Checked):
    """What shapes a vocabulary, beside its text."""

    size: int  # pieces, special tokens included
    model: Model = "auto"  # wordpiece, or unigram where that would not know much of the text
    lowercase: bool = True
    accents: Accents = "auto"  # strip with lowercase, as BERT does, but keep where letters commonly have them
    max_characters: int = 50_000_000  # of longer text an even sample: more hardly changes a vocabulary
    reading: Reading = Reading()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < SMALLEST_SIZE[self.model]:
            smallest = SMALLEST_SIZE[self.model]
            kind = "" if self.model == "auto" else f"{self.model} "
            raise DataError(f"a {kind}vocabulary of {self.size} pieces is too small; give {smallest} or more")
        if self.size > LARGEST_SIZE:
            raise DataError(f"a vocabulary of {self.size:,} pieces is too large; give {LARGEST_SIZE:,} or fewer")
        if self.max_characters < SMALLEST_SAMPLE:
            raise DataError(
                f"a sample of {self.max_characters:,} characters is too small; give {SMALLEST_SAMPLE:,} or more"
            )
