"""Commands on a Ray cluster, of which parts are lost; the reference is the same command without a cluster."""

import csv
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from faults import process
from faults.case import Case
from faults.commands import TUNING, WORDS, Command
from faults.faults import FAULTS as USUAL
from faults.faults import Fault, fault
from faults.nodes import Nodes
from faults.reference import WORLD, Measured, build_reference, measure
from faults.verdicts import PREFIX, REFUSED, Judged, check_equal

FOLDER = "cluster"  # of all cases: runs of `glue` store where they are
ON_CLUSTER = "--cluster auto"
SIGNALS = {"SIGKILL", "SIGTERM", "SIGINT", "two processes"}
LIMIT = 180.0  # seconds, after which a command hangs
ADDRESSES = 64 << 30  # bytes: Ray maps its memory
LARGE = "file://{world}/data/large"
COMMANDS = [
    Command("vocab --cluster", f"vocab {LARGE} --size 300 --out tokenizer", (), ("tokenizer",), more=ON_CLUSTER),
    Command(
        "corpus --cluster",
        f"corpus {LARGE} --tokenizer {{world}}/tokenizer --length 16 --heldout 0.1 --duplicates exact --out corpus",
        (),
        ("corpus",),
        more=ON_CLUSTER,
    ),
    Command(
        "predict --cluster",
        "predict {world}/tuned/table {world}/data/large.csv --out predictions.jsonl",
        (),
        ("predictions.jsonl",),
        more=ON_CLUSTER,
    ),
    Command(
        "glue --cluster",
        "glue {world}/run --data {world}/data/suite --data {world}/data/regression --out {here}/suite --quiet "
        f"--task rte --task sts-b {' '.join(TUNING)}",
        (),
        ("suite",),
        more=ON_CLUSTER,
    ),
]
FAULTS: list[Fault] = [known for known in USUAL if known.name in SIGNALS]
_nodes: list[Nodes] = []  # the cluster, once it runs


def _losing(case: Case, what: str) -> Judged:
    """Lose a part of the cluster at any moment of a command."""
    moment = case.chance.random() * case.reference.seconds
    case.note(f"after {moment:.3f} seconds")
    running = case.start()
    running.ended_within(moment)
    _nodes[0].lose(what)
    outcome = running.wait()
    _nodes[0].restored()
    if outcome.status == 1 and what == "cluster" and PREFIX not in outcome.stderr:
        outcome = replace(outcome, status=-signal.SIGKILL)  # Ray ends a process that has lost it, without an exception
    return case.judge(outcome, codes=(REFUSED, -signal.SIGKILL))


@fault("lost node", into=FAULTS)
def node_lost(case: Case) -> Judged:
    """Kill a node; another takes its place."""
    return _losing(case, "node")


@fault("lost process", into=FAULTS)
def process_lost(case: Case) -> Judged:
    """Kill a process of a node."""
    return _losing(case, "process")


@fault("lost cluster", into=FAULTS)
def cluster_lost(case: Case) -> Judged:
    """Kill all nodes; the repetition has a new cluster."""
    return _losing(case, "cluster")


@contextmanager
def reference_on_cluster(folder: Path) -> Iterator[dict[str, Measured]]:
    """Start a cluster, and run each command once without and once with it, which has to give the same bytes."""
    import torch

    build_reference(folder / "reference")
    _write_data(folder / "reference" / WORLD / "data")
    _divide_finely()
    # As in the processes of the cluster.
    torch.backends.mkldnn.set_flags(True)  # type: ignore[no-untyped-call]
    process.LIMIT, process.ADDRESSES = LIMIT, ADDRESSES
    _nodes.append(Nodes())
    try:
        yield {command.name: _measured(command, folder) for command in COMMANDS}
    finally:
        _nodes.pop().close()


def _measured(command: Command, folder: Path) -> Measured:
    world, here = folder / "reference" / WORLD, folder / "work" / FOLDER
    measured = []
    for line in (replace(command, more=""), command):
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir(parents=True)
        measured.append(measure(line, world, here))
    check_equal(measured[1].published, measured[0].published, command.name)
    return measured[1]


def _divide_finely() -> None:
    """Divide the work of a command into small parts, so that a fault strikes between them."""
    from electra.data.reading import parts
    from electra.data.settings import Building
    from electra.data.tokens import vocab
    from electra.recipes import evaluate

    parts.BATCH_BYTES, vocab.PART_CHARACTERS, evaluate.BLOCK = 50_000, 20_000, 100
    defaults = Building.__init__.__defaults__ or ()
    Building.__init__.__defaults__ = (*defaults[:-1], 100_000)  # shard_characters


def _write_data(folder: Path) -> None:
    """Write a text of several files and a table."""
    chance = random.Random(1)
    (folder / "large").mkdir(exist_ok=True)
    for number in range(8):
        documents = (" ".join(chance.choices(WORDS, k=chance.randint(5, 90))) for _ in range(400))
        (folder / "large" / f"{number}.txt").write_text("\n\n".join(documents), encoding="utf-8")
    with (folder / "large.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([["text"], *([" ".join(chance.choices(WORDS, k=20))] for _ in range(3000))])
