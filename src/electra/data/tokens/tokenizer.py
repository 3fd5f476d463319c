"""Tokenizers and their files, which are compatible with Hugging Face."""

import hashlib
import json
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Self, cast

import tokenizers
from pydantic import BaseModel
from tokenizers import Encoding, decoders, models, normalizers, pre_tokenizers, processors

from electra.data.checksums import check
from electra.data.files import read_table, write_atomically
from electra.data.reading.hub import locate
from electra.errors import DataError, ForeignText

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
SPACE_SIGN = "▁"  # marks the space before a word in Unigram
CHOICES = {  # BERT's normalizer: tokenizer_config.json, which takes precedence
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "handle_chinese_chars": "tokenize_chinese_chars",
}
INPUTS = ("input_ids", "token_type_ids", "attention_mask")  # inputs of our models as `transformers` names them
MOST_UNKNOWN_TOKENS, MOST_PIECES = 0.1, 3.0  # of a text, and for a word on average, in a language of the model
FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "added_tokens.json")
BERTS = {f"{name}Tokenizer{fast}" for name in ("Bert", "Electra", "DistilBert") for fast in ("", "Fast")}
PARTS = ("", "tokenizer", "model")  # subfolders with a tokenizer, for a corpus or a run
FEWEST = 3  # tokens: [CLS], one token of text, [SEP]
GROWTH = {"ByteLevel": 4, "Precompiled": 100}  # letters that a step of a tokenizer may write for each that it reads
MOST_GROWTH = 1000  # of all steps together: a chain of a few lines could make terabytes of a word
PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that byte-level BPE writes as themselves
BYTES = {chr(byte): byte for byte in PRINTED}
BYTES |= {chr(256 + number): byte for number, byte in enumerate(byte for byte in range(256) if byte not in PRINTED)}
UNLIMITED = 1_000_000  # tokens; `transformers` uses larger values for no limit


class _Settings(BaseModel):
    """What tokenizer_config.json says about BERT's tokenizers, if anything."""

    tokenizer_class: str | None = None
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None


class _Described(BaseModel):
    """The parts of tokenizer.json that are changed before the library reads it."""

    normalizer: dict[str, Any] | None = None
    added_tokens: Sequence[dict[str, Any]] = ()


@contextmanager
def _explained() -> Iterator[None]:
    """Turn a panic of the library into an error of the user: a regular expression of a tokenizer may take too long."""
    try:
        yield
    except BaseException as problem:  # panics are no `Exception`s, and their class has no public name
        if type(problem).__name__ != "PanicException":
            raise
        raise DataError(f"the tokenizer cannot split this text: {problem}; use another tokenizer") from None


