"""Pre-training from corpus to model folder."""

import json
import signal
import sys
from itertools import count
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace

import pytest
import torch

import electra
from electra.config.load import load_config
from electra.data.corpus.build import build_corpus
from electra.data.corpus.shards import open_corpus
from electra.data.feeding.batch import Batch
from electra.data.files import read_sealed
from electra.errors import CheckpointError, ConfigError, DataError, Diverged, ElectraError
from electra.model.networks import Discriminator, EnergyModel, MaskedLM
from electra.recipes import pretrain as pretraining
from electra.recipes.pretrain import check, pretrain
from electra.training.loop import State
from electra.training.run import read_records

TWO_STAGE = ["objective.algorithm=two_stage", "objective.generator.width=1.0", "objective.generator.sharing=none"]


def test_a_finished_run_gives_a_model_that_detects(config):
    run = pretrain(config())
    model = electra.load(run)
    assert isinstance(model.network, Discriminator)
    assert isinstance(model.generator, MaskedLM)
    found = model.detect("the chef ate the soup .")
    assert [detection.token for detection in found] == ["the", "chef", "ate", "the", "soup", "."]
    assert all(0 < detection.probability < 1 for detection in found)


def test_a_model_reads_as_many_tokens_at_once_as_it_did_in_training(config):
    run = pretrain(config("model.max_length=64", "train.steps=1"))
    assert electra.load(run).window == 16 - 2
    assert len(electra.load(run).detect("the chef ate the soup . " * 20)) == 120
    settings = json.loads((run / "model/tokenizer_config.json").read_text())
    assert settings["model_max_length"] == 16  # where `transformers` cuts


def test_a_tracker_receives_what_the_metrics_hold(config, monkeypatch):
    sent = []
    tracked = SimpleNamespace(log=sent.append, define_metric=lambda name, step_metric: None)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **settings: tracked))
    run = pretrain(config("train.steps=2", "log.wandb=true"))
    held = read_records(run / "metrics.jsonl")
    assert len(held) > 3
    assert sorted(sent, key=str) == sorted(held, key=str)


def test_one_of_two_corpora_may_hold_nothing_out(config, corpus, tokenizer, tmp_path):
    (tmp_path / "text.txt").write_text("the chef ate the soup .\n\n" * 40)
    building = {"length": 16, "cut": "packed", "heldout": 0.0, "workers": 0}
    build_corpus([tmp_path / "text.txt"], tokenizer, out=tmp_path / "whole", **building)
    run = pretrain(config(f'data=["{corpus}", "{tmp_path / "whole"}"]', "train.steps=2"))
    assert any("heldout_loss" in record for record in read_records(run / "metrics.jsonl"))


def test_a_run_that_nothing_is_held_out_for_says_so(config, tokenizer, tmp_path):
    (tmp_path / "text.txt").write_text("the chef ate the soup .\n\n" * 40)
    build_corpus([tmp_path / "text.txt"], tokenizer, length=16, out=tmp_path / "whole", heldout=0.0, workers=0)
    first, *_ = read_records(pretrain(config(f"data={tmp_path / 'whole'}", "train.steps=2")) / "metrics.jsonl")
    assert "no text is held out" in first["warning"]


def test_the_energies_of_electric_are_not_taken_for_chances_of_being_replaced(config, records, tmp_path):
    electra.export(pretrain(config("objective.name=electric", "train.steps=1")), tmp_path / "hf")
    model = electra.load(tmp_path / "hf")
    assert isinstance(model.network, EnergyModel)
    with pytest.raises(CheckpointError, match="Electric's outputs energies"):
        model.detect("the chef ate the soup .")
    second = pretrain(config(f"init={tmp_path / 'hf'}", "train.steps=1", out="second"))
    assert any("has no discriminator head" in line.get("warning", "") for line in records(second))


def test_metrics_tell_of_both_networks(config, records):
    first, *lines = records(pretrain(config()))
    held_out = {
        f"heldout_{name}"
        for name in "loss generator_loss generator_accuracy sampled_accuracy discriminator_loss discriminator_accuracy "
        "discriminator_precision discriminator_recall discriminator_auc replaced_fraction".split()
    }
    assert first["step"] == 0
    assert held_out < first.keys()
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10]
    assert lines[-2].keys() >= {"loss", "learning_rate", "gradient_norm", "skipped", "generator_loss", "progress"}
    assert lines[-1]["tokens"] == 10 * 8 * 16
    assert lines[-1]["progress"] == 1.0


