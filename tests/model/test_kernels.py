import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from electra.model.ops import choose

HERE = Path(__file__).parent


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernels_pass_their_tests_in_tritons_interpreter():
    """In a process of its own: the interpreter is chosen by the environment before Triton is imported."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(HERE / "kernels")]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=HERE.parents[1], check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def test_plain_hidden_states_are_not_for_the_kernels():
    for dtype in (torch.float32, torch.bfloat16):
        assert choose("token_logits", torch.zeros(2, 3, 4, dtype=dtype)) == "plain"
