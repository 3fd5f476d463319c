"""Entering runs into the ledger: what is kept of them and what they cost."""

import json

import ledger
import numpy as np
import pytest
from scipy import stats

from electra.config.load import dump_config, load_config


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Write a run with a curve of 1,000 lines; the ledger is in a temporary folder."""
    monkeypatch.setattr(ledger, "RESULTS", tmp_path / "results")

    def write(name):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.toml").write_text(
            dump_config(load_config("tiny", ["train.hours=0.1", "data=/home/me/texts/corpus", f"out={folder}"]))
        )
        logged = [{"step": n, "tokens": 2048 * n, "seconds": n / 9, "tokens_per_second": 1.0} for n in range(1, 1001)]
        heldout = {"step": 1000, "tokens": 2_048_000, "seconds": 111.123456, "heldout_loss": 1.0}
        lines = [*logged, heldout, {"step": 1000, "warning": "ill"}]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(folder)

    return write


@pytest.fixture
def tuned(tmp_path):
    """Write a folder of `electra glue`: the accuracies of the seeds of RTE, by learning rate."""

    def write(name, rates):
        for rate, accuracies in rates.items():
            folder = tmp_path / name / "rte" / f"rate-{rate}"
            folder.mkdir(parents=True)
            seeds = [{"seed": seed, "metrics": {"accuracy": accuracy}} for seed, accuracy in enumerate(accuracies)]
            results = {"task": "rte", "metric": "accuracy", "learning_rate": float(rate), "notes": {}, "seeds": seeds}
            (folder / "results.json").write_text(json.dumps(results))
        medians = {rate: {"accuracy": float(np.median(accuracies))} for rate, accuracies in rates.items()}
        sweep = {"sweep": medians} if len(rates) > 1 else {}  # the last rate is best
        (folder.parent / "results.json").write_text(json.dumps(results | sweep))
        return str(tmp_path / name)

    return write


def test_a_curve_is_thinned_but_keeps_evaluations_and_warnings(run):
    folder = ledger.enter("one", [("tiny", run("a"), "-")], lines=10)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 12
    assert lines[-1] == {"step": 1000, "warning": "ill"}
    config = (folder / "config.toml").read_text()
    assert 'data = "corpus"\nout = "a"\n' in config, "paths are shortened"
    assert not (folder / "scores.json").exists()


def test_a_point_has_the_cost_of_its_run_and_the_scores_of_its_tasks(run, tuned):
    scored = tuned("a-tuned", {"3e-4": [0.5]})
    folder = ledger.enter("one", [("tiny", run("a"), scored), ("untrained", "-", scored)], headline=True)
    content = json.loads((folder / "scores.json").read_text())
    trained, untrained = content["points"]
    assert content["headline"]
    found = tuple(trained[name] for name in ("model", "steps", "tokens", "seconds"))
    assert found == ("tiny", 1000, 2_048_000, 111.12)
    assert trained["flops"] > 0
    assert trained["scores"]["rte"]["median"] == {"accuracy": 0.5}
    assert not {"notes", "sweep"} & trained["scores"]["rte"].keys()
    assert (untrained["tokens"], untrained["flops"]) == (0, 0)


def test_the_seeds_of_several_runs_form_one_row(run, tuned):
    low, high = [0.5, 0.6, 0.7], [0.8, 0.9, 1.0]
    places = [run("a"), tuned("a-tuned", {"3e-4": low}), run("b"), tuned("b-tuned", {"3e-4": high})]
    folder = ledger.enter("claim", [("tiny", *places)])
    (point,) = json.loads((folder / "scores.json").read_text())["points"]
    assert (point["steps"], point["seconds"]) == (1000, 111.12), "the cost of one run"
    found = point["scores"]["rte"]
    known = stats.ttest_1samp([0.6, 0.9], 0).confidence_interval(0.95)  # of the means of the runs
    assert found["median"] == {"accuracy": 0.75}
    assert found["interval"]["accuracy"] == pytest.approx([known.low, known.high], abs=1e-4)
    assert [(seed["run"], seed["seed"]) for seed in found["seeds"]] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_rows_with_one_title_form_a_curve(run, tuned):
    short, long = (
        ("tiny", run(name), tuned(f"{name}-tuned", {"3e-4": [score]})) for name, score in (("a", 0.5), ("b", 0.6))
    )
    content = json.loads((ledger.enter("curve", [short, long]) / "scores.json").read_text())
    assert [point["scores"]["rte"]["median"]["accuracy"] for point in content["points"]] == [0.5, 0.6]


def test_an_entry_that_gets_more_runs_has_what_it_would_have_with_all_at_once(run, tuned):
    first, second, third = (
        (run(name), tuned(f"{name}-tuned", {"3e-4": [accuracy, accuracy + 0.1]}))
        for name, accuracy in (("a", 0.5), ("b", 0.6), ("c", 0.8))
    )
    other = ("untrained", "-", tuned("d-tuned", {"3e-4": [0.4, 0.5]}))
    whole = ledger.enter("whole", [("tiny", *first, *second, *third), other], headline=True)
    parts = ledger.enter("parts", [("tiny", *first, *second), other], headline=True)
    assert ledger.enter(parts.name, [("tiny", *third)]) == parts
    assert (parts / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()
    assert {path.name for path in parts.iterdir()} == {path.name for path in whole.iterdir()}


def test_a_run_is_entered_once_and_a_curve_gets_no_more_runs(run, tuned):
    scored = tuned("a-tuned", {"3e-4": [0.5]})
    one, other = (("tiny", run(name), scored) for name in "ab")
    entry, curve = (ledger.enter(name, rows) for name, rows in {"entry": [one], "curve": [one, one]}.items())
    ledger.enter(entry.name, [other])
    known = (entry / "scores.json").read_bytes()
    with pytest.raises(ValueError, match=r"b\.toml, so this run was entered before"):
        ledger.enter(entry.name, [other])
    assert (entry / "scores.json").read_bytes() == known
    with pytest.raises(ValueError, match="has a curve, rows of one title, which get no more runs"):
        ledger.enter(curve.name, [other])


@pytest.mark.parametrize("others", [{"1e-4": [0.5], "3e-4": [0.7]}, {"3e-4": [0.7]}])
def test_the_learning_rate_that_is_best_for_the_first_run_counts(others, tuned):
    first = tuned("a", {"1e-4": [0.6], "3e-4": [0.8]})
    found = ledger.pooled_scores([first, tuned("b", others)])["rte"]
    assert found["learning_rate"] == 3e-4
    assert found["median"] == {"accuracy": 0.75}
    assert found["sweep"] == {"1e-4": {"accuracy": 0.6}, "3e-4": {"accuracy": 0.8}}


@pytest.mark.parametrize(
    ("rates", "said"),
    [({"3e-4": [0.5]}, r"not the same number of seeds: \[2, 1\]"), ({"1e-4": [0.5, 0.6]}, "the learning rate 0.0003,")],
)
def test_runs_with_another_rate_or_fewer_seeds_do_not_form_a_row(rates, said, tuned):
    with pytest.raises(ValueError, match=said):
        ledger.pooled_scores([tuned("a", {"3e-4": [0.5, 0.6]}), tuned("b", rates)])


def test_a_task_that_one_run_lacks_is_named(tuned, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty/rte"):
        ledger.pooled_scores([str(tmp_path / "empty"), tuned("a", {"3e-4": [0.5]})])


def test_the_cost_includes_the_first_stage(run):
    folder = run("two")
    run("two/first_stage")
    assert ledger.cost(folder)["tokens"] == 2 * 2_048_000


def test_several_runs_keep_the_names_of_their_folders(run, tmp_path):
    for hours in ("1h", "2h"):
        (tmp_path / hours).mkdir()
    folder = ledger.enter("many", [("A", run("1h/electra"), "-"), ("A", run("2h/electra"), "-")])
    names = ["1h-electra.jsonl", "1h-electra.toml", "2h-electra.jsonl", "2h-electra.toml"]
    assert sorted(path.name for path in folder.iterdir()) == names
