import os
import subprocess
import sys
from pathlib import Path

import pytest

from electra.training.run import read_records

SCRIPT = Path(__file__).parents[2] / "runs" / "ray_train.py"


@pytest.mark.slow
def test_ray_train_starts_processes_that_train_together(tokenizer, tmp_path):
    pytest.importorskip("ray.train", reason="needs ray[train]")
    from electra.data.corpus.build import build_corpus

    (tmp_path / "text.txt").write_text("the chef cooked the meal .\n\n" * 300)
    corpus = tmp_path / "corpus"
    build_corpus([tmp_path / "text.txt"], tokenizer, length=16, cut="packed", out=corpus, heldout=0.1, workers=0)
    shape = "layers=1 hidden_size=32 heads=1 embedding_size=16 feed_forward_size=64 max_length=16".split()
    train = "steps=4 batch_size=8 length=16 warmup_steps=2".split()
    keys = [*(f"model.{key}" for key in shape), *(f"train.{key}" for key in train), "log.every=1", "device=cpu"]
    command = [sys.executable, SCRIPT, "2", "tiny", f"data={corpus}", f"out={tmp_path / 'run'}", *keys]
    apart = os.environ | {"HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": ""}
    subprocess.run([*command, "--address", "local"], env=apart, check=True, timeout=600)
    assert read_records(tmp_path / "run" / "metrics.jsonl")[-1]["progress"] == 1
    assert (tmp_path / "run" / "ranks.jsonl").is_file()
