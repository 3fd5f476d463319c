import statistics

import pytest

from electra.config.load import load_finetune_config
from electra.recipes.results import chosen_seed, describe, scored, summarize_seeds, swept
from electra.tasks.texts.glue import GlueTask
from electra.tasks.texts.task import TextExample

SEEDS = [{"seed": seed, "metrics": {"accuracy": value}} for seed, value in enumerate([0.7, 0.9, 0.8, 0.6])]


def test_seeds_are_summarized():
    found = summarize_seeds(SEEDS)
    assert found["median"]["accuracy"] == pytest.approx(0.75)
    assert found["mean"]["accuracy"] == pytest.approx(0.75)
    assert found["std"]["accuracy"] == pytest.approx(statistics.stdev([0.7, 0.9, 0.8, 0.6]))


def test_the_interval_uses_students_t():
    low, high = summarize_seeds(SEEDS)["interval"]["accuracy"]
    half = 3.182446 * statistics.stdev([0.7, 0.9, 0.8, 0.6]) / 2  # t of 3 degrees of freedom at 97.5 %
    assert (low, high) == pytest.approx((0.75 - half, 0.75 + half), rel=1e-6)


@pytest.mark.parametrize(("task", "first"), [("sts-b", "spearman"), ("cola", "matthews"), ("mrpc", "accuracy")])
def test_the_first_score_is_the_one_that_ranks(task, first):
    made = GlueTask(task, load_finetune_config("glue", [f"task={task}"]), {})
    examples = [TextExample(("a", "b"), made.kind.parse(label, "")) for label in ("1", "0", "1")]
    predictions = [{"value": value, "label": str(value)} for value in (0, 0, 1)]
    assert next(iter(scored(made, examples, predictions))) == first


def test_one_seed_has_no_spread():
    found = summarize_seeds(SEEDS[:1])
    assert (found["std"], found["interval"]) == ({"accuracy": 0.0}, {"accuracy": None})


def test_the_best_or_the_median_seed_is_kept():
    assert chosen_seed(SEEDS, "accuracy", "best") == 1
    assert chosen_seed(SEEDS[:3], "accuracy", "median") == 2
    assert chosen_seed([*SEEDS, {"seed": 4, "metrics": {"accuracy": 0.9}}], "accuracy", "best") == 1


def test_a_printed_score_names_its_protocol():
    results = summarize_seeds(SEEDS) | {"task": "rte", "metric": "accuracy", "seeds": SEEDS, "protocol": "mnli-init"}
    text = describe(results | {"start": "tuned on mnli"})
    assert text == (
        "rte: accuracy 75.00 (median of 4 seeds, accuracy ± 12.91), protocol mnli-init, start tuned on mnli"
    )


def test_a_printed_score_is_compared_with_the_most_frequent_label():
    results = summarize_seeds(SEEDS) | {"task": "table", "metric": "accuracy", "seeds": SEEDS, "protocol": "single"}
    results |= {"baseline": {"label": "ham", "accuracy": 0.7}, "start": "pretrained"}
    assert describe(results).startswith('table: accuracy 75.00 (always "ham": 70.00) (median of 4 seeds')


def test_a_printed_score_of_a_sweep_names_the_rate():
    results = summarize_seeds(SEEDS) | {"task": "rte", "metric": "accuracy", "seeds": SEEDS, "protocol": "single"}
    sweep = {"sweep": {"0.0001": {}, "0.0003": {}}, "learning_rate": 3e-4, "start": "pretrained"}
    assert describe(results | sweep).endswith("± 12.91), learning_rate 0.0003 (best of 2), protocol single")


def test_a_rate_that_diverged_counts_as_tried():
    results = summarize_seeds(SEEDS) | {"task": "rte", "metric": "accuracy", "seeds": SEEDS, "protocol": "single"}
    sweep = {
        "sweep": {"0.0001": {"accuracy": 0.5}},
        "diverged": ["1e+09"],
        "learning_rate": 1e-4,
        "start": "pretrained",
    }
    assert ", learning_rate 0.0001 (best of 2), " in describe(results | sweep)
    assert swept(results | sweep) == [("0.0001", "50.00"), ("1e+09", "diverged")]


def test_a_printed_score_counts_the_seeds_that_learned_nothing():
    seeds = [seed | {"constant": seed["seed"] > 1} for seed in SEEDS]
    results = summarize_seeds(seeds) | {"task": "rte", "metric": "accuracy", "seeds": seeds, "protocol": "single"}
    assert describe(results | {"start": "pretrained"}).endswith("2 of 4 seeds predict the same for every example")
