"""The process that fine-tunes for another one."""

import signal
import subprocess
import sys

import pytest

from electra.errors import TaskError
from electra.recipes import worker
from electra.recipes.worker import Worker


@pytest.fixture
def failure(monkeypatch):
    """A function that lets the process run a Python script instead, and returns the error."""

    def run(script):
        def start(module, threads, tokenizing, **pipes):
            return subprocess.Popen([sys.executable, "-c", script], **pipes)

        monkeypatch.setattr(worker, "start_module", start)
        process = Worker(threads=1)
        with pytest.raises(TaskError) as error:
            process.ask(None, None, print)
        process.close()
        return str(error.value)

    return run


def test_an_error_in_another_encoding_is_reported(failure):
    assert failure(r"import sys; sys.stderr.buffer.write(b'no file caf\xe9'); sys.exit(1)") == "no file caf\ufffd"


def test_a_process_that_the_system_kills_is_named_whatever_it_wrote(failure):
    script = "import os, sys; sys.stderr.write('a warning'); sys.stderr.flush(); os.kill(os.getpid(), 9)"
    assert failure(script) == "the process was killed by signal 9; perhaps memory ran out"


def test_a_process_that_waits_ends_with_the_one_that_started_it():
    ended = subprocess.run([sys.executable, "-m", worker.__name__], stdin=subprocess.DEVNULL, check=False)
    assert ended.returncode == -signal.SIGTERM