def test_every_evaluation_shows_what_became_of_the_same_text(config):
    run = pretrain(config())
    shown = read_records(run / "samples.jsonl")
    assert [record["step"] for record in shown] == [0, 5, 10]
    first, second, third = ([sample["original"] for sample in record["samples"]] for record in shown)
    assert first == second == third
    assert len(first) == 4
    for record in shown:
        for sample in record["samples"]:
            assert len(sample["original"]) == len(sample["shown"]) == len(sample["replaced"])
            assert all(0 < probability < 1 for probability in sample["replaced"])


def test_a_run_writes_down_what_it_was_made_on(config):
    run = pretrain(config("train.steps=1"))
    (place,) = json.loads((run / "environment.json").read_text())
    assert place["device"] == "CPU, 1 thread"
    assert (place["processes"], place["electra"], place["torch"]) == (1, electra.__version__, torch.__version__)


def test_a_run_that_goes_on_elsewhere_keeps_both_places(config):
    run = pretrain(config("train.steps=1"))
    elsewhere = json.loads((run / "environment.json").read_text().replace("CPU", "GPU"))
    (run / "environment.json").write_text(json.dumps(elsewhere))
    for _ in range(2):
        pretrain(config("train.steps=2"))
    places = json.loads((run / "environment.json").read_text())
    assert [place["device"][:3] for place in places] == ["GPU", "CPU"]


def test_the_loss_falls(config, held_out):
    rare = ["evaluate.every=100", "checkpoint.every=100", "log.every=100"]
    before, after = held_out(pretrain(config("train.steps=60", "train.learning_rate=5e-3", *rare)))
    assert after["heldout_generator_loss"] < before["heldout_generator_loss"] - 1
    assert after["heldout_loss"] < 0.9 * before["heldout_loss"]


def test_the_generators_rate_is_for_what_it_does_not_share(config):
    start, end = (
        electra.load(pretrain(config(*rates, out=name)))
        for name, rates in (
            ("start", ["train.learning_rate=1e-12"]),
            ("end", ["train.learning_rate=1e-2", "objective.generator.rate=1e-10"]),
        )
    )
    before, after = start.generator.state_dict(), end.generator.state_dict()
    moved = {name for name in before if not torch.allclose(before[name], after[name], atol=1e-6)}
    assert moved == {name for name in before if name.startswith("encoder.embeddings.")}


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(config, records, weights):
    ours, theirs = (pretrain(config("model.dropout=0.1", out=name)) for name in ("a", "b"))
    assert records(ours) == records(theirs)
    assert weights(ours) == weights(theirs)
    assert weights(pretrain(config("model.dropout=0.1", "seed=1", out="c"))) != weights(ours)


def test_the_best_checkpoint_is_that_of_the_lowest_held_out_loss(config, records):
    run = pretrain(config("train.steps=20", "train.learning_rate=0.2", "evaluate.every=1", "train.warmup_steps=0"))
    losses = {line["step"]: line["heldout_loss"] for line in records(run) if line["step"] and "heldout_loss" in line}
    best = (run / "checkpoints" / "best").read_text()
    assert best == f"step-{min(losses, key=losses.get):08d}"
    assert (run / "checkpoints" / best).is_dir()
    assert len(list((run / "checkpoints").glob("step-*"))) <= 3


def test_what_is_held_out_does_not_change_with_the_sequences_at_a_time(config, held_out):
    whole, parts = (
        held_out(pretrain(config(f"train.micro_batch_size={size}", "train.steps=1", out=f"by-{size}")))[0]
        for size in (8, 2)
    )
    figures = [name for name in whole if name.startswith("heldout_") and name != "heldout_loss"]
    assert len(figures) > 8
    for name in figures:
        assert parts[name] == pytest.approx(whole[name], rel=1e-5), name
    assert parts["heldout_loss"] == pytest.approx(whole["heldout_loss"], rel=2e-3)  # masks are not quite as tokens


def test_what_would_be_refused_is_refused_before(config, tmp_path):
    check(config())
    (tmp_path / "run").touch()
    with pytest.raises(CheckpointError, match="run is a file; choose another out"):
        check(config())
    with pytest.raises(DataError, match="nowhere"):
        check(config("data=nowhere", out="free"))


def test_a_run_that_is_refused_leaves_nothing_behind(config, tmp_path):
    with pytest.raises(ConfigError):
        pretrain(config("train.length=8"))
    assert not (tmp_path / "run").exists()


def test_another_config_in_the_same_folder_is_refused(config):
    pretrain(config())
    with pytest.raises(ConfigError, match=r"with objective\.mask_fraction=0\.15; use the same settings"):
        pretrain(config("objective.mask_fraction=0.3"))


def test_a_folder_in_which_a_run_trains_is_refused(config, records):
    def meddle(record):
        if record["step"] == 3:
            with pytest.raises(CheckpointError, match="another process is training"):
                pretrain(config())

    assert records(pretrain(config(), [meddle]))[-1]["step"] == 10


