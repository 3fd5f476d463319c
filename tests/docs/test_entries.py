"""Tables and pictures of a small ledger, written here."""

import json

import entries
import figures
import pytest
from scipy import stats

from electra.config.load import dump_config, load_config
from electra.recipes.flops import flops


def score(median, deviation=0.0, seeds=1, runs=1):
    each = [(run, seed, median + 0.01 * (run + seed - 1)) for run in range(runs) for seed in range(seeds)]
    return {
        "metric": "accuracy",
        "median": {"accuracy": median},
        "std": {"accuracy": deviation},
        "seeds": [{"run": run, "seed": seed, "metrics": {"accuracy": accuracy}} for run, seed, accuracy in each],
    }


def point(model, flops, scores):
    return {"model": model, "steps": 10, "tokens": 3e8, "seconds": 480.0, "flops": flops, "scores": scores}


@pytest.fixture
def ledger(tmp_path):
    """Give a function that writes a folder of the ledger."""

    def write(name, points=(), headline=True, text="# A run\n\n**Result.** It went\nwell.\n\n**Learned.** Much.\n"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "README.md").write_text(text)
        if points:
            (folder / "scores.json").write_text(json.dumps({"headline": headline, "points": points}))
        return tmp_path

    return write


def test_the_index_has_a_line_for_each_folder_the_newest_day_first(ledger):
    ledger("2026-01-01-old")
    ledger("2026-02-01-b")
    lines = entries.index_table(ledger("2026-02-01-a")).splitlines()[2:]
    assert lines == [
        "| 2026-02-01 | [A run](2026-02-01-a/README.md) |",
        "| 2026-02-01 | [A run](2026-02-01-b/README.md) |",
        "| 2026-01-01 | [A run](2026-01-01-old/README.md) |",
    ]


def test_a_folder_without_a_result_is_named(ledger):
    with pytest.raises(ValueError, match=r"2026-01-01-a/README\.md needs a heading and a paragraph"):
        entries.index_table(ledger("2026-01-01-a", text="# A run\n\nIt went well.\n"))


def test_a_score_has_its_deviation_and_its_seeds(ledger):
    scores = {"mrpc": score(0.7234, 0.0131, 5), "rte": score(0.57)}
    row = entries.scores_table(ledger("2026-01-01-a", [point("m", 3.77e16, scores)])).splitlines()[2]
    assert row == (
        "| [m](../results/2026-01-01-a/README.md) | 8.0 min, 300 M tokens, 3.8e16 FLOPs "
        "| | | 72.3 ± 1.3 (5) | | 57.0 | | | | |"
    )


def test_a_score_after_several_runs_has_their_number(ledger):
    results = ledger("2026-01-01-a", [point("m", 1e16, {"rte": score(0.57, 0.02, 3, runs=2)})])
    row = entries.folder_scores_table(results / "2026-01-01-a" / "scores.json").splitlines()[2]
    assert row.endswith("| 57.0 ± 2.0 (2 × 3) |")


def test_the_mean_is_there_when_all_of_its_tasks_are(ledger):
    scores = {task: score(0.5 + number / 100) for number, task in enumerate(entries.GLUE)}
    row = entries.scores_table(ledger("2026-01-01-a", [point("m", 1e16, scores)])).splitlines()[2]
    assert row.endswith("| 55.0 | 52.5 | | |")


def test_only_headlines_and_the_published_scores_are_in_the_table(ledger):
    results = ledger("2026-01-01-a", [point("m", 1e16, {"rte": score(0.5)})], headline=False)
    rows = entries.scores_table(results).splitlines()[2:]
    assert len(rows) == 1
    assert "published" in rows[0]


def test_a_network_that_read_nothing_had_no_pre_training(ledger):
    untrained = point("m", 0.0, {"rte": score(0.5)}) | {"tokens": 0}
    results = ledger("2026-01-01-a", [untrained])
    assert (
        entries.folder_scores_table(results / "2026-01-01-a" / "scores.json").splitlines()[2] == "| m | none | 50.0 |"
    )


def test_the_scores_of_an_entry_are_drawn_over_minutes(ledger, tmp_path):
    scores = {task: score(0.6, seeds=3, runs=3) for task in entries.GLUE}
    models = {"ELECTRA": (1200, 300), "BERT": (300, 1200), "untrained": (0,)}
    line = [point(model, 1e16, scores) | {"seconds": time} for model, times in models.items() for time in times]
    results = ledger("2026-01-01-a", line)
    ledger("2026-01-02-b", [point("m", 1e16, scores)])
    figures.draw_scores(results / "2026-01-01-a", {"2026-01-02-b": "the record"}, tmp_path / "scores.svg")
    picture = (tmp_path / "scores.svg").read_text()
    shown = (
        *models,
        "the record",
        "ELECTRA-Small-OWT, as published",
        "minutes of pre-training",
        "3 pre-training seeds",
        "over pre-training",
    )
    for words in (*shown, ", ".join(entries.GLUE.values())):
        assert words in picture
    assert picture.index("ELECTRA") < picture.index("BERT") < picture.index("untrained")


def test_the_interval_of_a_mean_knows_only_tasks_with_several_seeds():
    once = {task: score(0.6) for task in entries.GLUE}
    exact = entries.Point(**point("m", 1.0, once))
    found = entries.Point(**point("m", 1.0, once | {"rte": score(0.5, seeds=3)}))
    interval = stats.ttest_1samp(found.seeds("rte"), 0).confidence_interval(0.95)
    assert figures.half_interval(exact) == 0
    assert figures.half_interval(found) == pytest.approx((interval.high - interval.low) / 2 / len(entries.GLUE))


def test_a_run_of_its_own_has_a_line_with_its_cost_and_those_of_a_comparison_have_none(ledger):
    results = ledger("2026-01-01-a")
    ledger("2026-01-01-b")
    lines = [
        {"step": 1, "tokens": 9, "tokens_per_second": 500.0},
        {"step": 1000, "tokens": 2_048_000, "seconds": 9.0, "heldout_loss": 1.0, "heldout_discriminator_auc": 0.9},
        {"step": 1000, "warning": "ill"},
    ]
    config = dump_config(load_config("tiny", ["train.steps=1000"]))
    for place, curve in (("a/config", "a/metrics"), ("b/one", "b/one"), ("b/two", "b/two")):
        (results / f"2026-01-01-{place}.toml").write_text(config.replace("[train]", "[train]\nlong_gone = true"))
        (results / f"2026-01-01-{curve}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cost = f"{flops(load_config('tiny', ['train.steps=1000'])).train_flops:.1e}".replace("e+", "e")
    assert entries.runs_table(results).splitlines()[2:] == [
        "| [01-01-a](../results/2026-01-01-a/README.md) | electra 4 × 128 | electra | 0.1 | 1,000 | 2.05 M "
        f"| {cost} | 500 | 0.900 | |"
    ]


def test_a_table_of_the_ledger_becomes_markdown(tmp_path):
    (tmp_path / "a.csv").write_text('what,time\n"attention, forward",12 ms\nnorm,\n')
    found = entries.table(entries.csv_rows(tmp_path / "a.csv"))
    assert found == "| what | time |\n|---|---|\n| attention, forward | 12 ms |\n| norm | |\n"
