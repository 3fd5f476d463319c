"""Benchmark of encoding texts of mixed lengths, against `transformers`, sentence-transformers and a careful loop."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from electra.config.load import load_config
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, Tokenizer, wordpiece
from electra.errors import DataError
from electra.model.bodies import build_body
from electra.model.huggingface import write_network
from electra.model.networks import TaskNetwork
from electra.model.pretrained import Pretrained, find_folder, load, sentence_head
from electra.model.sentences import SentenceHead
from electra.model.tensors import has_tensors
from electra.recipes.bench.huggingface import import_transformers
from electra.recipes.bench.timing import Against, Bench, Build, measured, take_turns

Texts = Sequence[str]

TEXTS = {"cpu": 128, "mps": 512, "cuda": 2_048}  # to invent: enough for a few seconds of the slowest variant
USUAL_WORDS = 20  # in an invented text; most have between half and twice as many
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


def bench_encode(
    subject: str | Sequence[str],
    batch: int,
    length: int,
    *,
    texts: Texts | None,
    seconds: float,
    against: Against,
    device: torch.device,
    say: Callable[[str], None] = lambda line: None,
) -> Bench:
    """Time an untrained model of a preset's size, or a list of trained models, which may be ONNX folders.

    They encode those of the given or invented texts that have at most `length` tokens of the first model. The variants
    of Hugging Face and sentence-transformers take `batch` texts at a time.
    """
    texts = invent_texts(TEXTS[device.type], length - 2) if texts is None else texts
    with TemporaryDirectory() as folder:
        if isinstance(subject, str):
            size, first = subject, _untrained(subject, length, texts, device)
            write_network(first.network, Path(folder), tokenizer=first.tokenizer)
            variants = _variants(first, folder, batch, against)
        else:
            loaded = {name: load(name, device) for name in subject}
            first = loaded[subject[0]]
            size = f"{first.encoder.config.layers}x{first.encoder.config.hidden_size}"
            variants = _trained(loaded, batch, against)
        counts = [len(encoding.ids) + 2 for encoding in first.tokenizer.encode(texts)]
        fitting = [text for text, count in zip(texts, counts, strict=True) if count <= length]
        if not texts:
            raise DataError("no texts to encode: give a file with lines of text")
        if not fitting:
            raise DataError(f"none of {len(texts)} texts has {length} tokens or fewer; raise --length")
        trials = take_turns(variants, fitting, device, seconds, f"{size}, {len(fitting)} texts", say)
    real = [count for count in counts if count <= length]
    rows = measured(trials, "encode", size, batch, max(real), tokens=sum(real), peak_seconds=None)
    return Bench(list(rows), [], {})


def invent_texts(count: int, most_words: int) -> list[str]:
    """Invent texts of many lengths; few are long, as in real data."""
    draw = np.random.default_rng(0)
    lengths = draw.lognormal(math.log(USUAL_WORDS), 0.7, count).clip(1, most_words).astype(int)
    return [" ".join("".join(word) for word in draw.choice(SYLLABLES, (words, 2))) for words in lengths]


def vocabulary_of(texts: Texts, size: int) -> Tokenizer:
    """Build a tokenizer from the most common words of the texts; the speed does not depend on which they are."""
    splitter = wordpiece(SPECIAL_TOKENS).backend
    split = (splitter.pre_tokenizer.pre_tokenize_str(splitter.normalizer.normalize_str(text)) for text in texts)
    words = Counter(word for pieces in split for word, _ in pieces)
    return wordpiece([*SPECIAL_TOKENS, *(word for word, _ in words.most_common(size - len(SPECIAL_TOKENS)))])


def _untrained(size: str, length: int, texts: Texts, device: torch.device) -> Pretrained:
    """Return a model of a preset's size with a vocabulary of the texts."""
    shape = load_config(size, [f"model.max_length={max(length, load_config(size).model.max_length)}"]).model
    torch.manual_seed(0)
    network = TaskNetwork(build_body(shape), SentenceHead(shape)).to(device)
    return Pretrained(network, vocabulary_of(texts, shape.vocab_size))


def _variants(model: Pretrained, folder: str, batch: int, against: Against) -> dict[str, Build[Texts]]:
    variants: dict[str, Build[Texts]] = {"electra": lambda: model.encode}
    if against == "hf":
        settings = {"model": folder, "device": model.device, "batch_size": batch}  # as commonly used
        variants["hf_pipeline"] = lambda: import_transformers().pipeline("feature-extraction", **settings)
        variants["hf_careful"] = lambda: CarefulLoop(folder, batch, model.device)
        if find_spec("sentence_transformers"):
            variants["sentence_transformers"] = lambda: _sentence_transformer(folder, batch, model.device)
    return variants


def _trained(loaded: Mapping[str, Pretrained], batch: int, against: Against) -> dict[str, Build[Texts]]:
    variants: dict[str, Build[Texts]] = {}
    for name, model in loaded.items():
        variants[name] = partial(getattr, model, "encode")
        folder = find_folder(name)
        comparable = sentence_head(model.network) and has_tensors(folder)
        if comparable and against == "hf" and find_spec("sentence_transformers"):
            usual = partial(_sentence_transformer, str(folder), batch, model.device)
            variants[f"{name} in sentence-transformers"] = usual
    return variants


def _sentence_transformer(folder: str, batch: int, device: torch.device) -> Callable[[Texts], Any]:
    """Return the encoding of sentence-transformers, in the same precision as ours."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device=str(device), model_kwargs={"dtype": _dtype(device)})
    return partial(model.encode, batch_size=batch, show_progress_bar=False)


def _dtype(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cuda" else torch.float32


class CarefulLoop:
    """A careful loop: sorted by length, padded to the longest text of a batch, averaged on the device, bf16 on CUDA."""

    def __init__(self, folder: str, batch: int, device: torch.device) -> None:
        transformers = import_transformers()
        self.batch, self.device = batch, device
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.network = transformers.AutoModel.from_pretrained(folder, dtype=_dtype(device)).to(device).eval()

    @torch.inference_mode()
    def __call__(self, texts: Texts) -> np.ndarray:
        """Encode texts as vectors (texts, H)."""
        ids = self.tokenizer(list(texts))["input_ids"]
        order = sorted(range(len(ids)), key=lambda number: -len(ids[number]))
        vectors = np.empty((len(ids), self.network.config.hidden_size), np.float32)
        for at in range(0, len(order), self.batch):
            rows = order[at : at + self.batch]
            padded = self.tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt").to(self.device)
            hidden = self.network(**padded).last_hidden_state
            real = padded["attention_mask"][..., None]
            vectors[rows] = ((hidden * real).sum(1, dtype=torch.float32) / real.sum(1)).cpu().numpy()
        return vectors