def test_a_run_needs_a_corpus_and_a_folder():
    with pytest.raises(ConfigError, match="pretrain needs data=CORPUS and out=RUN"):
        pretrain(load_config("tiny"))


def test_a_budget_in_tokens_is_spent(config, records):
    lines = records(pretrain(config(f"train.tokens={6 * 8 * 16 + 1}")))
    assert (lines[-1]["step"], lines[-1]["tokens"]) == (6, 6 * 8 * 16)


def test_a_budget_in_hours_ends_inside_its_time(config, records, held_out, monkeypatch):
    ticks = count(step=0.01)  # a clock that goes on with each look at it, however busy the machine is
    monkeypatch.setattr("electra.training.loop.time", SimpleNamespace(monotonic=lambda: next(ticks)))
    seconds = 4.0
    overrides = [f"train.hours={seconds / 3600}", "log.every=10", "evaluate.every=10_000", "checkpoint.every=10_000"]
    run = pretrain(config(*overrides))
    newest = max((run / "checkpoints").glob("step-*")) / "state.json"
    assert read_sealed(newest)["seconds"] < 1.05 * seconds
    assert held_out(run)[-1]["progress"] == 1.0
    rates = [line["learning_rate"] for line in records(run) if "learning_rate" in line]
    assert rates[-1] < 0.05 * max(rates)


def test_hours_that_are_over_before_the_first_update_are_no_success_and_more_of_them_train(config, records):
    with pytest.raises(ElectraError, match="the time is over before the first update") as error:
        pretrain(config("train.hours=1e-6"))
    path = str(error.value).partition("electra pretrain ")[2].split()[0]
    assert not (Path(path).parent / "model").exists()
    run = pretrain(load_config(path, [f"train.hours={4.0 / 3600}"]))
    assert records(run)[-1]["step"] > 0


def test_advice_in_the_first_of_two_stages_is_about_the_whole_run(config):
    with pytest.raises(ElectraError, match="the time is over before the first update") as error:
        pretrain(config(*TWO_STAGE, "train.hours=1e-6"))
    assert f"electra pretrain {config().out}/config.toml train.hours=H" in str(error.value)
    broken = ["train.learning_rate=1e30", "objective.generator.rate=4.0", "train.warmup_steps=0", "train.steps=30"]
    with pytest.raises(ElectraError, match="not finite for 20 steps in a row") as error:
        pretrain(config(*TWO_STAGE, *broken, "evaluate.every=1000", out="other"))
    *_, path, override = str(error.value).split()
    assert (Path(path).parent.name, override) == ("other", "train.learning_rate=5e+29")


def test_sequences_that_are_cut_at_first_count_in_full(config, records):
    growing = ["train.start_length=8", "train.length_warmup_steps=3", "objective.whole_words=true"]
    tokens = [line["tokens"] for line in records(pretrain(config(*growing))) if "loss" in line]
    assert tokens == [number * 8 * 16 for number in range(1, 11)]


NO_ROOM = torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2.00 GiB")
NO_MEMORY = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 2147483648 bytes.")


@pytest.mark.parametrize(("problem", "size", "smaller"), [(NO_ROOM, 8, 4), (NO_MEMORY, 9, 3)])
def test_what_does_not_fit_in_memory_is_one_line_and_its_advice_works(config, records, problem, size, smaller):
    def no_room(record):
        if record["step"] == 7:
            raise problem

    with pytest.raises(ElectraError, match=rf"^micro-batches of {size} x 16 tokens do not fit in memory; ") as error:
        pretrain(config(f"train.batch_size={size}"), [no_room])
    *_, command, path, override = str(error.value).split()
    assert (command, override) == ("pretrain", f"train.micro_batch_size={smaller}")
    assert records(pretrain(load_config(path, [override])))[-1]["tokens"] == 10 * size * 16


def test_a_batch_of_one_sequence_that_does_not_fit_cannot_be_made_smaller(config):
    def no_room(record):
        raise NO_ROOM

    with pytest.raises(ElectraError, match=r"1 x 16 tokens do not fit in memory; choose a smaller model, with another"):
        pretrain(config("train.micro_batch_size=1"), [no_room])


def test_the_advice_for_a_run_that_comes_apart_works(config, records):
    rare = ["evaluate.every=1000", "checkpoint.every=1000"]
    with pytest.raises(ElectraError, match=r"not finite for 20 steps in a row") as error:
        pretrain(config("train.learning_rate=1e30", "train.warmup_steps=0", "train.steps=30", *rare))
    *_, path, override = str(error.value).split()
    assert override == "train.learning_rate=5e+29"
    run = pretrain(load_config(path, ["train.learning_rate=1e-4", "train.warmup_steps=5"]))
    *_, latest = (line for line in records(run) if "skipped" in line)
    assert (latest["step"], latest["skipped"]) == (30, 0)


