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
LAUNCHERS = {  # each runs what it is to launch
    "scontrol": "#!/bin/sh\necho node1\necho node2\n",
    "srun": '#!/bin/sh\nwhile [ "$1" != torchrun ]; do shift; done\nexec "$@"\n',
    "torchrun": '#!/bin/sh\necho "$*" >"$RECORD.torchrun"\nwhile [ "$1" != electra ]; do shift; done\nexec "$@"\n',
}
SLURM = {"SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "8"}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Callable[..., list[list[str]]]:
    """Run a script with an `electra` that records its arguments, and return them; it fails if FAIL is among them."""

    def run(script: str, *arguments: str, **environment: str) -> list[list[str]]:
        folder = tmp_path_factory.mktemp("recorded")
        (folder / "bin").mkdir()
        for task in ("glue", "squad-1.1", "conll2000", "blimp"):
            (folder / "tasks" / task).mkdir(parents=True)
        for name, program in {"electra": RECORDER, **LAUNCHERS}.items():
            (folder / "bin" / name).write_text(program)
            (folder / "bin" / name).chmod(0o755)
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        settings = os.environ | {"PATH": path, "RECORD": str(folder / "record"), "FAIL": "none"} | SLURM | environment
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
