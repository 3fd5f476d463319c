"""A start that fails on a mistake is no obstacle to the corrected command."""

import shutil
import signal
from pathlib import Path

import pytest

import electra
from electra.config.load import load_config
from electra.data.corpus.build import build_corpus
from electra.data.files import read_sealed, write_sealed
from electra.errors import CheckpointError, ConfigError, DataError, ElectraError
from electra.recipes.pretrain import pretrain
from electra.recipes.train import train

TWO_STAGE = ["objective.algorithm=two_stage", "objective.generator.width=1.0", "objective.generator.sharing=none"]


@pytest.mark.parametrize("stages", [[], TWO_STAGE], ids=["joint", "two-stage"])
@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (["init=./misspelled"], "misspelled"),
        (["init={first}", "model.layers=2"], "init: the model has layers 1, the config says 2"),
        (["data_weights=[0.5, 0.5]"], "2 weights for 1 corpora"),
    ],
    ids=["init", "layers", "weights"],
)
def test_a_corrected_pretraining_begins_anew(config, records, weights, mistake, message, stages):
    first = pretrain(config("train.steps=1", out="first"))
    with pytest.raises(ElectraError, match=message):
        pretrain(config(*stages, *(key.format(first=first) for key in mistake)))
    run = pretrain(config(*stages, "seed=1"))
    whole = pretrain(config(*stages, "seed=1", out="whole"))
    assert (records(run), weights(run)) == (records(whole), weights(whole))
    assert load_config(run).init is None


def test_a_run_that_is_stopped_before_its_first_update_leaves_no_model_and_begins_anew(config, records):
    with pytest.raises(ElectraError, match=r"stopped at step 0; the same command starts it again$"):
        pretrain(config(), [lambda record: "heldout_loss" in record and signal.raise_signal(signal.SIGTERM)])
    assert not (Path(config().out) / "model").exists()
    assert records(pretrain(config("model.layers=2")))[-1]["step"] == 10


def test_a_run_does_not_go_on_with_another_corpus_of_the_same_name(config, corpus, tokenizer, records, tmp_path):
    shutil.copytree(corpus, tmp_path / "corpus")
    here = f"data={tmp_path / 'corpus'}"
    run = pretrain(config(here, "train.steps=5"))
    shutil.rmtree(tmp_path / "corpus")
    (tmp_path / "text.txt").write_text("the chef ate the soup .\n\n" * 400)
    build_corpus([tmp_path / "text.txt"], tokenizer, length=16, out=tmp_path / "corpus", workers=0)
    with pytest.raises(CheckpointError, match=r"run: corpus changed since the run was started; choose another out$"):
        pretrain(config(here, "train.steps=6"))
    assert records(run)[-1]["step"] == 5
    shutil.rmtree(tmp_path / "corpus")
    shutil.copytree(corpus, tmp_path / "corpus")
    assert records(pretrain(config(here, "train.steps=6")))[-1]["step"] == 6


def test_a_checkpoint_of_another_version_is_refused(config, tmp_path):
    run = pretrain(config("train.steps=5"))
    (state,) = run.glob("checkpoints/step-00000005/state.json")
    write_sealed(state, read_sealed(state) | {"unheard_of": 1})
    with pytest.raises(CheckpointError, match=r"run was written by another version of electra; choose another out$"):
        pretrain(config("train.steps=6"))


def test_a_list_of_corpora_without_one_is_refused(config):
    with pytest.raises(ConfigError, match=r"^pretrain needs data=CORPUS and out=RUN$"):
        pretrain(config("data=[]"))


def test_a_model_whose_checkpoints_are_gone_is_not_trained_over(config):
    run = pretrain(config())
    before = (run / "model/model.safetensors").read_bytes()
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(CheckpointError, match="has a model but no checkpoint to resume from; choose another out"):
        pretrain(config())
    assert (run / "model/model.safetensors").read_bytes() == before


@pytest.mark.parametrize("stopping", [[], ["early_stopping=1"]])
@pytest.mark.parametrize("mistake", ["learning_rate=1e30", "learning_rates=[1e30]"])
def test_a_corrected_fine_tuning_begins_anew(tiny_folder, tasks_folder, tmp_path, mistake, stopping):
    usual = ["task=sst-2", f"model={tiny_folder}", f"data={tasks_folder}", f"out={tmp_path / 'run'}", "epochs=0.2"]

    def tune(*keys):
        return electra.finetune(electra.load_finetune_config("glue", [*usual, *keys]))

    with pytest.raises(ElectraError, match="outputs are NaN" if stopping else "the loss was not finite"):
        tune(mistake, "clip_norm=1e30", "batch_size=8", "checkpoint_every=1000", *stopping)
    assert tune("batch_size=16", "dev_file=train.tsv")["examples"]["dev"] == 200


def test_a_corrected_training_on_text_is_planned_anew(tmp_path):
    (tmp_path / "text.txt").write_text("\n\n".join(f"The chef ate meal number {n}." for n in range(300)))

    def run(*overrides, hours=0.1):
        small = ["model.layers=1", "model.hidden_size=32", "model.embedding_size=16", "model.heads=1", "train.steps=1"]
        return train(tmp_path / "text.txt", hours=hours, out=tmp_path / "run", overrides=[*small, *overrides])

    with pytest.raises(DataError, match="a vocabulary of 7 pieces is too small"):
        run("model.vocab_size=7")
    with pytest.raises(ConfigError, match="2 weights for 1 corpora"):
        run("model.vocab_size=80", "data_weights=[0.5, 0.5]")
    made = (tmp_path / "run/corpus/manifest.json").stat().st_mtime_ns
    with pytest.raises(DataError, match="made with another vocabulary"):
        run("model.vocab_size=90")
    config = load_config(run("model.vocab_size=80", hours=0.2))
    assert (config.model.vocab_size, config.data_weights) == (80, None)
    assert (tmp_path / "run/corpus/manifest.json").stat().st_mtime_ns == made
