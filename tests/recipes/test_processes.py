"""A run gives the same in any number of processes, also when the number changes on the way."""

import json
import signal
from pathlib import Path

import pytest

import electra
from electra.errors import Stopped
from electra.recipes.pretrain import pretrain
from electra.recipes.report.gather import gather
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
