"""Processes on this machine that run a module of the package."""

import os
import subprocess
import sys
from pathlib import Path

import electra


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_module(name: str, *, threads: int = 1, tokenizing: int = 1, **settings: int) -> subprocess.Popen[bytes]:
    """Start an electra module in a new process.

    `threads` and `tokenizing` are the threads of torch and of the tokenizer, unless the environment sets others.
    """
    home = str(Path(electra.__file__).parents[1])
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    limits = {"OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(tokenizing)}
    process: subprocess.Popen[bytes] = subprocess.Popen(
        [sys.executable, "-P", "-m", name],  # -P: no imports from the working directory
        env={**limits, **os.environ, "PYTHONPATH": path},
        **settings,  # type: ignore[call-overload]
    )
    return process
