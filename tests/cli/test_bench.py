import json
import subprocess
import sys

import pytest

KEYS = {"variant", "size", "batch", "seq", "ms", "tokens_s", "mfu"}


def electra_bench(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "electra", "bench", "--device", "cpu", "--seconds", "0", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_json_is_one_object_a_row():
    pytest.importorskip("transformers")
    result = electra_bench("--size", "tiny", "--batch", "1", "--batch", "2", "--length", "16", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    names = ["electra", "hf_typical", "hf_careful"]
    assert [(row["variant"], row["batch"]) for row in rows] == [(name, size) for size in (1, 2) for name in names]
    assert all(row.keys() >= KEYS for row in rows)
    assert rows[0]["mfu"] is None


def test_the_table_has_a_line_a_row_and_progress_stays_out_of_it():
    result = electra_bench("--size", "tiny", "--batch", "1", "--length", "16", "--against", "none")
    device, head, row = result.stdout.splitlines()
    assert device.startswith("CPU")
    assert head.split()[:2] == ["variant", "size"]
    assert row.split()[:5] == ["electra", "tiny", "1", "x", "16"]
    assert "warming up electra" in result.stderr


def test_an_unknown_size_is_one_line():
    result = electra_bench("--size", "smal")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "did you mean small?" in result.stderr
