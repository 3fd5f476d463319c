"""Text to token ids and back, in the file layout that Hugging Face reads."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import tokenizers
from tokenizers import Encoding, decoders, models, normalizers, pre_tokenizers, processors

from electra.data.hub import locate
from electra.errors import DataError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")


class Tokenizer:
    """A `tokenizers` tokenizer with the five special tokens that pre-training needs.

    Text that spells a special token, such as "[MASK]", is read as ordinary text.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        missing = [token for token in SPECIAL_TOKENS if backend.token_to_id(token) is None]
        if missing:
            raise DataError(f"the vocabulary lacks the special tokens {' '.join(missing)}")
        self.backend = backend
        backend.no_padding()
        backend.no_truncation()
        backend.encode_special_tokens = True
        backend.add_special_tokens(list(SPECIAL_TOKENS))
        ids = [cast(int, backend.token_to_id(token)) for token in SPECIAL_TOKENS]  # none is missing
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids

    @property
    def vocab_size(self) -> int:
        """Give the number of ids: one more than the largest."""
        return max(self.backend.get_vocab().values()) + 1

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Split each text into pieces, without special tokens around them."""
        return list(self.backend.encode_batch(list(texts), add_special_tokens=False))

    def token(self, token_id: int) -> str:
        """Spell an id; an id beyond the vocabulary is [UNK]."""
        return self.backend.id_to_token(token_id) or "[UNK]"

    def save(self, folder: Path) -> None:
        """Write the files from which `AutoTokenizer` and `load_tokenizer` make an equal tokenizer."""
        folder.mkdir(parents=True, exist_ok=True)
        self.backend.save(str(folder / "tokenizer.json"))
        names = dict(
            zip(
                ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"),
                SPECIAL_TOKENS,
                strict=True,
            )
        )
        settings: dict[str, object] = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
        if isinstance(self.backend.model, models.WordPiece):
            normalizer = json.loads(self.backend.to_str())["normalizer"] or {}
            settings |= {
                "tokenizer_class": "ElectraTokenizer",
                "do_lower_case": normalizer.get("lowercase", False),
                "strip_accents": normalizer.get("strip_accents"),
                "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
            }
            pieces = sorted(self.backend.get_vocab().items(), key=lambda item: item[1])
            (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece, _ in pieces), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def load_tokenizer(source: str | Path) -> Tokenizer:
    """Load a tokenizer from a folder, a `tokenizer.json`, a `vocab.txt` or a hub name."""
    path = locate(source, FILES, DataError)
    if path.is_dir():
        found = [path / name for name in ("tokenizer.json", "vocab.txt") if (path / name).is_file()]
        if not found:
            raise DataError(f"no tokenizer.json and no vocab.txt in {source}")
        path = found[0]
    if path.suffix == ".json":
        try:
            return Tokenizer(tokenizers.Tokenizer.from_file(str(path)))
        except Exception as problem:  # the library raises bare Exception for a file it cannot read
            raise DataError(f"{path}: not a tokenizer: {problem}") from None
    settings = path.parent / "tokenizer_config.json"
    options = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    return wordpiece(
        path.read_text(encoding="utf-8").split("\n"),
        lowercase=options.get("do_lower_case", True),
        strip_accents=options.get("strip_accents"),
    )


def wordpiece(pieces: Sequence[str], *, lowercase: bool = True, strip_accents: bool | None = None) -> Tokenizer:
    """Build BERT's tokenizer over a vocabulary; `strip_accents=None` follows `lowercase`, as BERT does."""
    vocab = {piece.rstrip("\r"): number for number, piece in enumerate(pieces) if piece}
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    tokenizer = Tokenizer(backend)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokenizer.cls_id), ("[SEP]", tokenizer.sep_id)],
    )
    return tokenizer
