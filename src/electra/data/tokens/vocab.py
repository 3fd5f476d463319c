"""Train a vocabulary on text: a folder that `AutoTokenizer` and `load_tokenizer` read, with a report beside it."""

import json
import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from electra.data.files import atomic_folder, write_json
from electra.data.reading.sources import names_of
from electra.data.reading.text import read_documents
from electra.data.settings import Accents, Model, Pieces, Reading, Vocabulary
from electra.data.tokens.pieces import train_pieces
from electra.data.tokens.sample import Sample
from electra.data.tokens.tokenizer import FILES, Tokenizer
from electra.errors import DataError

REPORT = "report.json"
PROBE_CHARACTERS = 1_000_000  # of the sample, on which the finished vocabulary is measured

MOST_UNKNOWN = 0.01  # of the characters; beyond, a language wants another vocabulary
FEW_MARKS = 0.005  # of the characters; English has a tenth of that, in words that it borrowed


@dataclass(frozen=True)
class Fertility:
    """How finely a vocabulary cuts text: the fewer tokens, the more text fits a sequence."""

    tokens_per_word: float  # words as white space separates them, which says little where a language does without
    tokens_per_character: float  # white space not counted
    unknown: float  # share of [UNK] among the tokens
    unknown_characters: float = 0.0  # share of the characters that they stand for: one may be a whole line of Thai


@dataclass(frozen=True)
class Report:
    """What a vocabulary was made of, how, and what it is like."""

    model: Pieces
    lowercase: bool
    strip_accents: bool
    size: int
    requested_size: int  # larger than `size` if the text does not have so many pieces
    passages: int  # documents; a very long one counts for each of its parts
    characters: int
    sampled_characters: int  # trained on
    fertility: Fertility
    example: list[str]  # pieces of a line

    @property
    def kind(self) -> str:
        """Say how it cuts text and what it leaves out of it."""
        case = "uncased" if self.lowercase else "cased"
        return f"{self.model}, {case}, accents {'stripped' if self.strip_accents else 'kept'}"


def train_vocab(
    sources: str | Path | Sequence[str | Path],
    *,
    size: int,
    out: str | Path,
    model: Model = Vocabulary.model,
    lowercase: bool = Vocabulary.lowercase,
    accents: Accents = Vocabulary.accents,
    max_characters: int = Vocabulary.max_characters,
    reading: Reading = Vocabulary.reading,
) -> Tokenizer:
    """Train a vocabulary of `size` pieces and write it to the folder `out`, whole or not at all.

    With `model="auto"` it is WordPiece, or Unigram where WordPiece would leave more than 1 % of the text unknown: it
    takes a stretch of more than 100 letters without a space for one unknown word.
    """
    wanted = Vocabulary(size, model, lowercase, accents, max_characters, reading)
    out = Path(out).expanduser().resolve()
    _check_place(out)
    with atomic_folder(out, overwrite=True) as folder:
        sample = _take_sample(names_of(sources), wanted, folder / "sample")
        strip = lowercase and _has_few_marks(sample) if accents == "auto" else accents == "strip"
        kinds: tuple[Pieces, ...] = ("wordpiece", "unigram") if model == "auto" else (model,)
        trained: list[tuple[Report, Tokenizer]] = []
        for kind in kinds:
            tokenizer = train_pieces(kind, sample, size, lowercase=lowercase, strip_accents=strip)
            trained.append((_report(tokenizer, sample, wanted, kind, strip), tokenizer))
            if trained[-1][0].fertility.unknown_characters <= MOST_UNKNOWN:
                break
        report, tokenizer = min(trained, key=lambda pair: pair[0].fertility.unknown_characters)
        tokenizer.save(folder)
        write_json(folder / REPORT, asdict(report))
        shutil.rmtree(sample.folder)
    return tokenizer


def read_report(folder: str | Path) -> Report:
    """Read the report that `train_vocab` left in its folder."""
    values = json.loads((Path(folder).expanduser() / REPORT).read_text(encoding="utf-8"))
    return Report(**{**values, "fertility": Fertility(**values["fertility"])})


def _take_sample(names: Sequence[str], wanted: Vocabulary, folder: Path) -> Sample:
    sample = Sample(folder, wanted.max_characters)
    for passage in read_documents(names, wanted.reading):
        sample.add(passage.text)
    sample.close()
    if not sample.kept_characters:
        raise DataError(f"no text to train a vocabulary on in {' '.join(names)}")
    return sample


def _has_few_marks(sample: Sample) -> bool:
    """Say whether stripping accents would leave nearly all letters as they are.

    Characters are taken apart for it and lose their marks: schön turns into schon, the tones of Vietnamese and the
    vowels of Hindi and Thai vanish, й and voiced kana turn into others, Hangul falls into its letters.
    """
    counts = sample.count_characters()
    return sum(counts[letter] for letter in counts if _loses_marks(letter)) <= FEW_MARKS * counts.total()


def _loses_marks(letter: str) -> bool:
    return len(unicodedata.normalize("NFD", letter)) > 1 or unicodedata.category(letter) == "Mn"


def _report(tokenizer: Tokenizer, sample: Sample, wanted: Vocabulary, model: Pieces, strip_accents: bool) -> Report:
    lines = list(sample.lines(stride=1 + sample.kept_characters // PROBE_CHARACTERS))
    encodings = tokenizer.encode(lines)
    words = [word for line in lines for word in line.split()]
    tokens = sum(map(len, encodings))
    unknown = [
        end - start
        for encoding in encodings
        for number, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
        if number == tokenizer.unk_id
    ]
    characters = sum(map(len, words))
    fertility = Fertility(
        tokens_per_word=round(tokens / max(1, len(words)), 4),
        tokens_per_character=round(tokens / max(1, characters), 4),
        unknown=round(len(unknown) / max(1, tokens), 6),
        unknown_characters=round(sum(unknown) / max(1, characters), 6),
    )
    return Report(
        model=model,
        lowercase=wanted.lowercase,
        strip_accents=strip_accents,
        size=tokenizer.vocab_size,
        requested_size=wanted.size,
        passages=sample.documents,
        characters=sample.characters,
        sampled_characters=sample.kept_characters,
        fertility=fertility,
        example=max(encodings, key=len).tokens[:20],
    )


def _check_place(out: Path) -> None:
    """Refuse a folder that holds anything but a vocabulary: it would be replaced."""
    others = sorted({path.name for path in out.iterdir()} - {REPORT, *FILES}) if out.is_dir() else [out.name]
    if out.exists() and others:
        raise DataError(f"{out} holds more than a vocabulary of ours, such as {others[0]}; name another folder")
