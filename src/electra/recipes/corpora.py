"""The corpora of a pre-training run: the sizes that follow from them, how long they last, how often tokens occur."""

import math
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from electra.config.bodies import ModelConfig
from electra.config.keys import is_set
from electra.config.load import gather, load_config, validate
from electra.config.schema import PretrainConfig
from electra.data.corpus.shards import Corpus, Ids, open_corpus
from electra.data.corpus.verify import check_corpus
from electra.data.reading.sources import names_of
from electra.data.storage import local_path
from electra.data.tokens.tokenizer import load_tokenizer
from electra.errors import ConfigError
from electra.model.huggingface import read_shape
from electra.model.initialize import sparse_matrix
from electra.model.pretrained import find_folder, fits_vocabulary
from electra.recipes.plan import MOST_EPOCHS
from electra.training.run import begun

SHORTEST = 8  # tokens of the sequences that a run may start with
MOST_PAIRED = 1 << 24  # tokens in which pairs are counted
PAIRED_AT_ONCE = 1 << 16  # sequences whose pairs are counted by one thread


class Corpora(list[Corpus]):
    """The corpora that a config names, with one tokenizer."""

    def __init__(self, config: PretrainConfig) -> None:
        assert config.data is not None
        super().__init__(map(open_corpus, names_of(config.data)))
        self.weights = config.data_weights
        self.tokenizer = load_tokenizer(self[0].path / "tokenizer")

    def fit(self, config: PretrainConfig) -> PretrainConfig:
        """Return the config with the sizes of the corpus, or of the model it starts from; refuse sizes that differ."""
        corpus, start = self[0].manifest, _start(config)
        length = config.train.length if is_set(config, "train.length") else corpus.length
        if length != corpus.length:
            raise ConfigError(
                f"{self[0].path} has sequences of {corpus.length} tokens, train.length is {length}: "
                f"set train.length={corpus.length}, or build the corpus with --length {length}"
            )
        follows = config.model.sizes_for(self.tokenizer.vocab_size, length, self.segments)
        if start:
            follows = {key: getattr(start, key, value) for key, value in follows.items()}
        sizes = {key: value for key, value in follows.items() if not is_set(config, f"model.{key}")}
        model = config.model.model_copy(update=sizes)
        train = config.train.model_copy(update={"length": length, **_start_length(config, length)})
        fitted = config.model_copy(update={"model": model, "train": train})
        self._check(fitted)
        return validate(PretrainConfig, gather(PretrainConfig, fitted.model_dump(exclude_none=True)))

    @property
    def segments(self) -> int:
        """The texts of a sequence: two in the paper's cut."""
        return 1 + (self[0].manifest.cut == "paper")

    def check_files(self) -> None:
        """Raise an error if a file of a corpus is damaged."""
        for corpus in self:
            check_corpus(corpus)

    def fingerprint(self) -> str:
        """Return what identifies the content of all corpora."""
        return " ".join(corpus.fingerprint for corpus in self)

    def lasting_tokens(self, length: int) -> float:
        """Count the tokens until all text, or the corpus of a mixture that ends first, has been read once."""
        sizes = [length * corpus.sequences("train") for corpus in self]
        if not self.weights:
            return sum(sizes)
        shares = [weight / sum(self.weights) for weight in self.weights]
        return min(size / share for size, share in zip(sizes, shares, strict=True))

    def token_counts(self, vocab_size: int) -> Tensor:
        """Count how often each token is read, mixtures by their weights, without special tokens."""
        counts = np.zeros((len(self), vocab_size))
        for corpus, row in zip(self, counts, strict=True):
            for shard in corpus.shards("train"):
                for start in range(0, len(shard), 65_536):
                    row += np.bincount(shard[start : start + 65_536].ravel(), minlength=vocab_size)
            row[[number for name, number in corpus.manifest.special_ids.items() if name != "unk"]] = 0
        if self.weights:
            sizes = counts.sum(1)
            counts *= (sizes.sum() / sum(self.weights) * np.array(self.weights) / sizes)[:, None]
        return torch.from_numpy(counts.sum(0)).float()

    def token_pairs(self, vocab_size: int, device: torch.device | str = "cpu") -> Future[Tensor]:
        """Count in the background, in part of the text, which tokens follow each other, next but one by half.

        The shards are opened before: numpy reads their headers with Python's parser, which two threads cannot use at
        once before Python 3.11.8 (python/cpython#106905).
        """
        special = [number for name, number in self[0].manifest.special_ids.items() if name != "unk"]
        shards = [shard for corpus in self for shard in corpus.shards("train")]
        return ThreadPoolExecutor(1).submit(_sum_pairs, shards, special, vocab_size, device)

    def _check(self, config: PretrainConfig) -> None:
        corpus, model = self[0], config.model
        if self.weights is not None and len(self.weights) != len(self):
            raise ConfigError(f"data_weights: {len(self.weights)} weights for {len(self)} corpora; give one for each")
        if not model.tells_apart(self.segments):
            raise ConfigError(f"{corpus.path} has two segments per sequence (--cut paper): set model.token_types=2")
        if config.init is not None and not _resumes(config):
            self._check_start(config.init)
        sequences = sum(one.sequences("train") for one in self)
        if sequences and config.train.batch_size > MOST_EPOCHS * sequences:
            raise ConfigError(
                f"train.batch_size is {config.train.batch_size}, but {corpus.path} has only {sequences} sequences: "
                "lower it, or build a corpus of more text"
            )
        if not fits_vocabulary(model.vocab_size, self.tokenizer.vocab_size):
            raise ConfigError(
                f"{corpus.path} has a vocabulary of {self.tokenizer.vocab_size}, model.vocab_size is "
                f"{model.vocab_size}: drop model.vocab_size, or build the corpus with another tokenizer"
            )

    def _check_start(self, source: str) -> None:
        """Refuse weights whose ids mean other tokens than those of the corpus."""
        ours, theirs = self.tokenizer, load_tokenizer(find_folder(source))
        if differing := ours.backend.get_vocab().items() ^ theirs.backend.get_vocab().items():
            number = min(number for _, number in differing)
            raise ConfigError(
                f"init: {source} has another vocabulary than the corpus, such as {theirs.token(number)!r} for "
                f"{ours.token(number)!r}: build the corpus with --tokenizer {find_folder(source)}"
            )


