"""What a kernel is worth, measured on a CPU; the kernels' own parts are tested in tests/model/kernels."""

import csv
import sys

import bench_kernels
import pytest
import torch

from electra.model import cpu

TINY = ["--shape", "small:2x8", "--seconds", "0", "--device", "cpu", "model.layers=1", "model.vocab_size=64"]


def table_of(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bench_kernels.py", *TINY])
    bench_kernels.main()
    printed = capsys.readouterr()
    return list(csv.DictReader(printed.out.splitlines())), printed.err


def test_every_operation_that_is_faster_here_than_plain_gets_a_row(capsys, monkeypatch):
    rows, _ = table_of(capsys, monkeypatch)
    assert [row["operation"] for row in rows] == ["dropout", "attend"]
    for row in rows:
        assert (row["size"], row["batch"], row["length"]) == ("small", "2", "8")
        low, middle, high = (float(row[name]) for name in ("ratio_low", "ratio", "ratio_high"))
        assert 0 < low <= middle <= high
        assert float(row["difference"]) > 0  # other numbers were dropped: the plain implementation was used


def test_an_operation_that_fails_is_reported_and_does_not_stop_the_others(capsys, monkeypatch):
    def scarce(self, hidden):
        raise RuntimeError("out of\nmemory")

    monkeypatch.setattr(torch.nn.Dropout, "forward", scarce)
    rows, said = table_of(capsys, monkeypatch)
    assert [row["operation"] for row in rows] == ["attend"]
    assert "small: dropout left out: out of memory" in said


def test_exchanged_names_get_their_values_back_also_after_an_error():
    dropout = cpu.dropout

    def fail():
        with bench_kernels.exchanged([(vars(cpu), "dropout", None)]):
            assert cpu.dropout is None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert cpu.dropout is dropout
