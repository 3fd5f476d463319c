"""Ctrl-C and SIGTERM, whenever they arrive: one line, and the exit code of the signal."""

import signal
import subprocess
import sys

import pytest

SIGNALS = [signal.SIGINT, signal.SIGTERM]
READING = """
import signal, sys, types

def read(size):
    try:
        signal.raise_signal({number})
    finally:
        {cleanup}

sys.stdin = types.SimpleNamespace(buffer=types.SimpleNamespace(read=read))
sys.argv = ["electra", "vocab", "-", "--size", "100", "--out", "nowhere"]
from electra.cli import main
main()"""
IMPORTING = """
import _signal as signal, sys  # nothing else: `import importlib` changes how its frames are named

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            try:
                signal.raise_signal({number})
            except KeyboardInterrupt:
                raise ImportError("as C code does")

sys.meta_path.insert(0, Finder())
sys.argv = ["electra", "detect", "the cat sat"]
from electra.cli import main
main()"""

ENDING = """
import atexit, signal, sys

atexit.register(signal.raise_signal, {number})
sys.argv = ["electra", "--version"]
from electra.cli import main
main()"""
SERVING = """
import signal, sys
from electra.cli.commands import app

@app.command()
def serve():
    try:
        signal.raise_signal({number})
    except KeyboardInterrupt:
        pass  # as a server does that was stopped on purpose

sys.argv = ["electra", "serve"]
from electra.cli import main
main()"""


def stopped(code: str, folder) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of a program that ends itself."""
    listening = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731 (a shell's jobs are deaf)
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=folder, text=True, capture_output=True, preexec_fn=listening)
    return found.returncode, found.stdout, found.stderr


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    "code",
    [
        READING.replace("{cleanup}", "pass"),
        READING.replace("{cleanup}", "signal.raise_signal({number})"),
        SERVING,
        IMPORTING.replace("{module}", "electra.cli.run"),
        IMPORTING.replace("{module}", "typer"),
        IMPORTING.replace("{module}", "torch"),
    ],
    ids=["reading", "cleaning up", "serving", "importing at first", "importing typer", "importing torch"],
)
def test_a_signal_is_one_line_and_an_exit_code(tmp_path, code, number):
    found = stopped(code.replace("{number}", str(int(number))), tmp_path)
    assert found == (128 + number, "", "electra: stopped; run the same command again\n")


def test_nothing_is_imported_before_signals_are_handled():
    code = "import sys; known = {*sys.modules}; import electra.cli; print(*sorted({*sys.modules} - known))"
    found = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True).stdout
    assert found == "electra electra.cli electra.cli.stop\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_after_a_command_ends_the_process_without_a_traceback(tmp_path, number):
    status, _, errors = stopped(ENDING.replace("{number}", str(int(number))), tmp_path)
    assert (status, errors) == (-number, "")