def _sum_pairs(shards: list[Ids], special: list[int], vocab_size: int, device: torch.device | str) -> Tensor:
    """Count pairs in evenly spaced parts of the shards: a sparse (V, V) tensor."""
    every = -(-sum(shard.size for shard in shards) // MOST_PAIRED)
    parts = [shard[at : at + PAIRED_AT_ONCE : every] for shard in shards for at in range(0, len(shard), PAIRED_AT_ONCE)]
    with ThreadPoolExecutor() as pool:
        counted = pool.map(lambda rows: _count_pairs(rows, special, vocab_size), parts)
        found = [pair for pairs in counted for pair in pairs]
    keys, counts = (torch.from_numpy(np.concatenate(part)).to(device) for part in zip(*found, strict=True))
    places = torch.stack([keys // vocab_size, keys % vocab_size])
    return sparse_matrix(places, counts.float(), vocab_size).coalesce()


def _count_pairs(rows: Ids, special: list[int], vocab_size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Count pairs of neighbors and of next but one: for each distance, numbers of pairs and how often they occur."""
    ids: np.ndarray = rows.astype(np.uint32 if vocab_size <= 1 << 16 else np.int64)  # small numbers are sorted faster
    is_text, found = ~np.isin(rows, special), []
    for distance in (1, 2):
        pairs = ids[:, :-distance] * vocab_size + ids[:, distance:]
        kept = is_text[:, :-distance] & is_text[:, distance:]
        keys, counts = np.unique(pairs[kept], return_counts=True)
        found.append((keys.astype(np.int64), counts / distance))
    return found


def _start(config: PretrainConfig) -> ModelConfig | None:
    """Read the shape of the model to start from; a run that resumes no longer needs that model."""
    if config.init is None:
        return None
    return load_config(local_path(config.out or "")).model if _resumes(config) else read_shape(find_folder(config.init))


def _resumes(config: PretrainConfig) -> bool:
    out = local_path(config.out or "")
    return config.out is not None and (out / "config.toml").is_file() and begun(out)


def _start_length(config: PretrainConfig, length: int) -> dict[str, Any]:
    """Return a preset's short sequences of the start so that they divide the length; none if they get too short."""
    start = config.train.start_length
    if start is None or is_set(config, "train.start_length") or length % start == 0:
        return {}
    common = math.gcd(start, length)
    return {"start_length": common} if common >= SHORTEST else {"start_length": None, "length_warmup_steps": None}
