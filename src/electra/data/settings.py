"""All settings for reading and cleaning text, building corpora and training vocabularies."""

from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from electra.errors import DataError

Format = Literal["text", "jsonl", "csv", "tsv", "parquet", "dataset"]
Documents = Literal["auto", "blank", "line", "file", "record"]
Invalid = Literal["error", "replace", "skip"]
Unicode = Literal["keep", "NFC", "NFKC"]
Controls = Literal["keep", "drop"]
Duplicates = Literal["keep", "exact", "near"]
Cut = Literal["sentences", "packed", "paper"]
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
LARGEST_SIZE = 1_000_000  # pieces; four times the largest vocabulary in use
SMALLEST_SAMPLE = 20_000_000  # characters; more than the longest passage can count for


class Checked:
    """Base class that checks fields with fixed choices, also when Python code sets them."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value, choices = getattr(self, name), _choices(kind)
            if choices and value is not None and value not in choices:
                raise DataError(f"{name}={value!r}: choose {', '.join(choices)}")


def _choices(kind: Any) -> list[str]:
    """Return the strings that a type allows, or an empty list if it allows any."""
    parts = get_args(kind)
    return list(parts) if get_origin(kind) is Literal else [word for part in parts for word in _choices(part)]


@dataclass(frozen=True)
class Reading(Checked):
    """How documents are found in the sources; `None` and `auto` mean detect."""

    documents: Documents = "auto"  # what separates documents; blank: blank lines
    column: str | None = None  # the column of a table that holds the text
    format: Format | None = None  # of all sources; by default guessed from file names
    invalid: Invalid = "error"  # what to do with bytes that are not UTF-8


@dataclass(frozen=True)
class Cleaning(Checked):
    """What to change in documents and which to drop; the defaults change nothing."""

    unicode: Unicode = "keep"
    controls: Controls = "keep"
    duplicates: Duplicates = "keep"  # near: also documents that share most of their 5-grams
    min_characters: int = 0
    max_characters: int | None = None
    max_repetition: float | None = None  # fraction of a document's 5-grams that repeat earlier ones

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_characters < 0:
            raise DataError(f"min_characters must be 0 or more; found {self.min_characters}")
        if self.max_repetition is not None and not 0 <= self.max_repetition <= 1:
            raise DataError(f"max_repetition must be between 0 and 1; found {self.max_repetition}")


@dataclass(frozen=True)
class Building(Checked):
    """Settings of a corpus, besides its text and tokenizer."""

    length: int  # tokens per sequence
    cut: Cut = "sentences"  # where a sequence begins and ends
    seed: int = 0  # for the random choices of the paper's cut
    heldout: float = 0.005  # fraction of the documents
    reading: Reading = Reading()
    cleaning: Cleaning = Cleaning()
    shard_characters: int = 1 << 28  # per shard; about 60 million tokens of English

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < SHORTEST_LENGTH:
            raise DataError(f"length {self.length} is too short; use at least {SHORTEST_LENGTH} tokens")
        if self.length > LONGEST_LENGTH:
            raise DataError(f"length {self.length:,} is too long; use at most {LONGEST_LENGTH:,} tokens")
        if not 0 <= self.heldout < 1:
            raise DataError(f"the held-out fraction must be at least 0 and less than 1; found {self.heldout}")


@dataclass(frozen=True)
class Vocabulary(Checked):
    """Settings of a vocabulary, besides its text."""

    size: int  # pieces, including special tokens
    model: Model = "auto"  # wordpiece, or unigram if wordpiece leaves much of the text unknown
    lowercase: bool = True
    accents: Accents = "auto"  # auto: strip with lowercase, as BERT does, unless accented letters are common
    max_characters: int = 50_000_000  # of the sample; more text hardly changes a vocabulary
    reading: Reading = Reading()

    def __post_init__(self) -> None:
        super().__post_init__()
        smallest = SMALLEST_SIZE[self.model]
        if self.size < smallest:
            kind = "" if self.model == "auto" else f"{self.model} "
            raise DataError(f"a {kind}vocabulary of {self.size} pieces is too small; use at least {smallest}")
        if self.size > LARGEST_SIZE:
            raise DataError(f"a vocabulary of {self.size:,} pieces is too large; use at most {LARGEST_SIZE:,}")
        if self.max_characters < SMALLEST_SAMPLE:
            raise DataError(f"max_characters {self.max_characters:,} is too small; use at least {SMALLEST_SAMPLE:,}")
