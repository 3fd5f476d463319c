"""Entering runs into the ledger: what is kept of them and what they cost."""

import json

import ledger
import pytest

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
    results = {"task": "rte", "metric": "accuracy", "median": {"accuracy": 0.5}, "std": {"accuracy": 0.0}, "notes": {}}
    (tmp_path / "tuned" / "rte").mkdir(parents=True)
    (tmp_path / "tuned" / "rte" / "results.json").write_text(json.dumps(results | {"seeds": [{"seed": 0}]}))
    return str(tmp_path / "tuned")


def test_a_curve_is_thinned_but_keeps_evaluations_and_warnings(run):
    folder = ledger.enter("one", [("tiny", run("a"), "-")], lines=10)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 12
    assert lines[-1] == {"step": 1000, "warning": "ill"}
    config = (folder / "config.toml").read_text()
    assert 'data = "corpus"\nout = "a"\n' in config, "paths are shortened"
    assert not (folder / "scores.json").exists()


def test_a_point_has_the_cost_of_its_run_and_the_scores_of_its_tasks(run, tuned):
    folder = ledger.enter("one", [("tiny", run("a"), tuned), ("untrained", "-", tuned)], headline=True)
    content = json.loads((folder / "scores.json").read_text())
    trained, untrained = content["points"]
    assert content["headline"]
    found = tuple(trained[name] for name in ("model", "steps", "tokens", "seconds"))
    assert found == ("tiny", 1000, 2_048_000, 111.12)
    assert trained["flops"] > 0
    assert trained["scores"]["rte"]["median"] == {"accuracy": 0.5}
    assert "notes" not in trained["scores"]["rte"]
    assert (untrained["tokens"], untrained["flops"]) == (0, 0)


def test_the_cost_includes_the_first_stage(run, tuned):
    folder = run("two")
    run("two/first_stage")
    assert ledger.cost(folder)["tokens"] == 2 * 2_048_000


def test_several_runs_keep_the_names_of_their_folders(run, tmp_path):
    for hours in ("1h", "2h"):
        (tmp_path / hours).mkdir()
    folder = ledger.enter("many", [("A", run("1h/electra"), "-"), ("A", run("2h/electra"), "-")])
    names = ["1h-electra.jsonl", "1h-electra.toml", "2h-electra.jsonl", "2h-electra.toml"]
    assert sorted(path.name for path in folder.iterdir()) == names
