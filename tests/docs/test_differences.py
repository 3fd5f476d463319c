"""Two models of the ledger, compared: Welch's interval, one task and several."""

import json

import pytest
from differences import difference, differences_table
from scipy import stats

ONE, OTHER = [81.4, 80.6, 80.4, 80.1, 83.3], [70.1, 69.0, 72.4]


def score(seeds, **more):
    seeds = [{"metrics": {"accuracy": seed / 100}} for seed in seeds]
    return {"metric": "accuracy", "median": {"accuracy": seeds[0]["metrics"]["accuracy"]}, "seeds": seeds, **more}


def test_one_task_has_the_interval_of_welchs_test():
    found, half = difference([ONE], [OTHER])
    known = stats.ttest_ind(ONE, OTHER, equal_var=False).confidence_interval(0.95)
    assert (found - half, found + half) == pytest.approx((known.low, known.high))


def test_over_several_tasks_the_differences_are_averaged_and_the_interval_narrows():
    first, second = ([[seed / 2 for seed in sample] for sample in samples] for samples in ((ONE, OTHER), (OTHER, ONE)))
    found, half = difference(first, second)
    assert found == pytest.approx(0)
    assert 0 < half < difference([ONE], [OTHER])[1]
    scaled, wider = difference([[2 * seed for seed in ONE]], [[2 * seed for seed in OTHER]])
    assert (scaled, wider) == pytest.approx([2 * part for part in difference([ONE], [OTHER])])


def test_one_seed_has_no_interval_and_equal_seeds_a_narrow_one():
    assert difference([[80.0]], [[70.0]]) == (10.0, None)
    assert difference([[80.0, 80.0]], [[70.0, 70.0]]) == (10.0, 0.0)


def test_after_several_runs_their_means_are_what_the_interval_is_of(tmp_path):
    def scores(*runs):
        seeds = [{"run": run, "metrics": {"accuracy": x / 100}} for run, found in enumerate(runs) for x in found]
        return {"metric": "accuracy", "median": {"accuracy": 0.5}, "seeds": seeds}

    shared = {"steps": 1, "tokens": 1, "seconds": 1.0, "flops": 1.0}
    one = {"mrpc": scores([80, 82], [84, 86], [82, 84]), "rte": scores([60], [66], [66])}
    other = {"mrpc": scores([70, 71, 72]), "rte": scores([60, 61])}
    points = [{"model": name, **shared, "scores": found} for name, found in (("A", one), ("B", other))]
    (tmp_path / "scores.json").write_text(json.dumps({"headline": False, "points": points}))

    def interval(first, second):
        known = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
        return f"({known.low:.1f} – {known.high:.1f}) |"

    *_, mrpc, rte, both = differences_table(tmp_path / "scores.json", 0, 1).splitlines()
    assert mrpc.endswith(interval([81, 85, 83], [70, 71, 72]))
    assert rte.endswith(interval([60, 66, 66], [60, 61]))
    found, half = difference(
        [[70.5, 75.5, 74.5]], [[35, 35.5, 36], [30, 30.5]]
    )  # means of both tasks for each run of A
    assert both.endswith(f"{found:+.1f} ({found - half:.1f} – {found + half:.1f}) |")


RATES = [("0.0003", 0.814), ("0.0001", 0.79)]


def test_the_table_has_every_rate_and_the_mean_of_what_was_repeated(tmp_path):
    tried, once = ({"sweep": {rate: {"accuracy": a} for rate, a in found}} for found in (RATES, RATES[:1]))
    shared = {"steps": 1, "tokens": 1, "seconds": 1.0, "flops": 1.0}
    points = [
        {"model": "A", **shared, "scores": {"qnli": score([84.0], **once), "mrpc": score(ONE, **tried)}},
        {"model": "C", **shared, "scores": {}},
        {"model": "B", **shared, "scores": {"mrpc": score(OTHER), "qnli": score([85.0]), "rte": score([50.0])}},
    ]
    (tmp_path / "scores.json").write_text(json.dumps({"headline": False, "points": points}))
    assert differences_table(tmp_path / "scores.json", 0, 2).splitlines() == [
        "| task | A at 3e-4 | A at 1e-4 | B | difference (95 % interval) |",
        "|---|---|---|---|---|",
        "| MRPC | 81.4 | 79.0 | 70.1 | +10.7 (7.2 – 14.1) |",
        "| QNLI | 81.4 | | 85.0 | -1.0 |",
        "| mean of tasks with several seeds (1) | | | | +10.7 (7.2 – 14.1) |",
    ]
