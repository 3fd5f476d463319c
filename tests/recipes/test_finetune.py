"""Fine-tuning end to end: a task that two layers learn in seconds."""

import json
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import electra
from electra.config.load import load_finetune_config
from electra.errors import CheckpointError, ConfigError, Diverged, ElectraError, TaskError
from electra.training.run import read_records

KILL = Path(__file__).with_name("kill_finetune.py")
FRESH = "start=untrained epochs=2.0 learning_rate=5e-3".split()  # enough to learn the task
QUICK = "epochs=1.0 batch_size=8 learning_rate=2e-3 layer_decay=1.0 optimizer=adamw log_every=1".split()


@pytest.fixture
def arguments(tiny_folder, tasks_folder, tmp_path):
    """A function from overrides to the keys of a run that takes a second; later ones win."""

    def make(*overrides, out="run"):
        usual = ["task=sst-2", f"model={tiny_folder}", f"data={tasks_folder}", f"out={tmp_path / out}", *QUICK]
        if any(override.startswith("learning_rates=") for override in overrides):
            usual = [key for key in usual if not key.startswith("learning_rate=")]
        return [*usual, *overrides]

    return make


@pytest.fixture
def tune(arguments):
    def run(*overrides, out="run", listeners=(), **more):
        return electra.finetune(electra.load_finetune_config("glue", arguments(*overrides, out=out)), listeners, **more)

    return run


def test_a_seeds_result_that_is_cut_short_is_refused_and_its_advice_works(tune, tmp_path):
    tune("epochs=0.1")
    folder = tmp_path / "run" / "seeds" / "0"
    (folder / "result.json").write_text('{"seed"')
    with pytest.raises(CheckpointError, match=rf"result\.json is damaged; remove {folder} to train this seed again"):
        tune("epochs=0.1")
    shutil.rmtree(folder)
    assert len(tune("epochs=0.1")["seeds"]) == 1


@pytest.mark.parametrize(("written", "damage"), [(r".*", "7"), (r'"steps": \d', '"steps": 9')])
def test_a_seeds_result_that_was_changed_is_refused(tune, tmp_path, written, damage):
    tune("epochs=0.1")
    path = tmp_path / "run/seeds/0/result.json"
    path.write_text(re.sub(written, damage, path.read_text(), count=1))
    with pytest.raises(CheckpointError, match=r"result\.json is damaged; remove"):
        tune("epochs=0.1", "seeds=2")


def test_what_a_run_does_not_depend_on_may_be_damaged(tune, tmp_path):
    tune("epochs=0.1")
    (tmp_path / "run/environment.json").write_text("[")
    (tmp_path / "run/model/seed.json").write_text("")
    assert len(tune("epochs=0.1", "seeds=2")["seeds"]) == 2
    assert json.loads((tmp_path / "run/model/seed.json").read_text()) in (0, 1)


def test_what_users_add_to_a_model_stays(tune, tmp_path):
    before, note = tune("epochs=0.1"), tmp_path / "run/model/own/note"
    note.parent.mkdir()
    note.write_text("mine")
    assert tune("epochs=0.1") == before
    assert note.read_text() == "mine"


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(path.read_bytes()[:-9]), Path.unlink])
def test_a_finished_run_whose_model_is_damaged_is_trained_again(tune, tmp_path, damage, without_clock):
    before = tune("epochs=0.1")
    weights = tmp_path / "run/model/model.safetensors"
    content = weights.read_bytes()
    damage(weights)
    assert without_clock(tune("epochs=0.1")) == without_clock(before)
    assert weights.read_bytes() == content


def test_data_that_nothing_is_left_of_is_refused(tune, monkeypatch):
    monkeypatch.setattr("electra.tasks.texts.task.TextTask.features", lambda *_, **__: [])
    with pytest.raises(TaskError, match=r"^no usable train data among 200 examples"):
        tune()


