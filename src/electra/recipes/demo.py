"""The demo: from text to a model in minutes on a laptop, with the text of Python's own documentation."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from electra.config.load import load_config, text_override
from electra.config.schema import PretrainConfig
from electra.data.corpus.build import build_corpus
from electra.data.files import write_atomically
from electra.data.reading.prose import gather_prose
from electra.data.settings import Reading
from electra.data.tokens.tokenizer import load_tokenizer
from electra.data.tokens.vocab import REPORT, train_vocab
from electra.errors import CheckpointError
from electra.model.bodies import build_body
from electra.model.pretrained import Pretrained, load
from electra.recipes.pretrain import pretrain
from electra.recipes.probe import odd_word_task, probe
from electra.recipes.replace import Judged, detection_auc, replace_and_detect
from electra.training.run import Listener, begun, check_place

CHARACTERS_PER_MINUTE, MOST_CHARACTERS = 500_000, 4_000_000  # of prose; finding more would leave less time to train
UNSEEN = 8  # one document in 8 is kept for the final comparison
HELDOUT = 0.03  # of the rest, for the metrics during the run
READING = Reading(documents="blank")  # of the gathered text
END_SECONDS = 10  # for the final comparison, but at most a quarter of the time
VOCABULARY, LENGTH = 2048, 32
SETTINGS = (
    # A generator learns little more than token frequencies from a million tokens, too little to train a discriminator;
    # detecting random replacements can be learned in minutes on a CPU.
    "objective.generator.kind=uniform",
    "objective.prior=0.5",  # as in the runs quoted in the docs
    "model.layers=2",
    "model.initializer_std=0.08",  # the original's 0.02 is for wide networks
    "train.batch_size=16",
    "train.learning_rate=1e-3",
    "train.warmup_steps=200",
    "train.optimizer=adamw",
    "evaluate.every=500",
)
SHOWN, JUDGED = 4, 100  # sentences
Say = Callable[[str], None]  # receives a line of progress


@dataclass(frozen=True)
class Demonstration:
    """The trained run, sentences with the model's verdicts, and a comparison with an untrained encoder."""

    folder: Path
    sentences: list[list[Judged]]
    judged: int
    auc: float  # over all judged sentences
    trained_accuracy: float
    untrained_accuracy: float
    fitted: int  # examples that the probe was trained on
    tested: int


def demo(
    out: str | Path, *, minutes: float = 4.0, say: Say = lambda line: None, listeners: Sequence[Listener] = ()
) -> Demonstration:
    """Gather prose on this machine, pre-train `tiny` on it, and evaluate it on unseen prose."""
    began = time.monotonic()
    folder = Path(out).expanduser()
    check_place(folder)
    if (folder / "config.toml").is_file() and not (folder / "text").is_dir():
        raise CheckpointError(f"{folder} holds a run that demo did not start; choose another out")
    _write_text(folder / "text", min(MOST_CHARACTERS, round(minutes * CHARACTERS_PER_MINUTE)), say)
    seen, words, place = folder / "text/seen.txt", folder / "tokenizer", folder / "corpus"
    if not (words / REPORT).is_file():
        train_vocab(seen, size=VOCABULARY, out=words, reading=READING)
    tokenizer = load_tokenizer(words)
    say(f"vocabulary  {tokenizer.vocab_size:,} pieces")
    corpus = build_corpus(seen, tokenizer, length=LENGTH, out=place, heldout=HELDOUT, reading=READING)
    say(f"corpus      {corpus.manifest.tokens:,} tokens in {corpus.manifest.sequences:,} sequences of {LENGTH}")
    seconds = max(1.0, 60 * minutes - min(END_SECONDS, 15 * minutes) - (time.monotonic() - began))
    hours = load_config(folder).train.hours if begun(folder) else None
    shape = [f"model.vocab_size={tokenizer.vocab_size}", f"model.max_length={LENGTH}", f"train.length={LENGTH}"]
    places = [text_override("data", place), text_override("out", folder), f"train.hours={hours or seconds / 3600!r}"]
    config = load_config("tiny", [*shape, *SETTINGS, *places])
    reused = f", as {folder} was started with; to change it, choose another --out" if hours else ""
    say(f"training    tiny, {(config.train.hours or 0) * 60:.1f} minutes of pre-training{reused}")
    pretrain(config, listeners)
    say("comparing   with an untrained encoder of the same shape")
    return _compare(folder, config)


def _write_text(folder: Path, characters: int, say: Say) -> None:
    """Write the prose found on this machine to two files: one to train on, one that the model never sees."""
    if not (folder / "unseen.txt").is_file():
        found = gather_prose(characters)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "seen.txt", _as_text([part for n, part in enumerate(found) if n % UNSEEN]))
        write_atomically(folder / "unseen.txt", _as_text(found[::UNSEEN]))
    size = sum((folder / name).stat().st_size for name in ("seen.txt", "unseen.txt"))
    say(f"text        {size / 1e6:.1f} MB of English from the documentation of Python and its packages")


def _as_text(documents: Sequence[Sequence[str]]) -> str:
    return "\n\n".join(map("\n".join, documents)) + "\n"


def _compare(folder: Path, config: PretrainConfig) -> Demonstration:
    documents = [part.splitlines() for part in (folder / "text/unseen.txt").read_text(encoding="utf-8").split("\n\n")]
    paragraphs = [paragraph for document in documents for paragraph in document if len(paragraph) < 200]
    model = load(folder)
    judged = [replace_and_detect(model, text, seed) for seed, text in enumerate(paragraphs[:JUDGED])]
    task = odd_word_task(documents)
    torch.manual_seed(config.seed)
    untrained = Pretrained(build_body(config.model).to(model.device), model.tokenizer)
    return Demonstration(
        folder=folder,
        sentences=judged[:SHOWN],
        judged=len(judged),
        auc=detection_auc(judged),
        trained_accuracy=probe(model, task),
        untrained_accuracy=probe(untrained, task),
        fitted=len(task.train),
        tested=len(task.test),
    )
