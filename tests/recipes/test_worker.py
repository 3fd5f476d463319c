"""The worker process that fine-tunes."""

import signal
import subprocess
import sys

import pytest

import electra
from electra.errors import TaskError
from electra.recipes import worker
from electra.recipes.parts import in_parts
from electra.recipes.tuning import prepare
from electra.recipes.worker import Request, Worker


@pytest.fixture
def start():
    """A function that starts a worker, which ends with the test."""
    started = []

    def begin():
        started.append(Worker(threads=1))
        return started[-1]

    yield begin
    for process in started:
        process.stop()
        process.close()


@pytest.fixture
def script(monkeypatch):
    """A function that lets workers run a Python script instead."""

    def use(text):
        def begin(module, threads, tokenizing, **pipes):
            return subprocess.Popen([sys.executable, "-c", text], **pipes)

        monkeypatch.setattr(worker, "start_module", begin)

    return use


@pytest.mark.parametrize(
    ("number", "said"), [(9, "killed by signal 9; perhaps memory ran out"), (15, "killed by signal 15")]
)
def test_a_worker_that_is_killed_is_an_error_whatever_it_wrote(start, script, number, said):
    script(f"import os, sys; sys.stderr.write('a warning'); sys.stderr.flush(); os.kill(os.getpid(), {number})")
    with pytest.raises(TaskError, match=rf"^the process was {said}$"):
        start().ask(Request(None, None), print)


def test_the_traceback_of_a_bug_is_shown(start, script, capsys):
    script(r"import sys; sys.stderr.buffer.write(b'caf\xe9\n'); 1 / 0")
    with pytest.raises(RuntimeError, match=r"^a worker process failed \(its traceback is above\)$"):
        start().ask(Request(None, None), print)
    errors = capsys.readouterr().err
    assert errors.startswith("caf\ufffd\nTraceback")
    assert errors.endswith("ZeroDivisionError: division by zero\n")


def test_a_worker_prepares_once_warns_of_foreign_text_and_ends_with_an_error_of_the_user(start, tiny_folder, tmp_path):
    rows = "".join(f"привет мир {number},{number % 2}\n" for number in range(20))
    (tmp_path / "train.csv").write_text("text,label\n" + rows)
    keys = [f"model={tiny_folder}", f"data={tmp_path}/train.csv", f"out={tmp_path}/run", "seeds=2", "epochs=1"]
    config = prepare(electra.load_finetune_config("table", keys)).config
    said, process = [], start()
    with in_parts(config) as parts:
        for part in parts:
            assert process.ask(Request(config, part), said.append) == {}
    results = process.ask(Request(config, None), said.append)
    assert len(results["seeds"]) == 2
    foreign = [line for line in said if "use a model of this language" in line]
    assert len(foreign) == 1
    with pytest.raises(TaskError, match=r"none\.csv"):
        process.ask(Request(config.model_copy(update={"data": str(tmp_path / "none.csv")}), None), said.append)
    assert process.process.wait() == 1


def test_a_worker_that_waits_ends_with_the_process_that_started_it():
    ended = subprocess.run([sys.executable, "-m", worker.__name__], stdin=subprocess.DEVNULL, check=False)
    assert ended.returncode == -signal.SIGTERM
