"""Train WordPiece, Unigram and BPE vocabularies; the result does not depend on the number of threads.

The trainers of `tokenizers` iterate over hash tables, whose order changes from run to run; the code here removes the
dependence on that order.
"""

import math
from collections import Counter
from collections.abc import Mapping, Set

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from electra.data.settings import Pieces
from electra.data.tokens.sample import Sample
from electra.data.tokens.tokenizer import SPACE_SIGN, SPECIAL_TOKENS, Tokenizer, framed, wordpiece

MIN_FREQUENCY = 2  # rarer pieces are not useful
LONGEST_PIECE = 16  # characters; for Unigram
CANDIDATES = 1.5  # Unigram starts with this multiple of the requested size
REFINEMENTS = (1.3, 1.15, 1.0, 1.0)  # and keeps this multiple in each round
REFINED_CHARACTERS = 20_000_000  # of the sample, for these rounds

# A word, a number or a run of punctuation, each with the space before it; scripts without spaces are not split.
STRETCHES = pre_tokenizers.Split(Regex(r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+"), "isolated")


def train_pieces(model: Pieces, sample: Sample, size: int, *, lowercase: bool, strip_accents: bool) -> Tokenizer:
    """Train a vocabulary of at most `size` pieces on a sample of text."""
    train = {"wordpiece": _train_wordpiece, "unigram": _train_unigram, "bpe": _train_bpe}[model]
    return train(sample, size, lowercase, strip_accents)


def _train_wordpiece(sample: Sample, size: int, lowercase: bool, strip_accents: bool) -> Tokenizer:
    """Train the vocabulary of BERT's tokenizer, which matches pieces from the left, longest first."""
    normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    words = pre_tokenizers.BertPreTokenizer()
    alphabet = _alphabet(sample.count_characters(), normalizer)
    letters = sorted(alphabet[: size // 3])
    # Punctuation and ideographs are separate words and never continue one.
    inner = [letter for letter in letters if len(words.pre_tokenize_str(normalizer.normalize_str(f"a{letter}"))) == 1]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=MIN_FREQUENCY,
        # Ids are given in order of appearance and break ties between pairs, so list all letters first.
        special_tokens=[*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in inner)],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    vocab = _trained(models.WordPiece(unk_token="[UNK]"), trainer, sample, normalizer, words).get_vocab()
    others = [letter for letter in alphabet if letter not in vocab]  # fill the places left by text with ideographs
    pieces = [*sorted(vocab, key=vocab.__getitem__), *others][:size]
    return wordpiece(pieces, lowercase=lowercase, strip_accents=strip_accents)


def _train_unigram(sample: Sample, size: int, lowercase: bool, strip_accents: bool) -> Tokenizer:
    """Train a Unigram model, which splits text into its most probable sequence of pieces.

    Candidates come from BPE merges; then pieces that are rarely used in the best segmentations are dropped. The trainer
    of `tokenizers` instead looks for substrings common to different words and misses words with a single form.
    """
    normalizer = _compatible_normalizer(lowercase, strip_accents)
    metaspace = pre_tokenizers.Metaspace(replacement=SPACE_SIGN, prepend_scheme="never", split=False)
    pre_tokenizer = pre_tokenizers.Sequence([STRETCHES, metaspace])
    letters = sorted({SPACE_SIGN, *_alphabet(sample.count_characters(compatible=True), normalizer)[: size // 3]})
    trainer = trainers.BpeTrainer(
        vocab_size=int(CANDIDATES * size),
        min_frequency=MIN_FREQUENCY,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        max_token_length=LONGEST_PIECE,
        show_progress=False,
    )
    vocab = _trained(models.BPE(), trainer, sample, normalizer, pre_tokenizer).get_vocab()
    # Pieces merged earlier are more frequent, which is good enough as initial scores.
    scores = {piece: -math.log(vocab[piece] + 1) for piece in sorted(vocab, key=vocab.__getitem__)}
    stretches: Counter[str] = Counter()
    for line in sample.lines(stride=1 + sample.kept_characters // REFINED_CHARACTERS):
        parts = pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(line))
        stretches.update(stretch for stretch, _ in parts)
    for share in REFINEMENTS:
        scores = _refine(scores, stretches, int(share * size) - len(SPECIAL_TOKENS), set(letters))
    backend = tokenizers.Tokenizer(_unigram(scores))
    backend.normalizer, backend.pre_tokenizer = normalizer, pre_tokenizer
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    return framed(backend)


def _trained(
    model: models.Model,
    trainer: trainers.Trainer,
    sample: Sample,
    normalizer: normalizers.Normalizer,
    pre_tokenizer: pre_tokenizers.PreTokenizer,
) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(model)
    backend.normalizer, backend.pre_tokenizer = normalizer, pre_tokenizer
    backend.train([str(file) for file in sample.files], trainer)
    return backend


def _unigram(scores: Mapping[str, float]) -> models.Unigram:
    special = [(token, 0.0) for token in SPECIAL_TOKENS]
    return models.Unigram([*special, *scores.items()], unk_id=SPECIAL_TOKENS.index("[UNK]"))


def _refine(
    scores: Mapping[str, float], stretches: Mapping[str, int], size: int, letters: Set[str]
) -> dict[str, float]:
    """Segment all text with the current scores, then rescore the pieces by their use and keep the most used.

    Counts are integers, so the result does not depend on the order of summation.
    """
    backend = tokenizers.Tokenizer(_unigram(scores))
    used = [0] * (len(SPECIAL_TOKENS) + len(scores))
    spelled = backend.encode_batch_fast(list(stretches), add_special_tokens=False)
    for encoding, count in zip(spelled, stretches.values(), strict=True):
        for number in encoding.ids:
            used[number] += count
    uses = dict(zip(scores, used[len(SPECIAL_TOKENS) :], strict=True))
    kept = sorted(uses, key=lambda piece: (piece not in letters, -uses[piece], piece))[:size]
    total = max(1, sum(uses[piece] for piece in kept))  # 0 for text of control characters
    return {
        piece: round(math.log(max(uses[piece], 0.5) / total), 6)
        for piece in sorted(kept, key=lambda piece: (-uses[piece], piece))
    }


def _train_bpe(sample: Sample, size: int, lowercase: bool, strip_accents: bool) -> Tokenizer:
    """Train a byte-level BPE model, for which no text is unknown."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=MIN_FREQUENCY,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(byte_level.alphabet()),
        show_progress=False,
    )
    normalizer = _compatible_normalizer(lowercase, strip_accents)
    words = pre_tokenizers.Sequence([STRETCHES, byte_level])
    backend = _trained(models.BPE(unk_token="[UNK]"), trainer, sample, normalizer, words)
    backend.decoder = decoders.ByteLevel()
    return framed(backend)


def _compatible_normalizer(lowercase: bool, strip_accents: bool) -> normalizers.Normalizer:
    """Return a normalizer that applies NFKC, drops control characters and puts one space before every word."""
    clean = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=False, strip_accents=strip_accents, lowercase=lowercase
    )
    one_space = [normalizers.Replace(Regex(" +"), " "), normalizers.Strip(), normalizers.Prepend(" ")]
    return normalizers.Sequence([normalizers.NFKC(), clean, normalizers.NFC(), *one_space])


def _alphabet(counts: Mapping[str, int], normalizer: normalizers.Normalizer) -> list[str]:
    """Return the letters that occur at least twice, most frequent first."""
    normalized: Counter[str] = Counter()
    for character, count in counts.items():
        for letter in normalizer.normalize_str(character).replace(" ", ""):
            normalized[letter] += count
    frequent = [letter for letter, count in normalized.items() if count >= MIN_FREQUENCY]
    return sorted(frequent, key=lambda letter: (-normalized[letter], letter))
