"""Record the `electra` commands of a run script without running them."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDER = """#!/bin/sh
line=
for word in "$@"; do line="$line$word$(printf '\\037')"; done
printf '%s\\n' "$line" >>"$RECORD" # in one go: scripts run several at once
case " $* " in *" $FAIL "*) exit 1 ;; esac
"""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Callable[..., list[list[str]]]:
    """Run a script with an `electra` that records its arguments, and return them; it fails if FAIL is among them."""

    def run(script: str, *arguments: str, **environment: str) -> list[list[str]]:
        folder = tmp_path_factory.mktemp("recorded")
        (folder / "bin").mkdir()
        (folder / "bin" / "electra").write_text(RECORDER)
        (folder / "bin" / "electra").chmod(0o755)
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        settings = os.environ | {"PATH": path, "RECORD": str(folder / "record"), "FAIL": "none"} | environment
        subprocess.run(
            ["sh", ROOT / "runs" / script, *arguments],
            cwd=folder,
            env=settings,
            check=True,
            capture_output=True,
            text=True,
        )
        return [line.split("\037")[:-1] for line in (folder / "record").read_text().splitlines()]

    return run
