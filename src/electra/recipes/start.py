"""The model that `electra train --init` starts from: how to continue it, its copy in the run, what training changed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from electra.config.load import load_config
from electra.config.objectives import (
    CorrectiveObjective,
    Detecting,
    ElectricObjective,
    MaskedLMGenerator,
    Masking,
    TwoTowerGenerator,
)
from electra.config.schema import PretrainConfig
from electra.data.files import write_json
from electra.data.reading.sentences import split_sentences
from electra.data.reading.text import read_documents
from electra.data.settings import Reading
from electra.errors import DataError
from electra.model.networks import MaskedLM, TokenScorer
from electra.model.pretrained import Pretrained, find_folder, load, sentence_head
from electra.model.sentences import unit_vectors
from electra.recipes.convert import config_of
from electra.training.run import run_of

RATE_SHARE = 0.2  # of the learning rate from random weights, so that less is forgotten
COMPARISON = "comparison.json"
FEWEST_SENTENCES, SENTENCES = 3, 400  # on which two models are compared: two similarities always correlate
FEWEST_WORDS, MOST_WORDS = 5, 30  # in such a sentence
SIMILAR = 0.9  # correlation of similarities before and after training, below which sentence vectors have changed

Pairs = list[tuple[str, str]]  # a sentence, and a copy in which one word is replaced


@dataclass(frozen=True)
class Start:
    """A model to start from, and the settings with which its training continues."""

    source: str
    config: PretrainConfig
    parts: frozenset[str]  # that it has besides its encoder
    new_vocabulary: bool

    def lacks(self, objective: Masking) -> list[str]:
        """Return the parts of an objective that start from random weights."""
        generator = getattr(objective, "generator", None)
        detects, scores = isinstance(objective, Detecting), isinstance(objective, ElectricObjective)
        needed = {
            "generator": isinstance(generator, MaskedLMGenerator),
            "two-tower generator": isinstance(generator, TwoTowerGenerator),
            f"{'discriminator' if detects else 'energy' if scores else 'masked-LM'} head": True,
            "correcting head": isinstance(objective, CorrectiveObjective),
        }
        return [part for part, applies in needed.items() if applies and part not in self.parts]


def find_start(source: str, *, new_vocabulary: bool) -> Start:
    """Read a model and choose how to continue it: with the objective of its run, or else the one that its head fits."""
    folder, model = find_folder(source), load(source, device="cpu")
    config, run = config_of(model), run_of(folder)
    if isinstance(model.network, TokenScorer | MaskedLM) and run:
        config = config.model_copy(update={"objective": load_config(run).objective})
    rate = config.train.learning_rate * (1 if new_vocabulary else RATE_SHARE)
    train = config.train.model_copy(update={"optimizer": "adamw", "learning_rate": rate})
    parts = {
        "generator": model.generator,
        f"{getattr(model.network, 'purpose', '')} head": True,
        "correcting head": model.corrector or isinstance(model.network, MaskedLM),
    }
    has = frozenset(part for part, found in parts.items() if found)
    return Start(source, config.model_copy(update={"train": train}), has, new_vocabulary)


def replaced_pairs(names: Sequence[str], reading: Reading) -> Pairs:
    """Return sentences of a text, each with a copy in which one word is replaced by another of the text."""
    chance = random.Random(0)
    sentences = list(_sentences(names, reading))
    words = [word for sentence in sentences for word in _words(sentence)]
    pairs = []
    for sentence in sentences:
        changed = _words(sentence)
        changed[chance.randrange(len(changed))] = chance.choice(words)
        pairs.append((sentence, (" " if " " in sentence else "").join(changed)))
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    if not pairs:
        raise DataError(f"no sentences of {FEWEST_WORDS} to {MOST_WORDS} words in {' '.join(names)}; use other text")
    return pairs


def compare(start: str | Path, run: Path, names: Sequence[str], old: Pairs, reading: Reading) -> Iterator[str]:
    """Compare a trained model with the one that it started from; yield the findings, which are also stored."""
    before, after = load(start), load(run)
    found: dict[str, float] = {}
    if old and isinstance(before.network, TokenScorer | MaskedLM):
        found["old_text_before"], found["old_text_after"] = _preference(before, old), _preference(after, old)
        shares = (
            f"{found['old_text_before']:.1%} of {len(old)} pairs before training, {found['old_text_after']:.1%} after"
        )
        yield f"forgetting: on the old text, the original of a sentence beats a copy with a replaced word in {shares}"
    elif old:
        yield "forgetting: not measured, since the model had no head that scores text"
    sentences = list(_sentences(names, reading)) if sentence_head(before.network) else None
    if sentences and len(sentences) >= FEWEST_SENTENCES:
        found["similarity"] = _agreement(before, after, sentences)
        said = f"similarities of sentences correlate by {found['similarity']:.2f} with those before training"
        advice = "; fine-tune it again: electra finetune similarity" if found["similarity"] < SIMILAR else ""
        yield f"{'warning: ' if advice else ''}{said}{advice}"
    elif sentences is not None:
        few = f"fewer than {FEWEST_SENTENCES} sentences of {FEWEST_WORDS} to {MOST_WORDS} words"
        yield f"similarities: not compared, since the text has {few}"
    write_json(run / COMPARISON, found)


def _sentences(names: Sequence[str], reading: Reading) -> Iterator[str]:
    """Yield the first sentences of a text that are neither short nor long, each once."""
    lines = (line for passage in read_documents(names, reading) for line in passage.text.split("\n"))
    every = dict.fromkeys(" ".join(s.split()) for line in islice(lines, 100 * SENTENCES) for s in split_sentences(line))
    return islice((s for s in every if FEWEST_WORDS <= len(_words(s)) <= MOST_WORDS), SENTENCES)


def _words(sentence: str) -> list[str]:
    """Return the words of a sentence, or its letters if it has no spaces."""
    return sentence.split(" ") if " " in sentence else list(sentence)


def _preference(model: Pretrained, pairs: Pairs) -> float:
    """Return the share of pairs in which the original has the higher score; a tie counts half."""
    original, replaced = model.score([text for pair in pairs for text in pair]).reshape(-1, 2).T
    return float((np.sign(original - replaced) + 1).mean() / 2)


def _agreement(before: Pretrained, after: Pretrained, texts: Sequence[str]) -> float:
    """Return the correlation of the cosine similarities of all pairs of texts between two models."""
    similarities = []
    for model in (before, after):
        units = unit_vectors(np.asarray(model.encode(texts)))
        similarities.append((units @ units.T)[np.triu_indices(len(texts), 1)])
    return float(np.corrcoef(similarities)[0, 1])