class Tokenizer:
    """A `tokenizers` tokenizer with the five special tokens that pre-training needs, under any names.

    Text that contains a special token, such as "[MASK]", is read as ordinary text. `longest` is the maximum number of
    tokens of the model in the same folder, if known.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, names: Sequence[str] = SPECIAL_TOKENS, longest: int | None = None
    ) -> None:
        missing = [name for name in names if backend.token_to_id(name) is None]
        if missing:
            raise DataError(
                f"the vocabulary lacks the special tokens {' '.join(missing)}; if they have other names, "
                f"set {', '.join(ROLES)} in a tokenizer_config.json next to it"
            )
        self.backend = backend
        self.names = tuple(names)
        self.longest = longest
        backend.no_padding()
        backend.no_truncation()
        backend.encode_special_tokens = True
        special = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
        backend.add_special_tokens([name for name in names if name not in special])  # the others keep their settings
        ids = [cast(int, backend.token_to_id(name)) for name in names]  # none is missing
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids
        if len(set(ids)) < len(ids):
            raise DataError(f"the special tokens must be different; found {' '.join(names)}")
        self._check_unknown_letters()
        self._check_injection()

    def _check_unknown_letters(self) -> None:
        """Check that letters outside the vocabulary become unknown tokens."""
        model = self.backend.model
        if isinstance(model, models.Unigram) and json.loads(self.backend.to_str())["model"]["unk_id"] is None:
            raise DataError("the Unigram vocabulary has no unk_id, the id of the unknown token; set one")
        unknown = getattr(model, "unk_token", None)
        if unknown is not None and self.backend.token_to_id(unknown) is None:
            raise DataError(f"the vocabulary lacks its own unk_token {unknown}; set another in tokenizer.json")
        if isinstance(model, models.BPE) and unknown is None and not self.encode(["\U000f0000"])[0].ids:
            raise DataError("the BPE vocabulary drops unknown letters; set its unk_token")

    def _check_injection(self) -> None:
        """Check that text never produces the id of a special token, which would break document boundaries."""
        special = {self.pad_id, self.cls_id, self.sep_id, self.mask_id}
        for name in self.names:
            encodings = self.encode([f"a {name}{name} b", f"a {name} b"])
            if any(special.intersection(encoding.ids) for encoding in encodings):
                raise DataError(f"the text {name} is read as that special token; use another tokenizer")

    def __setstate__(self, state: dict[str, Any]) -> None:  # in worker processes
        self.__dict__.update(state)
        self.backend.encode_special_tokens = True  # not part of the backend's pickle

    @property
    def fingerprint(self) -> str:
        """Return a hash of the tokenizer."""
        return hashlib.sha256(" ".join([*self.names, self.backend.to_str()]).encode()).hexdigest()

    @property
    def vocab_size(self) -> int:
        """Return the number of ids, one more than the largest."""
        return max(self.backend.get_vocab().values()) + 1

    def __repr__(self) -> str:
        """Return the kind and size of the tokenizer."""
        return f"Tokenizer({type(self.backend.model).__name__} of {self.vocab_size:,} pieces)"

    def encode(self, texts: Iterable[str], prefix: str = "") -> list[Encoding]:
        """Split each text, after a prefix, into pieces, without special tokens; a repeated text is split once."""
        if isinstance(texts, str):
            raise DataError("expected a list of texts, found one text; pass [text]")
        texts = list(texts)
        try:
            if not all(isinstance(text, str) for text in texts):
                raise TypeError  # also for pairs, which the library would join
            distinct = list(dict.fromkeys(texts))
            with _explained():
                found = self.backend.encode_batch([prefix + text for text in distinct], add_special_tokens=False)
            encodings = dict(zip(distinct, found, strict=True))
            return [encodings[text] for text in texts]
        except TypeError:
            raise DataError("texts must be strings without lone surrogates") from None

    def spans(self, encoding: Encoding, text: str) -> list[tuple[int, int]]:
        """Return the characters of each piece of a text, without the space before a word; a space alone is empty."""
        found = encoding.offsets
        marker = self.backend.token_to_id(SPACE_SIGN)  # of the start of a word
        for number, (piece, (start, end)) in enumerate(zip(encoding.ids, found, strict=True)):
            if piece == marker or text[start : start + 1].isspace():
                bare = text[start:end].lstrip()
                # The marker has the offsets of the next letter if there is no space.
                found[number] = (start, start) if piece == marker and bare else (end - len(bare), end)
        return found

    def warn_of_foreign(self, ids: Iterable[int]) -> None:
        """Warn if many tokens of a text are unknown, or if its words are spelled letter by letter."""
        counts = Counter(ids)
        total = counts.total()
        unknown = counts[self.unk_id] / max(total, 1)
        prefix = getattr(self.backend.model, "continuing_subword_prefix", None)
        inside = sum(count for token, count in counts.items() if prefix and self.token(token).startswith(prefix))
        pieces = total / max(total - inside, 1)
        found = f"{unknown:.0%} of the tokens are unknown to the model's vocabulary"
        if pieces > MOST_PIECES:
            found = f"the model's vocabulary needs {pieces:.1f} pieces for a word"
        if pieces > MOST_PIECES or unknown > MOST_UNKNOWN_TOKENS:
            warnings.warn(f"{found}; use a model of this language", ForeignText, stacklevel=3)

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        """Split sentences, given as lists of words, into pieces that refer to their word.

        A word is read with the space before it, as in a text: byte-level BPE has other pieces without one.
        """
        words = [[f" {word}" if place else word for place, word in enumerate(sentence)] for sentence in sentences]
        with _explained():
            return list(self.backend.encode_batch(words, is_pretokenized=True, add_special_tokens=False))

    def token(self, token_id: int) -> str:
        """Return the token of an id, or the unknown token for an id outside the vocabulary."""
        return self.backend.id_to_token(token_id) or self.names[ROLES.index("unk_token")]

    def spell(self, token_id: int) -> str:
        """Return the text of an id, with a leading space if it begins a word."""
        piece = self.token(token_id)
        if isinstance(self.backend.model, models.WordPiece):
            return piece.removeprefix("##") if piece.startswith("##") else f" {piece}"
        if isinstance(self.backend.decoder, decoders.ByteLevel) and piece not in self.names:
            return str(self.backend.decoder.decode([piece]))
        return piece.replace(SPACE_SIGN, " ")

    def spell_bytes(self, token_id: int) -> bytes:
        """Return the text of an id in UTF-8; a piece of byte-level BPE may begin or end inside a character."""
        piece = self.token(token_id)
        if isinstance(self.backend.decoder, decoders.ByteLevel) and BYTES.keys() >= set(piece):
            return bytes(BYTES[sign] for sign in piece)
        return self.spell(token_id).encode()

    def word_starts(self) -> list[bool]:
        """Return for each id whether it begins a word."""
        return [self.spell(number).startswith(" ") for number in range(self.vocab_size)]

    def of_length(self, longest: int | None) -> Self:
        """Return a copy for a model with this maximum number of tokens."""
        tokenizer = copy(self)
        tokenizer.longest = longest
        return tokenizer

    def save(self, folder: Path, types: bool = True) -> None:
        """Write the files from which `AutoTokenizer` and `load_tokenizer` load an equal tokenizer.

        `types`: whether the model has token types, so that `AutoTokenizer` returns them.
        """
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "tokenizer.json", self.backend.to_str(pretty=True))
        settings: dict[str, object] = dict(zip(ROLES, self.names, strict=True))
        settings |= {"model_max_length": self.longest} if self.longest else {}
        settings["model_input_names"] = [name for name in INPUTS if types or name != "token_type_ids"]
        described = json.loads(self.backend.to_str())
        if not _is_berts(described):
            settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        else:  # `transformers` builds it from the vocabulary and three settings
            normalizer = described["normalizer"]
            settings["tokenizer_class"] = "ElectraTokenizer"
            settings |= {theirs: normalizer[ours] for ours, theirs in CHOICES.items()}
            pieces = [self.backend.id_to_token(number) or "" for number in range(self.vocab_size)]  # "": unused id
            write_atomically(folder / "vocab.txt", "".join(f"{piece}\n" for piece in pieces))
        write_atomically(folder / "tokenizer_config.json", json.dumps(settings, indent=2) + "\n")


def load_tokenizer(source: str | Path) -> Tokenizer:
    """Load a tokenizer from a folder (also of a run or a corpus), a `tokenizer.json`, a `vocab.txt` or a hub name."""
    path = locate(source, FILES, DataError)
    if path.is_dir():
        places = [path / part / name for part in PARTS for name in ("tokenizer.json", "vocab.txt")]
        found = [place for place in places if place.is_file()]
        if not found:
            raise DataError(f"no tokenizer.json or vocab.txt in {source}")
        path = found[0]
    elif not path.is_file():
        raise DataError(f"{source} is neither a file nor a folder; give a tokenizer.json, a vocab.txt or their folder")
    check(path.parent, FILES)
    config = path.with_name("tokenizer_config.json")
    settings = read_table(config, "a tokenizer's config", DataError, _Settings) if config.is_file() else {}
    try:
        tokenizer = _read_json(path, settings) if path.suffix == ".json" else _read_vocab(path, settings)
    except (DataError, UnicodeEncodeError) as problem:  # half a character, which JSON can spell
        raise DataError(f"{path}: {problem}") from None
    longest = settings.get("model_max_length")
    return tokenizer.of_length(longest if isinstance(longest, int) and FEWEST <= longest < UNLIMITED else None)


def _is_berts(described: Mapping[str, Any]) -> bool:
    """Return whether a tokenizer is BERT's, apart from its vocabulary and handling of case, accents and ideographs."""
    normalizer, words, model = (described[part] or {} for part in ("normalizer", "pre_tokenizer", "model"))
    return (
        (normalizer.get("type"), normalizer.get("clean_text")) == ("BertNormalizer", True)
        and words.get("type") == "BertPreTokenizer"
        and (model["type"], model.get("continuing_subword_prefix")) == ("WordPiece", "##")
        and model.get("max_input_chars_per_word") == 100
    )