def test_a_task_is_learnt_and_the_results_are_written(tune, tmp_path, tiny_folder):
    results = tune("seeds=2", *FRESH)
    run = tmp_path / "run"
    assert json.loads((run / "results.json").read_text()) == results
    assert json.loads((run / "environment.json").read_text())[0]["device"].startswith("CPU")
    assert (results["task"], results["protocol"], results["metric"]) == ("sst-2", "single", "accuracy")
    assert [seed["seed"] for seed in results["seeds"]] == [0, 1]
    for summary in ("median", "mean", "std", "interval"):
        assert set(results[summary]) == {"accuracy"}
    assert results["median"]["accuracy"] > 0.9
    assert results["seeds"][0]["steps"] == 50
    assert results["seeds"][0]["tokens_per_second"] > 0
    assert results["examples"] == {"train": 200, "dev": 40}
    assert results["model"] == str(tiny_folder)
    assert electra.load_finetune_config(run).epochs == 2.0
    assert [path.name for path in run.glob("seeds/*/model")] == []


def test_a_task_is_learned_smoothly(tune, tmp_path, without_clock):
    plain = tune(*FRESH, out="a")
    smooth, again = (tune(*FRESH, "smoothness=1", out=name) for name in "bc")
    assert without_clock(smooth) == without_clock(again)
    assert min(results["median"]["accuracy"] for results in (plain, smooth)) > 0.9
    first = [read_records(tmp_path / name / "seeds/0/metrics.jsonl")[0]["loss"] for name in "ab"]
    assert first[1] > first[0]  # the same weights and batch


def test_the_kept_model_reproduces_its_score(tune, tmp_path):
    results = tune("seeds=2")
    kept = results["seeds"][results["kept"]]["metrics"]
    assert electra.evaluate(tmp_path / "run").metrics == kept
    assert kept["accuracy"] == max(seed["metrics"]["accuracy"] for seed in results["seeds"])


@pytest.mark.parametrize(
    ("overrides", "compared"),
    [([], 0), (["seeds=2"], 2), (["seeds=2", "keep=median"], 0), (["learning_rates=[1e-4, 2e-4]", "seeds=2"], 4)],
)
def test_a_score_on_the_examples_that_chose_the_model_is_called_optimistic(tune, tmp_path, overrides, compared):
    tune("epochs=0.1", *overrides)
    noted = "trainings were compared on these examples to choose this model, so the score is optimistic"
    assert electra.evaluate(tmp_path / "run").notes.get(noted, 0) == compared
    assert noted not in electra.evaluate(tmp_path / "run", ["dev_file=train.tsv"]).notes


def test_a_seed_that_answers_all_alike_is_named(tune, tmp_path):
    told = []
    results = tune("start=untrained", "learning_rate=1.0", listeners=[told.append])  # far too fast
    assert [seed["constant"] for seed in results["seeds"]] == [True]
    (warning,) = [record["warning"] for record in told if "warning" in record]
    assert warning.startswith("seed 0: every example of dev gets the same answer")
    assert "try other rates, 'learning_rates=[1e-4, 3e-4, 1e-3]'" in warning
    assert "same answer" in (tmp_path / "run/seeds/0/metrics.jsonl").read_text()
    told.clear()
    assert [seed["constant"] for seed in tune(*FRESH, out="learned", listeners=[told.append])["seeds"]] == [False]
    assert not any("warning" in record for record in told)


def test_seeds_differ_and_each_is_reproducible(tune, tmp_path):
    tune("seeds=2", out="one")
    tune("seeds=1", "seed=1", out="other")
    losses = [
        [json.loads(line).get("loss") for line in (tmp_path / place / "metrics.jsonl").read_text().splitlines()]
        for place in ("one/seeds/0", "one/seeds/1", "other/seeds/1")
    ]
    assert losses[0] != losses[1]
    assert losses[1] == losses[2]


def test_more_seeds_are_added_to_a_finished_run(tune, tmp_path):
    first = tune("seeds=1")
    stamp = (tmp_path / "run/seeds/0/metrics.jsonl").stat().st_mtime_ns
    both = tune("seeds=2")
    assert both["seeds"][0] == first["seeds"][0]
    assert (tmp_path / "run/seeds/0/metrics.jsonl").stat().st_mtime_ns == stamp
    assert len(both["seeds"]) == 2
    assert electra.load_finetune_config(tmp_path / "run").seeds == 2


