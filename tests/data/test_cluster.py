"""Work on a Ray cluster of several nodes, some of which are lost."""

import socket
import threading
import time
from pathlib import Path

import pytest

import electra
from electra.data.cluster import connected
from electra.data.corpus.build import build_corpus
from electra.errors import ClusterError, DataError
from electra.recipes import evaluate

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # needs ray, which has warnings of its own
NODE = {"num_cpus": 1, "object_store_memory": 100_000_000}


@pytest.fixture(scope="module")
def nodes():
    """A cluster on this machine: a head, and two nodes that may be lost."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    cluster.spare = [cluster.add_node(**NODE) for _ in range(2)]
    yield cluster
    cluster.shutdown()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_corpus_built_while_a_node_is_lost_is_the_same_as_a_local_one(nodes, tokenizer, tmp_path):
    text = "".join(f"the chef ate the soup {'and then it was good ' * (n % 7)}{n} .\n\n" for n in range(40_000))
    (tmp_path / "text.txt").write_text(text)
    settings = {"length": 16, "shard_characters": 200_000}
    expected = build_corpus(tmp_path / "text.txt", tokenizer, out=tmp_path / "local", workers=0, **settings)
    lost = []

    def lose(progress) -> None:
        if not lost:
            lost.append(nodes.spare.pop())
            threading.Thread(target=nodes.remove_node, args=(lost[0],), kwargs={"allow_graceful": False}).start()

    out = tmp_path / "cluster"
    built = build_corpus(tmp_path / "text.txt", tokenizer, out=out, cluster=nodes.address, progress=lose, **settings)
    assert lost
    assert len(expected.manifest.splits["train"]) > 10
    assert files(built.path) == files(expected.path)


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
    again = []
    electra.glue(tiny_folder, tasks_folder, address, keys, tasks, [again.append], cluster=nodes.address)
    assert not [record for record in again if "loss" in record]


def fail(item: int) -> None:
    raise DataError(f"item {item} cannot be used")


def test_an_error_of_a_call_is_that_of_a_local_one(nodes):
    with connected(nodes.address) as cluster, pytest.raises(DataError, match=r"^item 0 cannot be used$"):
        list(cluster.in_order(fail, range(3)))


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
