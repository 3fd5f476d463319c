"""A run whose command is repeated: when it was finished, with a larger budget, or after damage."""

from pathlib import Path
from shutil import rmtree

import pytest

import electra
from electra.config.load import load_config
from electra.errors import CheckpointError
from electra.recipes.pretrain import pretrain


def test_a_finished_run_that_is_run_again_stays_as_it_is(config, records, weights):
    run = pretrain(config("train.steps=7"))
    before = records(run), weights(run)
    made = [run / "config.toml", run / "environment.json", run / "model" / "README.md", run / "model" / "own" / "note"]
    made[1].write_text(made[1].read_text().replace("CPU", "GPU"))
    made[2].write_text("my model")
    made[3].parent.mkdir()
    made[3].write_text("mine")
    how = [path.read_bytes() for path in made]
    told: list[dict] = []
    assert (
        records(pretrain(config("train.steps=5", "train.learning_rate=1e-5"), [told.append])),
        weights(run),
    ) == before
    assert told[-1]["detected"] == (
        "the run was complete (7 of train.steps=5), so nothing was trained; "
        f"to train it further: electra pretrain {made[0]} train.steps=14"
    )
    assert [path.read_bytes() for path in made] == how


@pytest.mark.parametrize("name", ["model.safetensors", "checksums.json", "generator/config.json"])
def test_a_damaged_model_of_a_finished_run_is_written_again(config, name):
    damaged = pretrain(config("train.steps=2")) / "model" / name
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-3])
    pretrain(config("train.steps=2"))
    assert damaged.read_bytes() == content


@pytest.mark.parametrize("budget", ["train.tokens=320", "train.steps=1"])
def test_a_finished_run_names_a_budget_that_trains_it_further(config, records, budget):
    before, told = records(pretrain(config("train.tokens=320"))), []
    pretrain(config(budget), [told.append])
    larger = told[-1]["detected"].rpartition(" ")[2]
    assert len(records(pretrain(config(larger)))) > len(before)


def test_a_run_goes_on_with_a_larger_budget(config, records):
    pretrain(config("train.steps=5"))
    lines = records(pretrain(config("train.steps=8")))
    assert load_config(Path(config().out)).train.steps == 8
    assert [line["step"] for line in lines if "warning" not in line] == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 8]


def test_a_run_goes_back_to_its_best_checkpoint_when_newer_ones_are_removed(config, records):
    often = ["evaluate.every=1", "checkpoint.every=1"]
    pretrain(config(*often, "train.steps=5", "train.learning_rate=5e-3"))
    run = pretrain(config(*often, "train.learning_rate=1.0"))
    before, best = records(run), (run / "checkpoints" / "best").read_text()
    step = int(best.removeprefix("step-"))
    assert step < 8  # older than the newest two
    for newer in (run / "checkpoints").glob("step-*"):
        if newer.name > best:
            rmtree(newer)
    after = records(pretrain(config(*often, "train.learning_rate=5e-3")))
    assert [line for line in after if line["step"] <= step] == [line for line in before if line["step"] <= step]
    last, first = ([line["heldout_loss"] for line in lines if "heldout_loss" in line][-1] for lines in (after, before))
    assert last < first


def test_a_damaged_checkpoint_is_reported_and_the_one_before_is_used(config, records, weights):
    run = pretrain(config())
    before = records(run), weights(run)
    (run / "checkpoints" / "step-00000010" / "weights.safetensors").write_bytes(b"")
    lines = records(pretrain(config()))
    (warning,) = [line for line in lines if "damaged" in line.get("warning", "")]
    assert warning["step"] == 5
    assert "step-00000010 is damaged" in warning["warning"]
    lines.remove(warning)
    assert (lines, weights(run)) == before


def test_a_run_that_was_killed_says_that_its_model_is_missing(config):
    run = pretrain(config("train.steps=1"))
    rmtree(run / "model")
    with pytest.raises(CheckpointError, match="has no model yet: its command is not finished; repeat it"):
        electra.load(run)
