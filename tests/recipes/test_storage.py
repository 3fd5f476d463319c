"""From text to a model in a bucket, on a real S3 server that loses connections."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from socketserver import BaseRequestHandler, ThreadingTCPServer

import fsspec
import pytest
import requests
import torch

import electra
from electra.data.corpus.shards import open_corpus
from electra.data.storage import list_files
from electra.errors import Stopped, StorageError
from electra.recipes.pretrain import pretrain
from electra.recipes.report.gather import gather
from electra.training.run import read_records

BUDGET = 30_000  # bytes until a connection is lost


class Lossy(ThreadingTCPServer):
    """A proxy that resets every other connection after some bytes."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.target, self.connections, self.lost = target, 0, 0


class Connection(BaseRequestHandler):
    def handle(self) -> None:
        self.server.connections += 1
        self.budget = BUDGET if self.server.connections % 2 else float("inf")
        with socket.create_connection(self.server.target) as there:
            back = threading.Thread(target=self.forward, args=(there, self.request), daemon=True)
            back.start()
            self.forward(self.request, there)
            back.join()

    def forward(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(4096):
                self.budget -= len(data)
                if self.budget < 0:
                    self.server.lost += 1
                    for end in (source, target):
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset
                        end.shutdown(socket.SHUT_RDWR)
                    return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:  # the other direction is closed
            pass


@pytest.fixture(scope="module")
def server():
    """A bucket behind the proxy."""
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    moto.start()
    proxy = Lossy(moto.get_host_and_port())
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "us-east-1"}.items():
            patch.setenv(f"AWS_{name}", value)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_address[1]}")
        fsspec.filesystem("s3").mkdir("bucket")
        yield proxy
    proxy.shutdown()
    proxy.server_close()
    moto.stop()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that moves to another machine, whose cache is empty."""

    def move(name: str) -> None:
        monkeypatch.setenv("ELECTRA_CACHE", str(tmp_path / name))

    move("here")
    return move


def test_a_run_in_a_bucket_continues_on_another_machine_bit_by_bit(server, machine, config, corpus, tmp_path):
    undisturbed = electra.load(pretrain(config()))
    fsspec.filesystem("s3").put(str(corpus), "bucket/corpus", recursive=True)
    bucket = config("data=s3://bucket/corpus", "out=s3://bucket/run")

    def lose(record) -> None:
        if record["step"] == 7:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        pretrain(bucket, [lose])
    shutil.rmtree(os.environ["ELECTRA_CACHE"])
    machine("there")
    steps = []
    folder = pretrain(bucket, [lambda record: steps.append(record["step"])])
    assert min(steps) == 6  # the checkpoint of step 5 was in the bucket
    assert [record["step"] for record in read_records(folder / "metrics.jsonl") if "loss" in record] == [*range(1, 11)]
    assert server.lost > 3
    machine("elsewhere")
    model = electra.load("s3://bucket/run")
    for ours, theirs in zip(undisturbed.network.parameters(), model.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    (reported,) = gather(["s3://bucket/run"])
    assert (reported["name"], reported["folder"]) == ("run", "s3://bucket/run")
    assert reported["latest"]
    electra.export("s3://bucket/run", "s3://bucket/hf")
    assert "model.safetensors" in list_files("s3://bucket/hf")
    assert electra.load("s3://bucket/hf").detect("the cat") == model.detect("the cat")
    assert open_corpus("s3://bucket/corpus").fingerprint == open_corpus(corpus).fingerprint
    with pytest.raises(electra.errors.ElectraError, match="s3://bucket/hf already exists"):
        electra.export("s3://bucket/run", "s3://bucket/hf")


@pytest.mark.slow
@pytest.mark.parametrize("sharding", ["none", "full"])
def test_a_run_in_a_bucket_continues_in_several_processes(server, machine, config, arguments, corpus, sharding):
    undisturbed = electra.load(pretrain(config("model.dropout=0.0")))
    places = [f"data=s3://bucket/corpus-{sharding}", f"out=s3://bucket/several-{sharding}", "model.dropout=0.0"]
    fsspec.filesystem("s3").put(str(corpus), f"bucket/corpus-{sharding}", recursive=True)
    with pytest.raises(Stopped):
        pretrain(config(*places), [lambda record: record["step"] == 7 and signal.raise_signal(signal.SIGTERM)])
    machine("there")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = ["-m", "electra", "pretrain", *arguments(*places, f"train.sharding={sharding}"), "--quiet"]
    subprocess.run([*torchrun, *command], check=True, timeout=300)
    machine("elsewhere")
    model = electra.load(f"s3://bucket/several-{sharding}")
    for ours, theirs in zip(undisturbed.network.parameters(), model.network.parameters(), strict=True):
        assert (ours - theirs).abs().max() < 1e-3
    steps = {name.split("/")[1] for name in list_files(f"s3://bucket/several-{sharding}") if "/step-" in name}
    assert steps == {"step-00000007", "step-00000010"}


def test_a_bucket_that_cannot_be_used_is_named_in_one_line(server, machine, config, monkeypatch):
    def refused(out: str) -> str:
        with pytest.raises(StorageError) as problem:
            pretrain(config(f"out={out}"))
        return str(problem.value)

    assert refused("s3://lost/run") == "cannot use s3://lost/run: The specified bucket does not exist"
    authorize = f"http://{server.target[0]}:{server.target[1]}/moto-api/reset-auth"
    requests.post(authorize, data="0")  # from now on, keys count
    assert refused("s3://bucket/run").startswith("cannot use s3://bucket/run: The AWS Access Key Id you provided does")
    requests.post(authorize, data="inf")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    fsspec.filesystem("s3").clear_instance_cache()
    assert "cannot use s3://bucket/run: Could not connect to the endpoint URL" in refused("s3://bucket/run")
