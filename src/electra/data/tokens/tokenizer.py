"""Text to token ids and back, in the file layout that Hugging Face reads."""

import json
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self, cast

import tokenizers
from tokenizers import Encoding, decoders, models, normalizers, pre_tokenizers, processors

from electra.data.files import read_table
from electra.data.reading.hub import locate
from electra.errors import DataError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
SPACE_SIGN = "▁"  # what stands for the space before a word, in Unigram
FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")
PARTS = ("", "tokenizer", "model")  # of a folder that may hold one: its own, a corpus's, a run's
UNLIMITED = 1_000_000  # tokens: from here on `transformers` means that there is no limit


class Tokenizer:
    """A `tokenizers` tokenizer with the five special tokens that pre-training needs, under whatever names.

    Text that spells a special token, such as "[MASK]", is read as ordinary text. `longest` is how many tokens the
    model beside it was trained to read at once, where that is known.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, names: Sequence[str] = SPECIAL_TOKENS, longest: int | None = None
    ) -> None:
        missing = [name for name in names if backend.token_to_id(name) is None]
        if missing:
            raise DataError(
                f"the vocabulary lacks the special tokens {' '.join(missing)}; "
                f"if it calls them otherwise, give {', '.join(ROLES)} in a tokenizer_config.json beside it"
            )
        self.backend = backend
        self.names = tuple(names)
        self.longest = longest
        backend.no_padding()
        backend.no_truncation()
        backend.encode_special_tokens = True
        backend.add_special_tokens(list(names))
        ids = [cast(int, backend.token_to_id(name)) for name in names]  # none is missing
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids
        self._refuse_injection()

    def _refuse_injection(self) -> None:
        """Make sure that no text gives the id of a special token: where documents end is read from these ids."""
        special = {self.pad_id, self.cls_id, self.sep_id, self.mask_id}
        for encoding, name in zip(self.encode([f"a {name}{name} b" for name in self.names]), self.names, strict=True):
            if special.intersection(encoding.ids):
                raise DataError(f"text that spells {name} becomes that special token; take another tokenizer")

    @property
    def vocab_size(self) -> int:
        """Give the number of ids: one more than the largest."""
        return max(self.backend.get_vocab().values()) + 1

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Split each text into pieces, without special tokens around them."""
        try:
            return list(self.backend.encode_batch(list(texts), add_special_tokens=False))
        except TypeError:
            raise DataError("texts have to be strings of whole characters, without halves of surrogate pairs") from None

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        """Split sentences that are words already into pieces that know their word."""
        words = [list(sentence) for sentence in sentences]
        return list(self.backend.encode_batch(words, is_pretokenized=True, add_special_tokens=False))

    def token(self, token_id: int) -> str:
        """Spell an id; an id beyond the vocabulary is unknown."""
        return self.backend.id_to_token(token_id) or self.names[ROLES.index("unk_token")]

    def spell(self, token_id: int) -> str:
        """Give an id as text, with a space before it where it begins a word."""
        piece = self.token(token_id)
        if isinstance(self.backend.model, models.WordPiece):
            return piece.removeprefix("##") if piece.startswith("##") else f" {piece}"
        if isinstance(self.backend.decoder, decoders.ByteLevel) and piece not in self.names:
            return str(self.backend.decoder.decode([piece]))
        return piece.replace(SPACE_SIGN, " ")

    def word_starts(self) -> list[bool]:
        """Tell of each id whether it begins a word."""
        return [self.spell(number).startswith(" ") for number in range(self.vocab_size)]

    def of_length(self, longest: int | None) -> Self:
        """Give the same tokenizer for a model that reads so many tokens."""
        tokenizer = copy(self)
        tokenizer.longest = longest
        return tokenizer

    def save(self, folder: Path) -> None:
        """Write the files from which `AutoTokenizer` and `load_tokenizer` make an equal tokenizer."""
        folder.mkdir(parents=True, exist_ok=True)
        self.backend.save(str(folder / "tokenizer.json"))
        settings: dict[str, object] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        settings |= dict(zip(ROLES, self.names, strict=True))
        settings |= {"model_max_length": self.longest} if self.longest else {}
        if isinstance(self.backend.model, models.WordPiece):
            normalizer = json.loads(self.backend.to_str())["normalizer"] or {}
            settings |= {
                "tokenizer_class": "ElectraTokenizer",
                "do_lower_case": normalizer.get("lowercase", False),
                "strip_accents": normalizer.get("strip_accents"),
                "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
            }
            pieces = [self.backend.id_to_token(number) or "" for number in range(self.vocab_size)]  # some ids have none
            (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def load_tokenizer(source: str | Path) -> Tokenizer:
    """Load a tokenizer from a folder, also a run's or a corpus's, a `tokenizer.json`, a `vocab.txt` or a hub name."""
    path = locate(source, FILES, DataError)
    if path.is_dir():
        places = [path / part / name for part in PARTS for name in ("tokenizer.json", "vocab.txt")]
        found = [place for place in places if place.is_file()]
        if not found:
            raise DataError(f"no tokenizer.json and no vocab.txt in {source}")
        path = found[0]
    config = path.with_name("tokenizer_config.json")
    settings = read_table(config, "a tokenizer's config", DataError) if config.is_file() else {}
    try:
        tokenizer = _read_json(path, settings) if path.suffix == ".json" else _read_vocab(path, settings)
    except DataError as problem:
        raise DataError(f"{path}: {problem}") from None
    longest = settings.get("model_max_length")
    return tokenizer.of_length(longest if isinstance(longest, int) and longest < UNLIMITED else None)


def _names(settings: Mapping[str, Any]) -> list[str]:
    """Read what the special tokens are called: a word, or a record with the word as its content."""
    given = [settings.get(role) or name for role, name in zip(ROLES, SPECIAL_TOKENS, strict=True)]
    return [str(name["content"]) if isinstance(name, dict) else str(name) for name in given]


def _read_json(path: Path, settings: Mapping[str, Any]) -> Tokenizer:
    names = _names(settings)
    described = read_table(path, "a tokenizer", DataError)
    for token in described.get("added_tokens", []):  # others than the five, such as [E1], are read where text has them
        token["special"] = token["content"] in names
    try:
        backend = tokenizers.Tokenizer.from_str(json.dumps(described))
    except Exception as problem:  # the library raises bare Exception for a file it cannot read
        raise DataError(f"not a tokenizer: {problem}") from None
    return Tokenizer(backend, names)


def _read_vocab(path: Path, settings: Mapping[str, Any]) -> Tokenizer:
    try:
        pieces = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as problem:
        raise DataError(f"not a vocabulary in UTF-8: {problem}") from None
    names = _names(settings)
    cased = any(piece != piece.lower() for piece in pieces if piece not in names and not piece.startswith("[unused"))
    return wordpiece(
        pieces,
        lowercase=settings.get("do_lower_case", not cased),
        strip_accents=settings.get("strip_accents"),
        split_ideographs=settings.get("tokenize_chinese_chars", True),
        names=names,
    )


def bert_parts(
    *, lowercase: bool, strip_accents: bool | None, split_ideographs: bool = True
) -> tuple[normalizers.Normalizer, pre_tokenizers.PreTokenizer]:
    """Give the two steps that come before WordPiece in BERT; `strip_accents=None` follows `lowercase`."""
    normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents, handle_chinese_chars=split_ideographs
    )
    return normalizer, pre_tokenizers.BertPreTokenizer()


def wordpiece(
    pieces: Sequence[str],
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_ideographs: bool = True,
    names: Sequence[str] = SPECIAL_TOKENS,
) -> Tokenizer:
    """Build BERT's tokenizer over a vocabulary."""
    vocab = {piece.rstrip("\r"): number for number, piece in enumerate(pieces) if piece}
    unknown = names[ROLES.index("unk_token")]
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unknown))
    backend.normalizer, backend.pre_tokenizer = bert_parts(
        lowercase=lowercase, strip_accents=strip_accents, split_ideographs=split_ideographs
    )
    backend.decoder = decoders.WordPiece()
    return framed(backend, names)


def framed(backend: tokenizers.Tokenizer, names: Sequence[str] = SPECIAL_TOKENS) -> Tokenizer:
    """Complete a tokenizer so that `transformers` puts [CLS] and [SEP] around what it encodes."""
    tokenizer = Tokenizer(backend, names)
    start, end = (names[ROLES.index(role)] for role in ("cls_token", "sep_token"))
    backend.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B:1 {end}:1",
        special_tokens=[(start, tokenizer.cls_id), (end, tokenizer.sep_id)],
    )
    return tokenizer
