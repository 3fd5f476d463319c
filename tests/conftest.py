"""Small models and tasks that many tests look at from different sides."""

import multiprocessing
import os
import random
import runpy
import signal
import socket
from pathlib import Path

import hypothesis
import pytest
import torch

from electra.config.load import load_config
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, Tokenizer, wordpiece
from electra.model.networks import Discriminator, build_networks
from electra.model.pretrained import Pretrained
from electra.recipes import speed
from electra.recipes.bench import timing
from electra.recipes.convert import write_model

WORDS = "the chef ate cooked meal soup a cat dog sat on mat and then it was good".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"

# Machines that are busy with other work are slow at times: no property is at fault then.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tests share the cores, and sums come out the same on every machine of a kind."""
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start


@pytest.fixture(autouse=True, scope="session")
def brief_measurements() -> None:
    """Time the steps of plans and benchmarks only as long as a figure needs; which one does not matter."""
    speed.SECONDS, timing.REPETITION = 0.05, 0.02


@pytest.fixture(autouse=True)
def usual_signals() -> None:
    """Handle signals as Python does at its start: a shell's background jobs do not, nor does a command at its end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.fixture(scope="session")
def launch():
    """A function that starts a program in processes that communicate, and returns them by rank.

    The program finds torchrun's variables in the environment, and what it is given as the names of its module. The
    processes are forked from one that has imported everything: they start at once.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["electra.recipes.pretrain", "electra.training.sharded"])

    def start(program: Path, count: int, machines: int = 1, **given):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        shared["LOCAL_WORLD_SIZE"] = str(count // machines)
        ranks = [{**shared, "RANK": str(rank)} for rank in range(count)]
        named = [{"ENVIRONMENT": environment, **given} for environment in ranks]
        started = [
            context.Process(target=runpy.run_path, args=(str(program), names, "__main__"), daemon=True)
            for names in named
        ]
        for process in started:
            process.start()
        return started

    return start


@pytest.fixture(autouse=True)
def same_rounding():
    """Turn oneDNN on again: torch turns it off for good where a CPU has no 16-bit products, and float32 rounds so."""
    yield
    torch.backends.mkldnn.enabled = True


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return wordpiece([*SPECIAL_TOKENS, *WORDS, *LETTERS.replace("a", ""), *(f"##{letter}" for letter in LETTERS), "."])


@pytest.fixture(scope="session")
def tiny_config(tokenizer):
    return load_config(
        "tiny",
        [
            f"model.vocab_size={tokenizer.vocab_size}",
            "model.layers=2",
            "model.dropout=0.1",
            "model.attention_dropout=0.1",
            "model.max_length=16",
            "train.length=16",
            "objective.generator.width=0.5",
        ],
    )


@pytest.fixture(scope="session")
def tiny_model(tiny_config, tokenizer) -> Pretrained:
    """A discriminator and generator of odd, untrained weights: larger than at the start, so that errors show."""
    torch.manual_seed(7)
    encoder, generator = build_networks(tiny_config.model, tiny_config.objective.generator)
    discriminator = Discriminator(encoder)
    for parameter in dict.fromkeys([*discriminator.parameters(), *generator.parameters()]):
        torch.nn.init.normal_(parameter, std=0.2)
    return Pretrained(discriminator, tokenizer, generator)


@pytest.fixture(scope="session")
def tiny_folder(tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(tiny_model, folder)
    return folder


@pytest.fixture(scope="session")
def tasks_folder(tmp_path_factory) -> Path:
    """GLUE in small: whether a sentence speaks of a cat, and whether two sentences speak of the same animal."""
    source = random.Random(0)
    folder = tmp_path_factory.mktemp("glue")

    def sentence(animal: str) -> str:
        return f"the {animal} {source.choice(['sat', 'ate'])} {source.choice(['and then', 'on a mat', 'soup'])}"

    def single() -> str:
        animal = source.choice(["cat", "dog"])
        return f"{sentence(animal)}\t{int(animal == 'cat')}"

    def pair(number: int, yes: str, no: str) -> str:
        animals = [source.choice(["cat", "dog"]) for _ in range(2)]
        return f"{number}\t{sentence(animals[0])}\t{sentence(animals[1])}\t{yes if len(set(animals)) == 1 else no}"

    for split, count in (("train", 200), ("dev", 40), ("test", 12)):
        part = "" if split == "train" else "_matched"
        files = {
            f"SST-2/{split}.tsv": ["sentence\tlabel", *(single() for _ in range(count))],
            f"RTE/{split}.tsv": [
                "index\tsentence1\tsentence2\tlabel",
                *(pair(number, "entailment", "not_entailment") for number in range(count)),
            ],
            f"MNLI/{split}{part}.tsv": [
                "index\tsentence1\tsentence2\tgold_label",
                *(pair(number, "entailment", "contradiction") for number in range(count)),
            ],
        }
        for name, lines in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder
