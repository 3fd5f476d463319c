"""Reading run folders: finished, unfinished, damaged and missing ones."""

import json
import shutil
from pathlib import Path

import pytest

from electra.config.load import load_config
from electra.data.files import write_sealed
from electra.errors import CheckpointError
from electra.recipes.finetune import CONSTANT
from electra.recipes.flops import count_flops
from electra.recipes.report.gather import MOST_POINTS, MOST_SAMPLES, gather, short_names


def only(folder):
    (found,) = gather([folder])
    return found


def test_a_finished_run_has_its_newest_metrics_curves_and_cost(make_run):
    run = only(make_run("a"))
    assert (run["name"], run["kind"]) == ("a", "pretraining")
    assert run["state"]["finished"]
    assert (run["state"]["step"], run["state"]["tokens"], run["state"]["seconds"]) == (100, 100_000, 200.0)
    assert run["latest"]["heldout"]["discriminator_auc"] == pytest.approx(0.9)
    assert run["latest"]["training"]["generator_loss"] == 4.0
    assert run["curves"]["heldout"]["step"] == list(range(0, 101, 10))
    assert run["curves"]["heldout"]["generator_loss"][0] == 9.0
    assert len(run["curves"]["training"]["learning_rate"]) == 50
    assert run["cost"]["tokens_per_second"] == 1051
    assert run["environment"][0]["device"] == "NVIDIA H200"


def test_flops_are_counted_for_the_tokens_read(make_run):
    folder = make_run("a", "train.length=64")
    config = load_config(folder)
    each = count_flops(config.model, config.objective, 64).train
    assert only(folder)["cost"]["flops"] == pytest.approx(each / 64 * 100_000)


def test_the_cost_includes_the_first_stage(make_run):
    folder = make_run("a")
    second = only(folder)["cost"]
    shutil.copytree(make_run("b", "objective.name=mlm"), folder / "first_stage")
    both, first = only(folder)["cost"], only(folder / "first_stage")["cost"]
    assert (both["tokens"], both["seconds"]) == (200_000, 400.0)
    before = only(folder)["before"]
    assert (before["tokens"], before["seconds"], before["flops"]) == (100_000, 200.0, first["flops"])
    assert both["flops"] == pytest.approx(second["flops"] + first["flops"])


def test_a_fine_tuning_without_results_yet_is_a_run(tmp_path):
    seed = tmp_path / "rate-0.1" / "seeds" / "0"
    seed.mkdir(parents=True)
    (tmp_path / "config.toml").write_text('task = "rte"\n')
    (seed / "metrics.jsonl").write_text(json.dumps({"step": 3, "warning": f"seed 0: {CONSTANT}"}) + "\n")
    run = only(tmp_path)
    assert (run["kind"], run["results"], len(run["warnings"])) == ("finetuning", None, 1)


def test_the_cost_of_a_sweep_includes_all_rates(tmp_path):
    (tmp_path / "results.json").write_text('{"task": "table"}')
    for number, rate in enumerate(("rate-0.0001", "rate-0.3")):
        seed = tmp_path / rate / "seeds" / "0"
        seed.mkdir(parents=True)
        (seed / "metrics.jsonl").write_text(json.dumps({"step": 3, "warning": f"seed 0: {CONSTANT}"}) + "\n")
        write_sealed(seed / "result.json", {"seed": 0, "metrics": {}, "seconds": 2.0 + number})
        (tmp_path / rate / "environment.json").write_text('[{"device": "a GPU"}]')
    run = only(tmp_path)
    assert (run["cost"], run["environment"]) == ({"seconds": 5.0}, [{"device": "a GPU"}])
    assert [warning["times"] for warning in run["warnings"]] == [2]


def test_an_unfinished_run_has_its_progress_and_the_time_left(make_run):
    state = only(make_run("a", steps=40))["state"]
    assert not state["finished"]
    assert (state["progress"], state["seconds_left"]) == (0.4, pytest.approx(120))


def test_a_run_without_held_out_text_only_has_training_curves(make_run):
    run = only(make_run("a", measured=False))
    assert run["curves"]["heldout"] == {}
    assert run["latest"]["heldout"] == {}
    assert run["samples"] == []
    assert run["latest"]["training"]["discriminator_auc"] == pytest.approx(0.9)


def test_a_run_before_its_first_update_is_reported(make_run):
    run = only(make_run("a", steps=0))
    assert run["state"]["seconds_left"] is None
    assert run["curves"]["training"] == {}
    assert run["curves"]["heldout"]["step"] == [0]


def test_metrics_from_before_the_first_update_are_not_the_newest(make_run):
    folder = make_run("a", steps=40)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    kept = [line for line in lines if "heldout_" not in line or json.loads(line)["step"] == 0]
    (folder / "metrics.jsonl").write_text("\n".join(kept) + "\n")
    run = only(folder)
    assert run["curves"]["heldout"]["step"] == [0]
    assert run["latest"]["heldout"] == {}


def test_a_run_whose_log_has_held_out_losses_only_has_no_expected_range(make_run):
    folder = make_run("a", steps=40)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    kept = [{"step": line["step"], "heldout_loss": line["heldout_loss"]} for line in lines if "heldout_loss" in line]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    run = only(folder)
    assert run["curves"]["heldout"]["loss"]
    assert run["expected"] is None


def test_a_truncated_line_is_skipped(make_run):
    folder = make_run("a", steps=40)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 42, "loss": 1')
    assert only(folder)["state"]["step"] == 40


def test_a_missing_number_leaves_a_gap(make_run):
    folder = make_run("a", steps=4, measured=False)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    lines[0]["generator_loss"] = None
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert only(folder)["curves"]["training"]["generator_loss"] == [None, 8.8]


def test_long_curves_are_averaged_except_for_the_last_point(make_run):
    folder = make_run("a", steps=100, measured=False)
    (line, *_) = (folder / "metrics.jsonl").read_text().splitlines()
    records = [{**json.loads(line), "step": step, "loss": float(step % 2)} for step in range(1, 10 * MOST_POINTS)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    curves = only(folder)["curves"]["training"]
    assert MOST_POINTS / 2 < len(curves["step"]) <= MOST_POINTS
    assert curves["loss"][1:-1] == pytest.approx([0.5] * (len(curves["loss"]) - 2), abs=0.1)
    assert (curves["step"][-1], curves["loss"][-1]) == (10 * MOST_POINTS - 1, 1.0)


def test_samples_are_spread_evenly_over_the_steps(make_run):
    folder = make_run("a")
    with (folder / "samples.jsonl").open("a") as file:
        file.write('{"step": 101, "samples": []}\n')  # a run can end soon after an evaluation
    assert [record["step"] for record in only(folder)["samples"]] == [0, 30, 50, 80, 101]
    assert MOST_SAMPLES == 5


def test_the_config_of_another_version_is_shown_without_flops(make_run):
    folder = make_run("a")
    with (folder / "config.toml").open("a") as file:
        file.write("\n[future]\nknob = 3\n")
    run = only(folder)
    assert run["config"]["future.knob"] == 3
    assert run["cost"]["flops"] is None
    assert "future.knob" in run["flops_problem"]


def test_a_fine_tuning_run_has_its_results(make_tuned):
    run = only(make_tuned("mrpc"))
    assert (run["kind"], run["state"], run["cost"]) == ("finetuning", None, None)
    assert run["results"]["interval"]["accuracy"] == [0.58, 0.84]


def test_warnings_of_seeds_are_reported(make_tuned):
    folder = make_tuned("mrpc")
    (folder / "seeds/0").mkdir(parents=True)
    (folder / "seeds/0/metrics.jsonl").write_text(json.dumps({"step": 9, "warning": f"seed 0: {CONSTANT}"}) + "\n")
    (warning,) = only(folder)["warnings"]
    assert "most common label" in warning["meaning"]


def test_a_folder_of_runs_means_all_of_them(make_tuned):
    for task in ("rte", "mrpc"):
        suite = make_tuned(f"suite/{task}", task=task).parent
    (suite / "suite.json").write_text("{}")
    assert [run["results"]["task"] for run in gather([suite])] == ["mrpc", "rte"]


def test_a_run_named_twice_is_reported_once(make_run):
    folder = make_run("a")
    assert len(gather([folder, folder])) == 1


def test_names_are_the_shortest_unique_ones():
    assert short_names([Path("/x/one"), Path("/x/two")]) == ["one", "two"]
    assert short_names([Path("/x/run"), Path("/y/run")]) == ["x/run", "y/run"]


def test_a_missing_run_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match=r"no run at .*nothing; give a run"):
        gather([tmp_path / "nothing"])


def test_a_folder_without_runs_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match=r"nothing to report: no metrics\.jsonl or results\.json"):
        gather([tmp_path])


@pytest.mark.parametrize("content", ["{", "[" * 100_000], ids=["brace", "brackets"])
def test_invalid_results_are_named(make_tuned, content):
    folder = make_tuned("mrpc")
    (folder / "results.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"results\.json: not valid JSON"):
        gather([folder])


def test_a_record_without_its_position_is_no_progress(make_run):
    folder = make_run("a", steps=40)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 50, "progress": 0.5}\n')
    assert gather([folder])[0]["state"]["step"] == 40


@pytest.mark.parametrize("content", [b"\xff", b"[" * 100_000 + b"]" * 100_000], ids=["bytes", "brackets"])
def test_a_file_that_cannot_be_read_is_named(make_run, content):
    folder = make_run("a")
    (folder / "environment.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"environment\.json: not valid JSON: .*; restore it or remove it$"):
        gather([folder])


@pytest.mark.parametrize("content", ["null", '{"seed": 0, "metrics": {}, "seconds": null}'])
def test_the_damaged_result_of_a_seed_is_named(make_tuned, content):
    folder = make_tuned("a")
    (folder / "seeds" / "0").mkdir(parents=True)
    (folder / "seeds" / "0" / "result.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"result\.json is damaged; remove .* to train this seed again$"):
        gather([folder])


def test_a_run_is_judged_and_compared_with_healthy_ones(make_run):
    """The run of 100,000 tokens ends at an AUC of 0.9; similar runs are measured from 65,536 tokens on."""
    (run,) = gather([make_run("a", preset="nano")])
    assert run["verdict"].startswith("Learned well: AUC 0.90 after 0.1 M tokens, where runs of this size reach 0.5")
    expected = run["expected"]
    assert expected["metric"] == "discriminator_auc"
    assert (expected["step"][-1], expected["tokens"][-1], expected["seconds"][-1]) == (100, 100_000, 200)
    assert len(expected["low"]) == len(expected["high"]) == len(expected["step"]) == 3
    (trained,) = gather([make_run("b")])  # with a generator, 100,000 tokens are too few to expect anything
    assert (trained["expected"], trained["verdict"][:12]) == (None, "Too short to")
