import contextlib
import io
import subprocess
import sys
from collections.abc import Callable

import pytest

from electra.cli import main


@pytest.fixture
def electra(monkeypatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in this process, which saves the imports of a new one."""

    def run(*arguments: object, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
        given = io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin)
        out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        monkeypatch.setattr(sys, "argv", ["electra", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), pytest.raises(SystemExit) as ended:
            main()
        texts = (stream.buffer.getvalue().decode() for stream in (out, errors))
        return subprocess.CompletedProcess(sys.argv, ended.value.code, *texts)

    return run