def test_the_median_model_is_trained_again_where_it_was_not_kept(tune, tmp_path):
    tune("seeds=2", "keep=best")
    results = tune("seeds=2", "keep=median")
    assert json.loads((tmp_path / "run/model/seed.json").read_text()) == results["kept"]
    assert electra.evaluate(tmp_path / "run").metrics == results["seeds"][results["kept"]]["metrics"]


@pytest.mark.slow
def test_a_median_model_whose_second_training_was_stopped_is_not_kept_half_trained(tune, tmp_path):
    keys = ["seeds=2", "early_stopping=9", "epochs=3.0"]
    tune(*keys, "keep=best")
    whole = tune(*keys, "keep=median", out="whole")
    folder = tmp_path / "run/seeds" / str(whole["kept"])

    def stop(record):
        if (folder / "model").is_dir():
            raise KeyboardInterrupt

    if not (folder / "model").is_dir():  # the one that is kept now is another's
        with pytest.raises(KeyboardInterrupt):
            tune(*keys, "keep=median", listeners=[stop])
        assert not (folder / "result.json").exists()
    results = tune(*keys, "keep=median")
    assert electra.evaluate(tmp_path / "run").metrics == results["seeds"][results["kept"]]["metrics"]


@pytest.mark.parametrize("checkpoints", [["checkpoint_every=10"], pytest.param([], marks=pytest.mark.slow)])
def test_a_killed_run_goes_on(tune, launch, arguments, tmp_path, checkpoints, without_clock):
    keys = ["seeds=2", "optimizer=electra", "dropout=0.1", *checkpoints]
    whole = tune(*keys, out="whole")
    (killed,) = launch(KILL, 1, seed=1, step=15, keys=arguments(*keys))
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert (tmp_path / "run/seeds/0/result.json").is_file()
    assert not (tmp_path / "run/seeds/1/result.json").exists()
    steps = []
    again = tune(*keys, listeners=[lambda record: steps.append((record["seed"], record["step"]))])
    assert steps[0] == (1, 11 if checkpoints else 1)
    assert without_clock(again) == without_clock(whole)
    weights = [(tmp_path / place / "model/model.safetensors").read_bytes() for place in ("whole", "run")]
    assert weights[0] == weights[1]


def test_what_only_training_needs_is_removed_even_after_a_kill(tune, tmp_path):
    tune("epochs=0.1")
    folder = tmp_path / "run/seeds/0"
    before = sorted(path.name for path in folder.iterdir())
    (folder / "best.json").write_text("{")
    (folder / "checkpoints/step-00000001").mkdir(parents=True)
    tune("epochs=0.1")
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_signal_stops_the_run_with_one_line(tune):
    with pytest.raises(ElectraError, match=r"seeds/0: stopped at step 5; the same command starts it again$"):
        tune(listeners=[lambda record: record["step"] == 5 and signal.raise_signal(signal.SIGTERM)])
    assert len(tune()["seeds"]) == 1


def test_what_does_not_fit_in_memory_is_one_line(tune):
    def no_room(record):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2.00 GiB")

    with pytest.raises(
        ElectraError, match=r"^batches of 8 inputs of up to \d+ tokens do not fit .*; halve batch_size, "
    ):
        tune(listeners=[no_room])


def test_a_training_that_comes_apart_names_the_keys_that_there_are(tune):
    with pytest.raises(ElectraError, match=r"lower learning_rate or raise warmup_fraction, with another out$"):
        tune("learning_rate=1e30", "epochs=2.0")


def test_a_folder_in_which_a_seed_trains_is_refused(tune):
    def meddle(record):
        if record["step"] == 3:
            with pytest.raises(CheckpointError, match="another process is training"):
                tune()

    assert len(tune(listeners=[meddle])["seeds"]) == 1


def test_another_config_is_refused(tune):
    tune()
    with pytest.raises(ConfigError, match=r"was started with batch_size=\d+; use the same settings"):
        tune("batch_size=16")


