"""A run gives the same in any number of processes, also when the number changes on the way."""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import electra
from electra.errors import ConfigError, Stopped
from electra.recipes.pretrain import check_division, pretrain, smaller_batch
from electra.recipes.report.gather import gather
from electra.training.processes import Processes
from electra.training.run import read_records

PROGRAM = Path(__file__).with_name("pretrain_ranks.py")
VARIANTS = [
    *(
        f"objective.name={name}"
        for name in ("mlm", "electra_15", "corrective", "replace_mlm", "all_tokens_mlm", "electric")
    ),
    *(f"objective.generator.{key}" for key in ("sharing=gdes", "sharing=none", "kind=two_tower", "kind=unigram")),
    "objective.algorithm=adversarial",
]
DIVIDED = [
    "model.activation_checkpointing=true",
    *(f"objective.generator.{key}" for key in ("sharing=gdes", "sharing=none", "kind=unigram")),
    "objective.generator.sharing=all objective.generator.width=1.0",
    "objective.algorithm=two_stage objective.generator.sharing=none objective.generator.width=1.0",
    "model.body=modern model.window=8 objective.generator.width=1.0 objective.generator.sharing=gdes",
]


@pytest.fixture
def together(launch, arguments):
    """A function that trains in several processes."""

    def work(count, *overrides, out, **given):
        started = launch(PROGRAM, count, arguments=arguments(*overrides, out=out), **given)
        for process in started:
            process.join()
        assert [process.exitcode for process in started] == [0] * count

    return work


def check_same(alone, shared, held_out, records):
    """Compare two runs: equal schedules, losses up to rounding."""
    assert len(held_out(alone)) == 3
    for ours, theirs in zip(held_out(alone), held_out(shared), strict=True):
        assert ours == pytest.approx(theirs, rel=2e-3)
    lines = [[line for line in records(run) if "loss" in line] for run in (alone, shared)]
    for name in ("step", "tokens", "learning_rate", "progress"):
        assert [line[name] for line in lines[0]] == [line[name] for line in lines[1]]
    assert [line["loss"] for line in lines[0]] == pytest.approx([line["loss"] for line in lines[1]], rel=1e-3)
    one, two = (electra.load(run).network.state_dict() for run in (alone, shared))
    for name, tensor in one.items():
        assert (tensor - two[name]).abs().max() < 1e-3, name


@pytest.mark.parametrize(
    "override", ["train.micro_batch_size=4", *(pytest.param(key, marks=pytest.mark.slow) for key in VARIANTS)]
)
def test_two_processes_train_what_one_trains(together, config, held_out, records, override):
    together(2, override, "model.dropout=0.0", out="two")
    alone = pretrain(config(override, "model.dropout=0.0", out="one"))
    run = alone.with_name("two")
    check_same(alone, run, held_out, records)
    logged = [record for record in read_records(run / "metrics.jsonl") if "slowest_lag" in record]
    paces = [json.loads(line) for line in (run / "ranks.jsonl").read_text().splitlines()]
    assert [record["step"] for record in logged] == [line["step"] for line in paces] == list(range(1, 11))
    assert all(len(line["seconds"]) == 2 and min(line["seconds"]) > 0 for line in paces)
    assert not (alone / "ranks.jsonl").exists()
    (found,) = gather([run])
    assert (found["environment"][0]["processes"], found["environment"][0]["machines"]) == (2, 1)
    assert len(found["curves"]["training"]["slowest_lag"]) == 10


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ([], "train.batch_size=8"),
        (["train.micro_batch_size=4"], "train.micro_batch_size=4"),
        (["train.micro_batch_size=2"], "train.micro_batch_size=2"),
    ],
)
def test_processes_that_cannot_divide_the_batch_are_refused(config, settings, named):
    small = config(*settings)
    check_division(small, Processes(0, 2, torch.device("cpu")))
    with pytest.raises(ConfigError, match=rf"^3 processes cannot divide {named} evenly; start another number"):
        check_division(small, Processes(0, 3, torch.device("cpu")))


@pytest.mark.parametrize(("size", "ranks", "smaller"), [(24, 8, 8), (32, 8, 16), (24, 4, 12), (12, 3, 6), (8, 8, None)])
def test_a_smaller_size_of_micro_batches_divides_the_batches_and_is_divided_by_the_processes(
    config, size, ranks, smaller
):
    processes = Processes(0, ranks, torch.device("cpu"))
    assert smaller_batch(config(f"train.batch_size={size}"), processes) == smaller
    if smaller:
        check_division(config(f"train.batch_size={size}", f"train.micro_batch_size={smaller}"), processes)


def test_a_run_goes_on_in_any_number_of_processes(together, config, held_out, records):
    """One, then two on each of two machines that share the optimizer's state, then two, then one."""
    settings = ["model.dropout=0.0", "train.optimizer=muon", "checkpoint.keep=9"]
    alone = pretrain(config(*settings, out="one"))
    with pytest.raises(Stopped):
        pretrain(config(*settings), [lambda record: record["step"] == 3 and signal.raise_signal(signal.SIGTERM)])
    together(4, *settings, "train.sharding=optimizer", out="run", stop_at=6, machines=2)
    together(2, *settings, out="run", stop_at=8)
    run = pretrain(config(*settings))
    check_same(alone, run, held_out, records)
    steps = {path.name[-1]: sorted(file.name for file in path.iterdir()) for path in run.glob("checkpoints/step-*")}
    assert steps["3"] == ["optimizer.safetensors", "state.json", "weights.safetensors"]
    assert [len(steps[step]) for step in "68"] == [3, 3]  # only the first machine writes, a file for each process
    assert [entry["processes"] for entry in json.loads((run / "environment.json").read_text())] == [1, 4, 2]


@pytest.mark.parametrize(
    "override", ["train.micro_batch_size=4", *(pytest.param(key, marks=pytest.mark.slow, id=key) for key in DIVIDED)]
)
def test_processes_that_divide_the_weights_train_what_one_trains(together, config, held_out, records, override):
    """Two on each of two machines, then one that has all weights, then two."""
    settings = [*override.split(), "model.dropout=0.0", "checkpoint.keep=9"]
    alone = pretrain(config(*settings, out="one"))
    together(4, *settings, "train.sharding=full", out="run", stop_at=3, machines=2)
    with pytest.raises(Stopped):
        pretrain(config(*settings), [lambda record: record["step"] == 7 and signal.raise_signal(signal.SIGTERM)])
    together(2, *settings, "train.sharding=full", out="run")
    check_same(alone, alone.with_name("run"), held_out, records)


@pytest.mark.slow
@pytest.mark.parametrize("shared_store", ["0", "1"])
def test_torchrun_starts_all_again_after_a_death(arguments, tmp_path, shared_store):
    many = [*arguments("train.steps=300", "checkpoint.every=20", "evaluate.every=300"), "--quiet"]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": shared_store}
    command = [sys.executable, *launcher, "-m", "electra", "pretrain", *many]
    started = subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE)
    while not (tmp_path / "run/checkpoints/step-00000020").exists():
        assert started.poll() is None
        time.sleep(0.1)
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    _, errors = started.communicate(timeout=600)
    assert started.returncode == 0, errors
    assert f" on {platform.node()} exited or cannot be reached; restart all processes to resume" in errors
    assert any(record.get("progress") == 1 for record in read_records(tmp_path / "run/metrics.jsonl"))