def test_weights_that_the_last_update_ruins_are_not_saved(config):
    keys = config("train.learning_rate=1e30", "train.warmup_steps=0", "train.steps=1")
    with pytest.raises(Diverged, match=r"not finite at the end, step 1: .* resume from the last good checkpoint"):
        pretrain(keys)
    run = Path(keys.out)
    assert not (run / "model").exists()
    assert [path.name for path in (run / "checkpoints").glob("step-*")] == ["step-00000000"]
    pretrain(load_config(run, ["train.learning_rate=1e-4"]))


def test_a_run_that_learns_nothing_is_warned_once_also_if_it_resumes(config, records):
    for steps in (20, 30):
        run = pretrain(config("train.learning_rate=1e-9", "objective.generator.kind=uniform", f"train.steps={steps}"))
    (warning,) = [line for line in records(run) if "warning" in line]
    assert warning["step"] == 10
    assert warning["warning"].startswith("the run is behind: learned nothing: AUC 0.")


def test_text_that_is_read_too_often_is_reported_once(config, records):
    long = config("train.steps=2000")

    class Enough(Exception):
        pass

    def stop(record):
        if "loss" in record:
            raise Enough

    for _ in range(2):
        with pytest.raises(Enough):
            pretrain(long, [stop])
    (warning,) = [line["warning"] for line in records(Path(long.out)) if "warning" in line]
    assert warning.startswith("the text runs dry")


def test_text_that_is_read_too_often_in_some_hours_is_reported_once(config, corpus, records, monkeypatch):
    monkeypatch.setattr(pretraining, "MOST_EPOCHS", 2)
    sequences = sum(len(shard) for shard in open_corpus(corpus).shards("train"))
    crossed = 2 * sequences // 64 + 1
    stops = [crossed + 1, crossed + 3]
    for _ in range(2):
        with pytest.raises(ElectraError, match="stopped at step"):
            pretrain(
                config("train.hours=1.0", "train.batch_size=64"),
                [lambda record: record["step"] in stops and signal.raise_signal(signal.SIGTERM)],
            )
    lines = records(Path(config().out))
    (warning,) = [line for line in lines if "runs dry" in line.get("warning", "")]
    assert (warning["step"], lines[-1]["step"]) == (crossed, crossed + 3)


def test_a_micro_batch_counts_by_its_tokens_that_are_no_padding(config, monkeypatch):
    trained = []
    monkeypatch.setattr(pretraining, "train", lambda training, *others: trained.append(training) or State())
    pretrain(config())
    attention = torch.tensor([[1, 1, 2, 2], [1, 1, 0, 0]])
    assert trained[0].module.share(Batch(torch.ones_like(attention), attention, None), None).item() == 0.75


def test_a_run_goes_on_by_another_execution(config, records):
    pretrain(config("train.execution=plain"))
    assert records(pretrain(config("train.steps=12")))[-1]["step"] == 12


def test_another_objective_is_refused_by_its_name(config):
    pretrain(config())
    with pytest.raises(ConfigError, match=r"was started with objective\.name=electra"):
        pretrain(config("objective.name=mlm"))


def test_two_stages_end_with_a_discriminator_of_the_first_stages_generator(config, records, held_out):
    run = pretrain(config(*TWO_STAGE))
    first, second = electra.load(run / "first_stage"), electra.load(run)
    assert isinstance(first.network, MaskedLM)
    for ours, theirs in zip(first.network.parameters(), second.generator.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert len(second.detect("the cat sat on the mat .")) == 7
    assert records(run)[-1]["step"] == records(run / "first_stage")[-1]["step"] == 10
    before, *_, after = (record["heldout_generator_loss"] for record in held_out(run))
    assert before == pytest.approx(after, rel=1e-6)


def test_more_steps_for_the_second_of_two_stages_leave_its_generator_alone(config, records):
    run = pretrain(config(*TWO_STAGE))
    before = [weight.clone() for weight in electra.load(run).generator.parameters()]
    pretrain(config(*TWO_STAGE, "train.steps=12"))
    assert records(run)[-1]["step"] == 12
    assert records(run / "first_stage")[-1]["step"] == 10
    rmtree(run / "first_stage")  # what it taught is in the checkpoints
    assert records(pretrain(config(*TWO_STAGE, "train.steps=13")))[-1]["step"] == 13
    for ours, theirs in zip(before, electra.load(run).generator.parameters(), strict=True):
        assert torch.equal(ours, theirs)
