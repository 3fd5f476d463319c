"""The commands under test: what each reads and writes, and the data that they start from.

Paths are relative to the folder of a case, except for those on a cluster, where {world} is the folder of the reference
and {here} that of the case. What is in data/ belongs to the user; everything else was written by a command further up
in the list.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path

WORDS = "the chef cat dog ate cooked soup meal fish a warm cold then it sat on mat and was very good bad".split()
SMALL = [
    *("model.embedding_size=16 model.hidden_size=16 model.layers=1 model.heads=1 model.feed_forward_size=32".split()),
    *("train.batch_size=4 train.warmup_steps=2 objective.generator.width=1.0".split()),
]
LOGGED = "checkpoint.every=2 checkpoint.keep=2 log.every=1 evaluate.every=3 evaluate.batches=1".split()
TUNING = "epochs=2 batch_size=8 checkpoint_every=2 log_every=1 max_length=24".split()


@dataclass(frozen=True)
class Command:
    """A command line of `electra`; one that writes nothing is judged by its output."""

    name: str
    line: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    keys: str = ""  # the schema of its KEY=VALUE arguments: pretrain or finetune
    once: bool = False  # refuses to overwrite its output
    more: str = ""  # arguments that the reference is made without

    def argv(self, world: Path, here: Path) -> list[str]:
        """Return the arguments in the folder of a case."""
        return f"{self.line} {self.more}".replace("{world}", str(world)).replace("{here}", str(here)).split()


def _pretrain(name: str, out: str, *settings: str, reads: tuple[str, ...]) -> Command:
    words = ["pretrain tiny --quiet data=corpus", f"out={out} train.steps=6", *SMALL, *LOGGED, *settings]
    return Command(name, " ".join(words), reads, (out,), "pretrain")


def _finetune(name: str, preset: str, *settings: str) -> Command:
    words = [f"finetune {preset} --quiet --json model=run data=data/{name} out=tuned/{name}", *TUNING, *settings]
    return Command(f"finetune {name}", " ".join(words), ("run", f"data/{name}"), (f"tuned/{name}",), "finetune")


def _evaluate(family: str) -> Command:
    return Command(f"evaluate {family}", f"evaluate tuned/{family} --json", (f"tuned/{family}", f"data/{family}"))


def _predict(family: str, file: str) -> Command:
    return Command(f"predict {family}", f"predict tuned/{family} {file}", (f"tuned/{family}", file))


FAMILIES = {  # of tasks, with a file to predict
    "classification": "data/classification/RTE/test.tsv",
    "regression": "data/regression/STS-B/test.tsv",
    "table": "data/table/dev.csv",
    "tagging": "data/tagging/test.txt",
    "answering": "data/questions.jsonl",
    "choice": "data/choice/test.jsonl",
    "similarity": "data/similarity/test.jsonl",
}
CORPUS = "corpus data/text.txt --tokenizer tokenizer --length 16 --heldout 0.1"
TRAIN = "train data/text.txt --hours 0.05 --heldout 0.1 --quiet --out trained --set model.vocab_size=300"
COMMANDS = [  # in an order in which each finds what it reads
    Command("vocab", "vocab data/text.txt --size 300 --json --out tokenizer", ("data/text.txt",), ("tokenizer",)),
    Command("corpus", f"{CORPUS} --workers 0 --json --out corpus", ("data/text.txt", "tokenizer"), ("corpus",)),
    Command("corpus --workers", f"{CORPUS} --workers 2 --out parallel", ("data/text.txt", "tokenizer"), ("parallel",)),
    Command(
        "corpus of records",
        "corpus data/records --tokenizer tokenizer --length 16 --cut paper --heldout 0.2 --workers 0 "
        "--duplicates exact --out records",
        ("data/records", "tokenizer"),
        ("records",),
    ),
    Command(
        "vocab in storage",
        "vocab data/text.txt --size 300 --out file://storage/tokenizer",
        ("data/text.txt",),
        ("storage/tokenizer",),
    ),
    Command("corpus --verify", "corpus corpus --verify --json", ("corpus",)),
    Command("corpus --show", "corpus corpus --show 3 --json", ("corpus",)),
    _pretrain("pretrain", "run", reads=("corpus",)),
    _pretrain("pretrain init", "continued", "init=run", reads=("corpus", "run")),
    Command("detect", "detect run the_cat_ate_soup --json", ("run",)),
    Command("page", "page run data/sentence.txt", ("run", "data/sentence.txt")),
    Command("export", "export run --out hf", ("run",), ("hf",), once=True),
    Command("import", "import hf --out imported", ("hf",), ("imported",), once=True),
    _finetune("classification", "glue", "task=rte"),
    _finetune("regression", "glue", "task=sts-b", "double_unordered=false"),
    _finetune("table", "table", "seeds=2"),
    _finetune("tagging", "tagging", "task=ner"),
    _finetune("answering", "squad", "task=squad-2.0"),
    _finetune("choice", "choice"),
    _finetune("similarity", "similarity", "similarity.chunk=64"),
    *(_evaluate(family) for family in FAMILIES),
    Command(
        "evaluate --out",
        "evaluate tuned/tagging --json --out evaluated",
        ("tuned/tagging", "data/tagging"),
        ("evaluated",),
        once=True,
    ),
    *(_predict(*family) for family in FAMILIES.items()),
    Command(
        "predict --out",
        "predict tuned/answering data/questions.jsonl --out predictions.jsonl",
        ("tuned/answering", "data/questions.jsonl"),
        ("predictions.jsonl",),
    ),
    Command("page of a task", "page tuned/choice data/sentence.txt", ("tuned/choice", "data/sentence.txt")),
    Command(
        "glue",
        f"glue run --data data/suite --out suite --quiet --json --task rte {' '.join(TUNING)}",
        ("run", "data/suite"),
        ("suite",),
    ),
    Command("report", "report run tuned/table --out report.html", ("run", "tuned/table"), ("report.html",)),
    Command("report --json", "report run tuned/tagging --json", ("run", "tuned/tagging")),
    Command("config", "config data/config.toml --json", ("data/config.toml",), keys="pretrain"),
    Command("config of a run", "config run --explain --json", ("run/config.toml",), keys="pretrain"),
    Command("flops", f"flops tiny --json {' '.join(SMALL)}", keys="pretrain"),
    Command("pretrain --dry-run", "pretrain data/config.toml --dry-run data=corpus", ("data/config.toml", "corpus")),
    Command(
        "train",
        " ".join([TRAIN, *(f"--set {key}" for key in ("train.steps=4", *SMALL, *LOGGED))]),
        ("data/text.txt",),
        ("trained/tokenizer", "trained/corpus", "trained/config.toml", "trained/model"),
    ),
    Command(
        "train --init",
        f"{TRAIN.replace('trained', 'moved')} --init run --new-vocabulary --set train.steps=4 --set train.batch_size=4",
        ("data/text.txt", "run"),
        ("moved/tokenizer", "moved/start", "moved/corpus", "moved/config.toml", "moved/model"),
    ),
]


def write_data(folder: Path) -> None:
    """Write the user's files: a text, records, a config, and a few examples of each kind of task."""
    chance = random.Random(0)

    def sentence() -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(4, 9)))

    def lines(name: str, content: list[str]) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8")

    def pairs(header: str, labels: list[str], count: int) -> list[str]:
        rows = (f"{n}\t{sentence()}\t{sentence()}\t{chance.choice(labels)}" for n in range(count))
        return [header, *rows]

    def documents(count: int) -> list[str]:
        return [line for _ in range(count) for line in (*(f"{sentence()}." for _ in range(chance.randint(1, 4))), "")]

    def answered() -> dict[str, object]:
        context = sentence()
        word = chance.choice(context.split())
        answers = [{"text": word, "answer_start": context.index(word)}]
        asked = {"id": str(chance.random()), "question": sentence(), "answers": answers, "is_impossible": False}
        return {"title": "", "paragraphs": [{"context": context, "qas": [asked]}]}

    def chosen() -> str:
        found = {"premise": sentence(), "choice1": sentence(), "choice2": sentence(), "label": chance.randint(0, 1)}
        return json.dumps(found | {"question": "cause"})

    def tagged() -> list[str]:
        return [*(f"{word} {'B-X' if word in ('cat', 'dog') else 'O'}" for word in sentence().split()), ""]

    lines("data/text.txt", documents(60))
    lines("data/sentence.txt", [sentence(), sentence()])
    lines("data/records/a.jsonl", [json.dumps({"text": " . ".join(sentence() for _ in range(4))}) for _ in range(30)])
    lines("data/records/b.csv", ["title,text", *(f'{n},"{sentence()}, {sentence()}"' for n in range(10))])
    lines(
        "data/config.toml",
        ['preset = "tiny"', "[model]", "layers = 1", "[train]", "steps = 10", "learning_rate = 1e-3"],
    )
    lines("data/questions.jsonl", [json.dumps({"question": sentence(), "context": sentence()}) for _ in range(3)])
    for split, count in (("train", 16), ("dev", 8), ("test", 4)):
        entailed = pairs("index\tsentence1\tsentence2\tlabel", ["entailment", "not_entailment"], count)
        lines(f"data/classification/RTE/{split}.tsv", entailed)
        lines(f"data/suite/RTE/{split}.tsv", entailed)
        scored = pairs("index\tsentence1\tsentence2\tscore", ["0.5", "2.25", "4.0", "5.0"], count)
        lines(f"data/regression/STS-B/{split}.tsv", scored)
        lines(f"data/table/{split}.csv", ["text,label", *(f"{sentence()},{'yn'[n % 2]}" for n in range(count))])
        lines(f"data/tagging/{split}.txt", [line for _ in range(count) for line in tagged()])
        lines(f"data/answering/{split}.json", [json.dumps({"data": [answered() for _ in range(count)]})])
        lines(f"data/choice/{split}.jsonl", [chosen() for _ in range(count)])
        triplets = ({"anchor": sentence(), "positive": sentence(), "negative": sentence()} for _ in range(count))
        lines(f"data/similarity/{split}.jsonl", list(map(json.dumps, triplets)))