def test_other_examples_or_weights_under_the_same_names_are_refused(tune, tasks_folder, tiny_folder, tmp_path):
    data, model = tmp_path / "data", tmp_path / "model"
    shutil.copytree(tasks_folder, data)
    shutil.copytree(tiny_folder, model)
    keys = [f"data={data}", f"model={model}", "epochs=0.1"]
    tune(*keys)
    tune(*keys)
    path = next(data.rglob("SST-2/dev.tsv"))
    before = path.read_text()
    path.write_text(before + "a new sentence\t1\n")
    with pytest.raises(CheckpointError, match="dev data changed since the run was started; choose another out"):
        tune(*keys)
    path.write_text(before)
    weights = load_file(model / "model.safetensors")
    save_file({name: weight + 1 for name, weight in weights.items()}, model / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"model\.safetensors has changed since it was written"):
        tune(*keys)
    (model / "checksums.json").unlink()
    with pytest.raises(CheckpointError, match="model changed since the run was started; choose another out"):
        tune(*keys)


def test_the_best_of_several_learning_rates_is_kept(tune, tmp_path):
    heard = []
    results = tune("learning_rates=[1e-7, 5e-3]", *FRESH[:2], listeners=[heard.append])
    assert [record["detected"] for record in heard if "detected" in record] == [
        "learning rate 1e-07",
        "learning rate 0.005",
    ]
    assert results["learning_rate"] == 5e-3
    assert set(results["sweep"]) == {"1e-07", "0.005"}
    assert results["sweep"]["0.005"]["accuracy"] > results["sweep"]["1e-07"]["accuracy"]
    assert electra.evaluate(tmp_path / "run").metrics == results["median"]


@pytest.mark.parametrize(("together", "how"), [(1, []), (2, []), (1, ["early_stopping=1", "batch_size=64"])])
def test_a_learning_rate_that_is_too_high_is_left_out_and_not_tried_again(tune, monkeypatch, together, how):
    settings, heard = ["learning_rates=[1e30, 5e-3]", "clip_norm=1e30", *FRESH[:2], *how], []
    results = tune(*settings, listeners=[heard.append], together=together)
    assert (list(results["sweep"]), results["diverged"]) == (["0.005"], ["1e+30"])
    (said,) = (record["warning"] for record in heard if "is left out" in record.get("warning", ""))
    reason = "network's outputs are NaN" if how else "loss was not finite"
    assert said.startswith(f"learning rate 1e+30 is left out: the {reason}")
    assert ({"detected": "seed 0 with learning rate 1e+30 diverged"} in heard) == (together > 1)
    monkeypatch.delattr("electra.recipes.finetune.train")
    assert tune(*settings) == results


def test_without_a_learning_rate_that_is_low_enough_nothing_is_kept(tune, tmp_path):
    with pytest.raises(Diverged, match="the loss was not finite"):
        tune("learning_rates=[1e30]", "clip_norm=1e30", *FRESH[:2])
    assert not (tmp_path / "run/model").exists()


def test_a_sweep_is_written_whole_and_goes_on_with_data_that_moved(tune, tasks_folder, tmp_path):
    keys = ["learning_rates=[1e-4, 1e-3]", "epochs=0.2"]
    results = tune(*keys)
    config = load_finetune_config(tmp_path / "run" / "config.toml")
    assert (config.seeds, config.learning_rate, config.learning_rates) == (1, None, [1e-4, 1e-3])
    assert None not in (config.max_length, config.layer_decay, config.double_unordered, config.dropout)
    shutil.copytree(tasks_folder, tmp_path / "moved")
    assert tune(*keys, f"data={tmp_path / 'moved'}")["sweep"] == results["sweep"]
    dev = tmp_path / "moved" / "SST-2" / "dev.tsv"
    assert tune(*keys, f"dev_file={dev.rename(dev.with_name('other.tsv'))}")["sweep"] == results["sweep"]


def test_a_resumed_seed_counts_all_its_seconds(tune, tmp_path):
    def slow(record):
        time.sleep(0.3)
        if record["step"] == 4:
            signal.raise_signal(signal.SIGTERM)

    keys = ["checkpoint_every=2", "epochs=0.5", "log_every=1"]
    with pytest.raises(ElectraError, match="resumes it"):
        tune(*keys, listeners=[slow])
    (seed,) = tune(*keys)["seeds"]
    assert seed["seconds"] > 4 * 0.3


