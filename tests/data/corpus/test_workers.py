import operator
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from tokenizers import Regex, normalizers

from electra.data.corpus import workers
from electra.data.corpus.encode import tokenize_documents
from electra.data.corpus.workers import Workers, tokenize_in_order
from electra.data.reading.text import Passage
from electra.data.settings import Cleaning
from electra.data.subprocesses import available_cores, start_module
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.errors import DataError

TOKENIZER = wordpiece([*SPECIAL_TOKENS, *"abcdefghij"])
STEP = partial(tokenize_documents, tokenizer=TOKENIZER, cleaning=Cleaning(), dtype=np.dtype(np.uint16))


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes through /proc")


class Numbered(NamedTuple):
    number: int
    passages: list[Passage]


def blocks(count: int) -> list[Numbered]:
    return [
        Numbered(number, [Passage("abcdefghij"[number % 10] + " a" * (1000 * (number % 3)))]) for number in range(count)
    ]


def result(count: int) -> list[tuple[int, list[int]]]:
    return [(block.number, tokens.ids.tolist()) for block, tokens in tokenize_in_order(blocks(20), STEP, count)]


@pytest.mark.parametrize("count", [1, 3])
def test_results_are_in_order_for_any_number_of_workers(count):
    assert result(count) == result(0)


@pytest.mark.parametrize(("count", "processes"), [(1, 0), (2, available_cores())])
def test_a_text_of_one_block_is_not_worth_a_process(monkeypatch, count, processes):
    started = []
    monkeypatch.setattr(
        workers, "start_module", lambda *given, **more: started.append(1) or start_module(*given, **more)
    )
    found = [(block.number, tokens.ids.tolist()) for block, tokens, _ in Workers(None).tokenize(blocks(count), STEP)]
    assert found == result(0)[:count]
    assert len(started) == processes


def test_only_a_few_blocks_are_pending_at_a_time():
    taken = []

    def endless():
        for block in blocks(10_000):
            taken.append(block.number)
            yield block

    tokenized = tokenize_in_order(endless(), STEP, 1)
    next(tokenized)
    tokenized.close()
    assert len(taken) <= 4


@needs_proc
def test_a_killed_worker_is_a_one_line_error():
    tokenized = tokenize_in_order(blocks(20), STEP, 1)
    next(tokenized)
    for child in children(os.getpid()):
        os.kill(child, signal.SIGKILL)
    with pytest.raises(DataError, match=r"was killed \(signal 9\); out of memory\? try fewer --workers"):
        list(tokenized)


def test_a_worker_without_memory_is_a_one_line_error():
    tokenized = tokenize_in_order(blocks(1), partial(operator.mul, 1 << 60), 1)  # repeats the list
    with pytest.raises(DataError, match=r"out of memory\? try fewer --workers"):
        list(tokenized)


@needs_proc
def test_ctrl_c_does_not_reach_workers():
    tokenized = tokenize_in_order(blocks(20), STEP, 1)
    next(tokenized)
    assert all(os.getpgid(child) not in (0, os.getpgid(0)) for child in children(os.getpid()))
    tokenized.close()


def test_a_failing_worker_shows_its_traceback(capfd):
    broken = partial(STEP, tokenizer="no tokenizer")
    with pytest.raises(RuntimeError, match="a worker process failed"):
        list(tokenize_in_order(blocks(1), broken, 1))
    assert "Traceback" in capfd.readouterr().err


def test_an_error_of_the_user_in_a_worker_is_that_of_a_local_step():
    tokenizer = wordpiece([*SPECIAL_TOKENS, "a"])
    tokenizer.backend.normalizer = normalizers.Replace(Regex("(a+)+$"), "")  # takes too long
    endless = [Numbered(0, [Passage("a" * 30 + "b")])]
    with pytest.raises(DataError, match="the tokenizer cannot split this text"):
        list(tokenize_in_order(endless, partial(STEP, tokenizer=tokenizer), 1))


def test_a_script_needs_no_main_guard_and_cannot_shadow_modules(tmp_path):
    (tmp_path / "queue.py").write_text("raise RuntimeError('not this one')")
    (tmp_path / "a.txt").write_text("a b c\n\nd e f\n")
    TOKENIZER.save(tmp_path / "tokenizer")
    script = "import electra; electra.build_corpus('a.txt', 'tokenizer', length=16, out='corpus', workers=2, heldout=0)"
    subprocess.run([sys.executable, "-P", "-c", script], cwd=tmp_path, check=True)
    assert (tmp_path / "corpus" / "manifest.json").is_file()


@needs_proc
def test_workers_exit_when_their_parent_is_killed():
    script = (
        "import time\nfrom test_workers import *\n"
        "tokenized = tokenize_in_order(blocks(20), STEP, 2)\nnext(tokenized)\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout.readline() == b"ready\n"
    workers = children(parent.pid)
    assert len(workers) == 2
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60
    while any(alive(worker) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
