"""Train a vocabulary and write it, with a report, to a folder that `AutoTokenizer` and `load_tokenizer` read."""

import math
import shutil
import unicodedata
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from electra.data.checksums import CHECKSUMS, check, write_checksums
from electra.data.cluster import Cluster, connected
from electra.data.files import atomic_folder, read_table, write_json
from electra.data.reading.parts import check_addresses, read_parts
from electra.data.reading.sources import Source, names_of
from electra.data.reading.text import Passage, find_texts, read_documents
from electra.data.settings import Accents, Model, Pieces, Reading, Vocabulary
from electra.data.storage import local_path, working_copy
from electra.data.tokens.pieces import train_pieces
from electra.data.tokens.sample import Sample
from electra.data.tokens.tokenizer import FILES, Tokenizer
from electra.errors import DataError

REPORT = "report.json"
PROBE_CHARACTERS = 1_000_000  # for measuring a vocabulary, and for a preview
MOST_UNKNOWN = 0.01  # fraction of characters; with more, another kind of vocabulary fits better
PART_CHARACTERS = 1 << 24  # that a node reads at a time
FEW_MARKS = 0.005  # fraction of characters; English has a tenth of that, in loan words


@dataclass(frozen=True)
class Fertility:
    """How finely a vocabulary splits text; with fewer tokens, more text fits into a sequence."""

    tokens_per_word: float  # separated by white space; not meaningful for languages without it
    tokens_per_character: float  # without white space
    unknown: float  # fraction of [UNK] among the tokens
    unknown_characters: float = 0.0  # fraction of characters in [UNK]; one may be a line of Thai


@dataclass(frozen=True)
class Report:
    """How a vocabulary was trained and how well it fits its text."""

    model: Pieces
    lowercase: bool
    strip_accents: bool
    size: int
    requested_size: int  # larger than `size` if the text has too few pieces
    passages: int  # documents; a very long one counts once for each part
    characters: int
    sampled_characters: int  # used for training
    fertility: Fertility
    example: list[str]  # the pieces of one line

    @property
    def kind(self) -> str:
        """Return a short description: the model, and how case and accents are handled."""
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
    cluster: str | None = None,
) -> Tokenizer:
    """Train a vocabulary of `size` pieces and write it to the folder `out` atomically.

    `model="auto"` is WordPiece, or Unigram if WordPiece would leave more than 1 % of the text unknown: it reads more
    than 100 letters without a space as one unknown word. `cluster` is the address of a Ray cluster, or `auto`, that
    reads the text, which must be in object storage.
    """
    wanted = Vocabulary(size, model, lowercase, accents, max_characters, reading)
    with working_copy(out) as folder, connected(cluster) if cluster else nullcontext() as nodes:
        return _write(names_of(sources), folder.resolve(), wanted, nodes)


def _write(names: Sequence[str], out: Path, wanted: Vocabulary, nodes: Cluster | None) -> Tokenizer:
    _check_place(out)
    with atomic_folder(out, overwrite=True) as folder:
        sample = _take_sample(names, wanted, folder / "sample", nodes=nodes)
        report, tokenizer = _train(sample, wanted)
        tokenizer.save(folder)
        write_json(folder / REPORT, asdict(report))
        shutil.rmtree(sample.folder)
        write_checksums(folder)
    return tokenizer


def preview_vocab(sources: Sequence[str], wanted: Vocabulary) -> Report:
    """Return the report of a vocabulary trained on the first megabyte of the text, without writing it."""
    with TemporaryDirectory() as folder:
        return _train(_take_sample(sources, wanted, Path(folder) / "sample", PROBE_CHARACTERS), wanted)[0]


def read_report(folder: str | Path) -> Report:
    """Read the report that `train_vocab` wrote."""
    folder = local_path(folder)
    check(folder, [REPORT])
    values = read_table(folder / REPORT, "the report of a vocabulary", DataError)
    return Report(**{**values, "fertility": Fertility(**values["fertility"])})


def _train(sample: Sample, wanted: Vocabulary) -> tuple[Report, Tokenizer]:
    """Train the vocabulary on a sample; with `model="auto"`, the kind that leaves little or less of it unknown."""
    lowercase, accents = wanted.lowercase, wanted.accents
    strip = lowercase and _has_few_marks(sample) if accents == "auto" else accents == "strip"
    kinds: tuple[Pieces, ...] = ("wordpiece", "unigram") if wanted.model == "auto" else (wanted.model,)
    trained: list[tuple[Report, Tokenizer]] = []
    for kind in kinds:
        tokenizer = train_pieces(kind, sample, wanted.size, lowercase=lowercase, strip_accents=strip)
        trained.append((_report(tokenizer, sample, wanted, kind, strip), tokenizer))
        if trained[-1][0].fertility.unknown_characters <= MOST_UNKNOWN:
            break
    return min(trained, key=lambda pair: pair[0].fertility.unknown_characters)


def _take_sample(
    names: Sequence[str], wanted: Vocabulary, folder: Path, most: float = math.inf, nodes: Cluster | None = None
) -> Sample:
    sample = Sample(folder, wanted.max_characters)
    if nodes:
        _read_there(sample, find_texts(names, wanted.reading)[0], wanted.reading, nodes)
    else:
        for passage in read_documents(names, wanted.reading):
            sample.add(passage.text)
            if sample.characters >= most:
                break
    sample.close()
    if not sample.kept_characters:
        raise DataError(f"no text to train a vocabulary on in {' '.join(names)}")
    return sample


def _has_few_marks(sample: Sample) -> bool:
    """Return whether stripping accents would change only few letters.

    Stripping decomposes characters and removes their marks: schön becomes schon, the tones of Vietnamese and the vowels
    of Hindi and Thai are lost, й and voiced kana become other letters, and Hangul is split into its letters.
    """
    counts = sample.count_characters()
    marked = [c for c in counts if len(unicodedata.normalize("NFD", c)) > 1 or unicodedata.category(c) == "Mn"]
    return sum(counts[character] for character in marked) <= FEW_MARKS * counts.total()


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


def _read_there(sample: Sample, sources: Sequence[Source], reading: Reading, nodes: Cluster) -> None:
    """Let the nodes of a cluster read the text; only documents that may belong to the sample are fetched."""
    check_addresses(sources, reading)
    choose = nodes.starter(_choose)
    for part in read_parts(sources, reading, PART_CHARACTERS, nodes):
        if chosen := sample.chosen(part.passage_count):
            texts = nodes.result(choose(part.passages, chosen))
            sample.add_chosen(part.passage_count, part.characters, dict(zip(chosen, texts, strict=True)))
        else:
            sample.add_chosen(part.passage_count, part.characters, {})


def _choose(passages: Sequence[Passage], numbers: Sequence[int]) -> list[str]:
    return [passages[number].text for number in numbers]


def _check_place(out: Path) -> None:
    """Raise an error if `out` exists and holds anything but a vocabulary, since it would be replaced."""
    others = sorted({path.name for path in out.iterdir()} - {REPORT, CHECKSUMS, *FILES}) if out.is_dir() else [out.name]
    if out.exists() and others:
        raise DataError(f"{out} holds files other than a vocabulary, such as {others[0]}; choose another --out")