def test_early_stopping_takes_the_best_epoch(tune, tmp_path):
    results = tune(*FRESH, "early_stopping=2", "epochs=50.0", "checkpoint_every=25")
    lines = [json.loads(line) for line in (tmp_path / "run/seeds/0/metrics.jsonl").read_text().splitlines()]
    scores = [(line["heldout_accuracy"], line["step"]) for line in lines if "heldout_accuracy" in line]
    assert scores[0][1] == 25  # what is not trained is no candidate
    assert not any("heldout_loss" in line for line in lines)
    best = max(score for score, _ in scores)
    first = next(step for score, step in scores if score == best)
    assert results["seeds"][0]["steps"] == first
    assert scores[-1][1] == first + 2 * 25
    assert results["median"]["accuracy"] == best == electra.evaluate(tmp_path / "run").metrics["accuracy"]


def test_fresh_weights_in_the_shape_of_a_tuned_model_are_called_untrained(tune, tmp_path):
    tune("epochs=0.1", out="tuned")
    results = tune("start=untrained", f"model={tmp_path / 'tuned'}", "epochs=0.1")
    assert results["start"] == "untrained"


def test_a_seed_that_had_enough_when_it_was_killed_is_not_trained_on(tune, tmp_path, monkeypatch):
    def killed(path, content):
        raise RuntimeError("killed")

    keys = [*FRESH, "early_stopping=1", "epochs=50.0", "checkpoint_every=25"]
    with monkeypatch.context() as patch:
        patch.setattr("electra.recipes.finetune.write_sealed", killed)
        with pytest.raises(RuntimeError, match="killed"):
            tune(*keys)
    metrics = tmp_path / "run/seeds/0/metrics.jsonl"
    before = metrics.read_text()
    tune(*keys)
    assert metrics.read_text() == before


def test_untrained_weights_are_drawn_and_pretrained_ones_are_taken(tune, tiny_model, tmp_path):
    words = {}
    for start in ("pretrained", "untrained"):
        tune(f"start={start}", "epochs=0.04", "learning_rate=1e-9", out=start)
        words[start] = electra.load(tmp_path / start, device="cpu").encoder.embeddings.words.weight
    torch.testing.assert_close(words["pretrained"], tiny_model.encoder.embeddings.words.weight, atol=1e-6, rtol=0)
    assert words["untrained"].std() < 0.03


def test_mnli_init_starts_from_a_model_tuned_on_mnli(tune, tmp_path, tiny_folder):
    tune("task=mnli", "epochs=1.0", out="mnli")
    results = tune("task=rte", f"model={tmp_path / 'mnli'}", "protocol=mnli-init", "seeds=1", "epochs=1.0")
    assert (results["protocol"], results["start"]) == ("mnli-init", "tuned on mnli")
    with pytest.raises(ConfigError, match=r"starts from a model tuned on MNLI; .* is not tuned yet"):
        tune("task=rte", "protocol=mnli-init", out="other")
    with pytest.raises(ConfigError, match=r"protocol = paper starts from a pre-trained model; .* is tuned on mnli"):
        tune("task=rte", f"model={tmp_path / 'mnli'}", "protocol=paper", "optimizer=electra", out="other")


def test_a_head_that_does_not_fit_is_one_line(tune, tmp_path):
    tune("epochs=0.1")
    with pytest.raises(TaskError, match=r"the head of .* does not fit task mnli: it predicts 0, 1, not entailment"):
        electra.evaluate(tmp_path / "run", ["task=mnli"])


def test_a_model_without_a_task_is_one_line(tiny_folder):
    with pytest.raises(CheckpointError, match="has no supported task head; fine-tune it with: electra finetune"):
        electra.evaluate(tiny_folder)


@pytest.mark.parametrize(
    ("missing", "reason"), [("model", "set model=MODEL"), ("out", "set out=RUN"), ("task", "which task")]
)
def test_what_is_missing_is_asked_for(arguments, missing, reason):
    keys = [key for key in arguments() if not key.startswith(f"{missing}=")]
    with pytest.raises((ConfigError, TaskError), match=reason):
        electra.finetune(electra.load_finetune_config("glue", keys))
