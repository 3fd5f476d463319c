"""A run that is killed, stopped or spread over processes gives what an undisturbed one gives."""

import os
import platform
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import electra
from electra.data.corpus.shards import open_corpus
from electra.errors import ElectraError
from electra.recipes.pretrain import pretrain

PATIENCE = 600  # seconds for another process: a busy machine takes minutes to start one
KILL = Path(__file__).with_name("kill.py")
TWO_STAGE = ["objective.algorithm=two_stage", "objective.generator.width=1.0", "objective.generator.sharing=none"]
UNLIKE_CLOCKS = """import itertools, os, types
from electra.cli import main
from electra.training import loop
looks = itertools.count(step=0.01 * (1 + int(os.environ["RANK"])))  # each look at the second clock takes twice as long
loop.time = types.SimpleNamespace(monotonic=lambda: next(looks))
main()"""
ENDLESS = ["train.steps=1_000_000", "evaluate.every=1_000_000", "checkpoint.every=1_000_000"]


def start(*arguments, **environment):
    """Start a Python process with its output caught."""
    kept = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        [sys.executable, *arguments], env=kept, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def wait_for_updates(run, process):
    end = time.monotonic() + PATIENCE
    while not (run / "metrics.jsonl").is_file() or len((run / "metrics.jsonl").read_text().splitlines()) < 3:
        assert time.monotonic() < end, process.kill()
        time.sleep(0.05)


def newest(run):
    return max((run / "checkpoints").glob("step-*")).name


@pytest.mark.parametrize(
    ("optimizer", "micro_batches", "moment"),
    [("muon", 4, {"forward": 6 * 4 + 2}), pytest.param("electra", 1, {"step": 7}, marks=pytest.mark.slow)],
    ids=["inside gradient accumulation, with Muon", "between steps"],
)
def test_a_killed_run_goes_on_bit_for_bit(
    launch, arguments, config, records, weights, corpus, optimizer, micro_batches, moment
):
    overrides = ["model.dropout=0.1", "train.batch_size=32", f"train.micro_batch_size={32 // micro_batches}"]
    overrides.append(f"train.optimizer={optimizer}")
    sequences = sum(len(shard) for shard in open_corpus(corpus).shards("train"))
    assert 6 * 32 < sequences < 7 * 32  # an epoch ends after the checkpoint of step 5
    whole = pretrain(config(*overrides, out="whole"))
    (process,) = launch(KILL, 1, arguments=arguments(*overrides), how=moment)
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    run = Path(config().out)
    assert newest(run) == "step-00000005"
    assert not (run / "model").exists()
    pretrain(config(*overrides))
    assert records(run) == records(whole)
    assert weights(run) == weights(whole)
    assert (run / "samples.jsonl").read_bytes() == (whole / "samples.jsonl").read_bytes()


@pytest.mark.slow
def test_kills_while_checkpoints_are_written_never_stop_a_run(launch, arguments, config, weights):
    overrides = ["train.steps=600", "checkpoint.every=1", "evaluate.every=1000", "checkpoint.keep=1"]
    (process,) = launch(KILL, 1, arguments=arguments(*overrides), how={"kills": 50})
    process.join(PATIENCE)
    assert process.exitcode == 0
    rarely = [*overrides, "checkpoint.every=1000"]
    assert weights(Path(config().out)) == weights(pretrain(config(*rarely, out="whole")))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_the_run_goes_on_bit_for_bit(config, records, weights, number):
    before = signal.getsignal(number)
    whole = pretrain(config(out="whole"))
    run = Path(config().out)
    with pytest.raises(ElectraError, match=r"run: stopped at step 3; the same command resumes it$"):
        pretrain(config(), [lambda record: record["step"] == 3 and signal.raise_signal(number)])
    assert signal.getsignal(number) == before
    assert newest(run) == "step-00000003"
    assert electra.load(run).detect("the cat sat .")
    pretrain(config())
    assert records(run) == records(whole)
    assert weights(run) == weights(whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_command_that_is_told_to_stop_saves_and_says_so(arguments, config, number):
    run = Path(config().out)
    process = start("-m", "electra", "pretrain", *arguments(*ENDLESS), "--quiet")
    wait_for_updates(run, process)
    process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output) == (128 + number, "")
    *warnings, last = errors.splitlines()
    assert re.fullmatch(rf"electra: {run}: stopped at step [\d,]+; the same command resumes it", last)
    assert all(line.startswith("warning: ") for line in warnings)
    assert electra.load(run).detect("the cat sat .")
    assert newest(run) > "step-00000000"  # which is written at the start


def test_a_command_that_is_no_training_clears_up_when_told_to_stop(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "electra", "vocab", "-", "--size", "100", "--out", "v"],
        cwd=tmp_path,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not (tmp_path / ".v.partial").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert errors.strip().endswith("electra: stopped; run the same command again")
    assert [path.name for path in tmp_path.iterdir()] == [".v.lock"]


def test_a_second_ctrl_c_does_not_wait(config):
    def impatient(record):
        if record["step"] == 3:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        pretrain(config(), [impatient])


def test_a_stop_in_the_first_of_two_stages_does_not_start_the_second(config, records):
    run = Path(config().out)
    with pytest.raises(ElectraError, match=r"first_stage: stopped at step 3"):
        pretrain(config(*TWO_STAGE), [lambda record: record["step"] == 3 and signal.raise_signal(signal.SIGTERM)])
    assert newest(run / "first_stage") == "step-00000003"
    assert not (run / "metrics.jsonl").exists()
    with pytest.raises(KeyboardInterrupt):  # at the very end of the stage
        pretrain(config(*TWO_STAGE), [lambda record: record["step"] == 10 and signal.raise_signal(signal.SIGINT)])
    assert newest(run / "first_stage") == "step-00000010"
    assert not (run / "metrics.jsonl").exists()
    pretrain(config(*TWO_STAGE))
    assert records(run)[-1]["step"] == 10


def started_together(arguments, program=("-m", "electra")):
    """Start two processes that share the work of a training."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [start(*program, "pretrain", *arguments, "--quiet", RANK=str(rank), **shared) for rank in (0, 1)]


def together(arguments, *program):
    """Train in two processes; give what each printed, its errors and its exit code."""
    processes = started_together(arguments, *program)
    return [(*process.communicate(timeout=PATIENCE), process.returncode) for process in processes]


@pytest.mark.slow
def test_two_processes_agree_on_when_the_time_is_over(arguments, config, held_out):
    outcome = together(arguments(f"train.hours={4 / 3600}", "evaluate.every=1_000_000"), ("-c", UNLIKE_CLOCKS))
    assert [code for *_, code in outcome] == [0, 0], outcome
    assert held_out(Path(config().out))[-1]["progress"] == 1.0


@pytest.mark.slow
def test_a_process_that_is_gone_is_no_bug_of_the_others(arguments, config):
    first, second = started_together(arguments(*ENDLESS))
    wait_for_updates(Path(config().out), first)
    second.kill()
    second.communicate()
    _, errors = first.communicate(timeout=PATIENCE)
    assert first.returncode == 2
    gone = f"rank 1 on {platform.node()} exited or cannot be reached"
    assert errors.splitlines()[-1] == f"electra: {gone}; restart all processes to resume"


@pytest.mark.slow
def test_a_refusal_by_the_first_process_is_no_bug_of_the_others(arguments, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "holiday.jpg").touch()
    (_, first, code), (_, second, other) = together(arguments())
    assert (code, other) == (2, 2)
    assert first.endswith("run exists and is not a run: it holds holiday.jpg; choose another out\n")
    assert second.endswith("run: the first process reports why it cannot start\n")
