"""Ways to compute attention, compared on a CPU; those that need a GPU are left out with a reason."""

import csv
import sys

import bench_attention
import pytest


@pytest.fixture
def lengths(tmp_path):
    (tmp_path / "lengths.txt").write_text("9\n1\n5\n")
    return str(tmp_path / "lengths.txt")


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_what_a_cpu_can_compute_is_checked_and_timed_and_the_rest_left_out(lengths, capsys, monkeypatch):
    arguments = ["--device", "cpu", "--rows", "mixed", "16", "--widths", "64", "--reaches", "0", "3"]
    arguments += ["--tokens", "32", "--rounds", "2", "--lengths", lengths]
    monkeypatch.setattr(sys, "argv", ["bench_attention.py", *arguments])
    bench_attention.main()
    printed = capsys.readouterr()
    rows = list(csv.DictReader(printed.out.splitlines()))
    found = [(row["rows"], row["reach"], row["work"], row["way"]) for row in rows]
    works = [("forward", "flex_attention"), ("forward", "padded"), ("both", "padded")]
    assert found == [(name, reach, *work) for name in ("mixed", "16") for reach in "03" for work in works]
    assert {(row["rows"], row["texts"]) for row in rows} == {("mixed", "7"), ("16", "2")}
    for row in rows:
        assert float(row["error"]) < 1e-5
        assert 0 < float(row["ms_low"]) <= float(row["ms"]) <= float(row["ms_high"])
    assert "mixed, 1 heads, reach 3: varlen_attn left out: PyTorch computes it on NVIDIA GPUs only" in printed.err


def test_texts_fill_the_tokens_exactly(lengths):
    assert bench_attention.lengths_of("mixed", 32, lengths) == [9, 1, 5, 9, 1, 5, 2]
    assert bench_attention.lengths_of("8", 32, None) == [8, 8, 8, 8]
    drawn = bench_attention.lengths_of("mixed", 32_768, None)
    assert sum(drawn) == 32_768
    assert max(drawn) == bench_attention.LONGEST
    assert drawn == bench_attention.lengths_of("mixed", 32_768, None)