def _names(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the special tokens, each given as a string or as an object with its content."""
    given = [settings.get(role) or name for role, name in zip(ROLES, SPECIAL_TOKENS, strict=True)]
    return [_content(name) if isinstance(name, dict) else str(name) for name in given]


def _content(token: Mapping[str, Any]) -> str:
    if "content" not in token:
        raise DataError(f"a token has no content: {json.dumps(token)}")
    return str(token["content"])


def _read_json(path: Path, settings: Mapping[str, Any]) -> Tokenizer:
    names = _names(settings)
    described = read_table(path, "a tokenizer", DataError, _Described)
    normalizer = described.get("normalizer") or {}
    if settings.get("tokenizer_class") in BERTS and normalizer.get("type") == "BertNormalizer":
        normalizer |= {ours: settings[theirs] for ours, theirs in CHOICES.items() if theirs in settings}
    for token in described.get("added_tokens", []):  # others, such as [E1], may occur in text
        token["special"] = _content(token) in names
    try:
        backend = tokenizers.Tokenizer.from_str(json.dumps(described))
    except Exception as problem:  # the library raises a bare Exception
        raise DataError(f"not a tokenizer: {problem}") from None
    growth = _growth(backend.normalizer) * _growth(backend.pre_tokenizer)
    if growth > MOST_GROWTH:
        raise DataError(f"the tokenizer may make a text {growth:.2g} times longer; do not trust it, use another")
    return framed(backend, names, trims='"trim_offsets": true' in json.dumps(described.get("post_processor")))


def _growth(part: Any) -> float:
    """Return the factor by which a normalizer or pre-tokenizer may lengthen a text."""

    def of_step(step: Mapping[str, Any]) -> float:
        if step["type"] == "Sequence":
            return math.prod(map(of_step, step.get("normalizers") or step.get("pretokenizers", [])))
        if step["type"] == "Replace":
            length = len(step["pattern"].get("String", ""))
            return max(1.0, len(step["content"]) / length) if length else 1 + len(step["content"])
        if step["type"] == "Prepend":
            return 1 + len(step["prepend"])
        return GROWTH.get(step["type"], 1)

    return of_step(json.loads(part.__getstate__())) if part else 1


def _read_vocab(path: Path, settings: Mapping[str, Any]) -> Tokenizer:
    kind = settings.get("tokenizer_class")
    if kind not in (None, "PreTrainedTokenizerFast", *BERTS):
        raise DataError(f"the vocabulary is for {kind}, which needs a tokenizer.json; save one next to it")
    try:
        pieces = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as problem:
        raise DataError(f"the vocabulary is not UTF-8: {problem}") from None
    names = _names(settings)
    cased = any(piece != piece.lower() for piece in pieces if piece not in names and not piece.startswith("[unused"))
    chosen = {key: value for key, value in settings.items() if value is not None}
    tokenizer = wordpiece(
        pieces,
        lowercase=chosen.get("do_lower_case", not cased),
        strip_accents=chosen.get("strip_accents"),
        split_ideographs=chosen.get("tokenize_chinese_chars", True),
        names=names,
    )
    backend = tokenizer.backend
    for number, token in sorted(_added(path.with_name("added_tokens.json"), settings).items()):
        if backend.token_to_id(token) is None:
            backend.add_tokens([token])
        if (found := backend.token_to_id(token)) != number:
            raise DataError(f"the added token {token} has id {number}, but id {found} in the vocabulary")
    return tokenizer


def _added(path: Path, settings: Mapping[str, Any]) -> dict[int, str]:
    """Return the tokens added to a vocabulary by id, from its settings or a file next to it."""
    in_file = read_table(path, "a list of added tokens", DataError) if path.is_file() else {}
    try:
        listed = {int(number): _content(token) for number, token in settings.get("added_tokens_decoder", {}).items()}
        return listed | {int(number): token for token, number in in_file.items()}
    except (AttributeError, TypeError, ValueError):
        raise DataError("the added tokens do not have integer ids") from None


def wordpiece(
    pieces: Sequence[str],
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_ideographs: bool = True,
    names: Sequence[str] = SPECIAL_TOKENS,
) -> Tokenizer:
    """Return BERT's tokenizer with a vocabulary; `strip_accents=None` means the same as `lowercase`."""
    vocab = {piece.rstrip("\r"): number for number, piece in enumerate(pieces) if piece}
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=names[ROLES.index("unk_token")]))
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents, handle_chinese_chars=split_ideographs
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return framed(backend, names)


def framed(backend: tokenizers.Tokenizer, names: Sequence[str] = SPECIAL_TOKENS, *, trims: bool = False) -> Tokenizer:
    """Return a tokenizer that adds [CLS] and [SEP] around encoded text, also in `transformers`.

    With `trims`, the offsets of a byte-level piece exclude the space before it.
    """
    tokenizer = Tokenizer(backend, names)
    start, end = (names[ROLES.index(role)] for role in ("cls_token", "sep_token"))
    frame = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B:1 {end}:1",
        special_tokens=[(start, tokenizer.cls_id), (end, tokenizer.sep_id)],
    )
    backend.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), frame]) if trims else frame
    return tokenizer
