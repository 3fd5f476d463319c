"""The law of sizes: it is found again from runs that follow it, and it chooses larger models for longer runs."""

import csv
import math
import re

import pytest
import sizes

from electra.config.load import load_config
from electra.recipes.flops import body_size

LAW = sizes.Law(floor=1.4, width=2.0, a=0.35, reading=6.0, b=0.3)
SPEEDS = {"modern-12x256": 3e6, "modern-10x384": 2e6, "modern-19x512": 0.9e6}


@pytest.fixture(scope="module")
def parameters():
    return {size: body_size(load_config(size).model) for size in SPEEDS}


@pytest.fixture
def runs(parameters):
    return [
        sizes.Run(size, tokens, LAW.loss(parameters[size], tokens), speed)
        for size, speed in SPEEDS.items()
        for tokens in (1e7, 3e7, 1e8, 1e9)
    ]


def test_parameters_do_not_include_the_vocabulary(parameters):
    model = load_config("modern-12x256").model
    matrices = model.layers * model.hidden_size * (4 * model.hidden_size + 3 * model.feed_forward_size)
    assert matrices < parameters["modern-12x256"] < 1.02 * matrices


def test_the_law_is_found_from_runs_that_follow_it(runs, parameters):
    found = sizes.fit(runs, parameters)
    for run in runs:
        assert math.isclose(found.loss(parameters[run.size], run.tokens), run.loss, rel_tol=1e-4)
    longest = found.loss(parameters["modern-19x512"], 1e10)
    assert math.isclose(longest, LAW.loss(parameters["modern-19x512"], 1e10), rel_tol=1e-2), "beyond all runs"


def test_longer_runs_want_larger_models(runs, parameters, tmp_path, capsys):
    table = tmp_path / "runs.csv"
    rows = [(run.size, run.tokens, run.loss, run.tokens_per_second) for run in runs]
    with table.open("w") as file:
        csv.writer(file).writerows([("size", "tokens", "loss", "tokens/s"), *rows])
    sizes.main(table, [0.5, 60.0])
    printed = capsys.readouterr()
    lines = list(csv.DictReader(printed.out.splitlines()))
    best = [line["best"] for line in lines]
    assert parameters[best[0]] < parameters[best[1]]
    assert lines[1]["modern-12x256"] == f"{LAW.loss(parameters['modern-12x256'], 3600 * 3e6):.2f}"
    assert "off by at most 0.00" in printed.err
    assert [line["also without one run"] for line in lines] == ["12 of 12"] * 2
    named = re.search(r"modern-19x512 overtakes modern-10x384 at ([\d.]+) tokens per parameter", printed.err)
    tokens = float(named[1]) * parameters["modern-19x512"]
    smaller = LAW.loss(parameters["modern-10x384"], tokens * SPEEDS["modern-10x384"] / SPEEDS["modern-19x512"])
    assert math.isclose(LAW.loss(parameters["modern-19x512"], tokens), smaller, rel_tol=1e-3)
