"""Work on a Ray cluster of several nodes, some of which are lost."""

import signal
import socket
import threading
import time
from pathlib import Path

import fsspec
import pytest

import electra
from electra.data.cluster import connected
from electra.data.corpus.build import build_corpus
from electra.data.settings import Cleaning
from electra.data.tokens.vocab import train_vocab
from electra.errors import ClusterError, DataError
from electra.recipes import evaluate

pytestmark = pytest.mark.filterwarnings("ignore")  # ray has warnings of its own
NODE = {"num_cpus": 1, "object_store_memory": 100_000_000}


@pytest.fixture(scope="module")
def nodes():
    """A cluster on this machine: a head, and a node that may be lost."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    cluster.spare = [cluster.add_node(**NODE)]
    yield cluster
    cluster.shutdown()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_near_duplicates_are_removed_from_the_complete_text(nodes, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("electra.data.reading.parts.BATCH_BYTES", 5_000)  # a file each
    for number in range(6):
        text = [f"{' '.join(str(n * k) for k in range(1, 40))} {'' if n % 3 else number}\n\n" for n in range(50)]
        (tmp_path / f"{number}.txt").write_text("".join(text))
    source = f"file://{tmp_path}/*.txt"
    settings = {"length": 16, "shard_characters": 8_000, "cleaning": Cleaning(duplicates="near")}
    expected = build_corpus(source, tokenizer, out=tmp_path / "local", workers=0, **settings)
    built = build_corpus(source, tokenizer, out=tmp_path / "cluster", cluster=nodes.address, **settings)
    assert expected.manifest.report["dropped"]["near duplicate"]["documents"] > 240
    assert files(built.path) == files(expected.path)


def test_a_vocabulary_of_the_text_that_nodes_read_is_that_of_a_local_one(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr("electra.data.reading.parts.BATCH_BYTES", 50_000)
    monkeypatch.setattr("electra.data.tokens.vocab.PART_CHARACTERS", 20_000)
    monkeypatch.setattr("electra.data.settings.SMALLEST_SAMPLE", 30_000)
    for name in "ab":
        text = [f"{name} chef{n} ate soup{n % 7} of {'the ' * (n % 9)}day\n\n" for n in range(3000)]
        (tmp_path / f"{name}.txt").write_text("".join(text))
    source, settings = f"file://{tmp_path}/*.txt", {"size": 300, "max_characters": 30_000}
    train_vocab(source, out=tmp_path / "local", **settings)
    train_vocab(source, out=tmp_path / "there", cluster=nodes.address, **settings)
    assert files(tmp_path / "there") == files(tmp_path / "local")
    with pytest.raises(ClusterError, match=r"a\.txt: it is not an address such as s3://bucket/text; copy it there, or"):
        train_vocab(tmp_path / "a.txt", out=tmp_path / "other", cluster=nodes.address, **settings)


def test_a_node_that_cannot_read_the_text_is_named_before_any_work(nodes, tokenizer, tmp_path):
    fsspec.filesystem("memory").pipe_file("/b/a.txt", b"the chef ate")  # in the memory of this process
    with pytest.raises(ClusterError, match=r"^\S+: cannot read memory:///b/a\.txt: "):
        build_corpus("memory://b/a.txt", tokenizer, length=16, out=tmp_path / "out", cluster=nodes.address)
    assert not (tmp_path / "out.partial").exists()


@pytest.fixture
def lose(nodes):
    """Return a function for the progress of a build that kills a node once; another takes its place."""
    lost = []

    def lose(progress) -> None:
        if not lost:
            lost.append(nodes.spare.pop())
            nodes.spare.append(nodes.add_node(**NODE))
            threading.Thread(target=nodes.remove_node, args=(lost[0],), kwargs={"allow_graceful": False}).start()

    yield lose
    assert lost


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "file://"])  # read here, or by the nodes
def test_a_corpus_built_while_a_node_is_lost_is_the_same_as_a_local_one(
    nodes, lose, tokenizer, tmp_path, monkeypatch, prefix
):
    monkeypatch.setattr("electra.data.reading.parts.BATCH_BYTES", 500_000)
    text = [f"the chef ate the soup {'and then it was good ' * (n % 7)}{n % 4999} .\n\n" for n in range(40_000)]
    (tmp_path / "text").mkdir()
    for number in range(4):
        (tmp_path / "text" / f"{number}.txt").write_text("".join(text[number::4]))
    source = f"{prefix}{tmp_path}/text"
    settings = {"length": 16, "shard_characters": 200_000, "cleaning": Cleaning(duplicates="exact")}
    expected = build_corpus(source, tokenizer, out=tmp_path / "local", workers=0, **settings)
    settings |= {"out": tmp_path / "cluster", "cluster": nodes.address}

    def stop(progress) -> None:
        if (tmp_path / "cluster.partial" / "groups" / "00001.json").exists():
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        build_corpus(source, tokenizer, progress=stop, **settings)
    built = build_corpus(source, tokenizer, progress=lose, **settings)
    assert len(expected.manifest.splits["train"]) > 5
    assert files(built.path) == files(expected.path)


@pytest.mark.slow
def test_a_suite_and_its_predictions_are_the_same_as_local_ones(
    nodes, tiny_folder, tasks_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("ELECTRA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(evaluate, "BLOCK", 5)
    keys = "epochs=0.5 batch_size=8 learning_rate=2e-3 layer_decay=1.0 optimizer=adamw".split()
    tasks, address = ["sst-2", "rte"], f"file://{tmp_path}/suite"
    local = electra.glue(tiny_folder, tasks_folder, tmp_path / "local", keys, tasks)
    there = electra.glue(tiny_folder, tasks_folder, address, keys, tasks, cluster=nodes.address)
    assert there.scores == local.scores
    assert (tmp_path / "suite" / "suite.json").is_file()
    source = tasks_folder / "SST-2" / "test.tsv"
    expected = list(electra.predict(tmp_path / "local" / "sst-2", source))
    assert list(electra.predict(f"{address}/sst-2", source, cluster=nodes.address)) == expected
    timed = (tmp_path / "suite" / "sst-2" / "results.json").read_bytes()
    electra.glue(tiny_folder, tasks_folder, address, keys, tasks, cluster=nodes.address)
    assert (tmp_path / "suite" / "sst-2" / "results.json").read_bytes() == timed, "nothing is trained again"


def fail(item: int) -> None:
    raise DataError(f"item {item} cannot be used")


@pytest.mark.slow
def test_an_error_of_a_call_is_that_of_a_local_one(nodes):
    with connected(nodes.address) as cluster, pytest.raises(DataError, match=r"^item 0 cannot be used$"):
        list(cluster.in_order(fail, range(3)))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks the system which signals are handled")
def test_signals_are_handled_while_connected_and_afterwards(nodes):
    def handled() -> bool:
        caught = Path("/proc/self/status").read_text().partition("SigCgt:")[2].split()[0]
        return all(int(caught, 16) >> number - 1 & 1 for number in (signal.SIGINT, signal.SIGTERM))

    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        with connected(nodes.address):
            assert handled()
        assert handled()  # Ray gives them back to the system, which would end the process without a word
    finally:
        signal.signal(signal.SIGTERM, before)


def test_nodes_with_other_versions_are_refused(nodes, monkeypatch):
    monkeypatch.setattr("electra.data.cluster.__version__", "0.0.1")
    with pytest.raises(ClusterError, match=r"has electra .*, but this machine has 0\.0\.1; install the same"):  # noqa: SIM117
        with connected(nodes.address):
            raise AssertionError


def test_an_unreachable_address_is_named(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(ClusterError, match=f"cannot use the cluster {address}: Connection refused"), connected(address):
        raise AssertionError
    assert time.monotonic() - began < 10
