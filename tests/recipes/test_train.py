"""From text to a model in one call: the plan, its rules, and resuming."""

import json
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from electra.config.load import load_config
from electra.data.reading.sources import Source
from electra.data.tokens.tokenizer import load_tokenizer
from electra.errors import CheckpointError, ConfigError, DataError, ElectraError
from electra.model.pretrained import load
from electra.recipes import plan as planning
from electra.recipes.flops import flops
from electra.recipes.plan import describe, make_plan
from electra.recipes.pretrain import pretrain
from electra.recipes.train import PLAN, train

SMALL = ["model.layers=1", "model.hidden_size=32", "model.embedding_size=16", "model.heads=1"]
SET = [*SMALL, "train.steps=3", "model.vocab_size=100"]
HOURS = 0.1


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "meals.txt"
    cooks, dishes = "chef cook girl man".split(), "soup meal bread cake fish".split()
    lines = [
        f"The {cook} ate the {dish} number {n} and then it was good."
        for n in range(60)
        for cook in cooks
        for dish in dishes
    ]
    path.write_text("\n\n".join(lines))
    return path


@pytest.fixture(scope="module")
def trained(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "meals"
    said = []
    train(text, hours=HOURS, out=folder, overrides=SET, say=said.append)
    return folder, said


@pytest.fixture(scope="module")
def plan(text):
    return make_plan([text], hours=1000, overrides=SMALL)


def test_the_plan_reads_the_text_at_most_forty_times(plan):
    assert plan.epochs == pytest.approx(planning.MOST_EPOCHS, rel=0.05)
    assert plan.train_hours < 1
    assert "less than 1000 hours" in describe(plan)[-1]


def test_the_batch_is_not_halved_below_the_micro_batches_that_the_user_sets(text):
    plan = make_plan([text], hours=0.01, overrides=[*SMALL, "train.micro_batch_size=16"])
    assert plan.config().train.batch_size == 16


def test_a_budget_beyond_the_hours_is_reported(text):
    said = describe(make_plan([text], hours=1e-6, overrides=[*SMALL, "train.steps=100_000"]))
    assert any("more than 0 seconds: train.steps or train.tokens takes precedence" in line for line in said)
    assert any("over 40 epochs: add text or reduce the number of steps" in line for line in said)


def test_few_epochs_are_not_given_as_the_reason_for_a_shorter_training(plan):
    assert not any("would hardly help" in line for line in describe(replace(plan, epochs=0.2)))


def test_the_plan_starts_with_short_sequences(plan):
    train = plan.config().train
    assert (train.start_length, train.length_warmup_steps) == (16, min(1000, plan.steps // 10))


def test_a_size_that_needs_more_text_is_not_timed(plan):
    assert plan.tokens_per_second.keys() == {"tiny"}
    assert plan.tokens_per_second["tiny"] > 0


def test_with_enough_tokens_the_next_size_is_timed_and_chosen(text, monkeypatch):
    for rule in ("TOKENS_PER_PARAMETER", "TEXT_PER_PARAMETER"):
        monkeypatch.setattr(planning, rule, 0)
    plan = make_plan([text], hours=1000, overrides=["model.layers=1", "train.length=32"])
    assert plan.preset == "quick"
    assert plan.tokens_per_second.keys() == {"nano", "tiny", "quick"}
    assert plan.config().train.start_length == 32, "as in the record"


def test_the_smallest_preset_is_left_out_if_it_lacks_a_key_that_the_user_sets(text):
    plan = make_plan([text], hours=1000, overrides=["model.layers=1", "objective.generator.width=1.0"])
    assert (plan.preset, plan.config().objective.generator.width) == ("tiny", 1.0)


def test_the_model_reads_sequences_of_any_length_that_the_user_sets(text):
    plan = make_plan([text], hours=1000, overrides=["model.layers=1", "train.length=256", "train.batch_size=2"])
    assert (plan.config().train.length, plan.config().model.max_length) == (256, 256)
    with pytest.raises(ConfigError, match=r"^train.length = \"long\""):
        make_plan([text], hours=1000, overrides=["train.length=long"])


@pytest.mark.parametrize("fit", [0, 1])
def test_a_size_that_does_not_fit_in_memory_is_skipped(text, monkeypatch, fit):
    """On a GPU whose memory holds only the first `fit` networks."""
    draw, built = torch.randint, []

    def full(*arguments, **options):
        if isinstance(arguments[2], tuple) and len(built) >= fit:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        built.append(arguments)
        return draw(*arguments, **options)

    monkeypatch.setattr(planning, "TOKENS_PER_PARAMETER", 0)
    monkeypatch.setattr(torch, "randint", full)
    overrides = ["model.layers=1", "train.length=16", "train.batch_size=2"]
    if fit:
        assert make_plan([text], hours=1000, overrides=overrides).preset == "nano"
    else:
        with pytest.raises(ElectraError, match=r"^the GPU is out of memory; free some, or use --set device=cpu$"):
            make_plan([text], hours=1000, overrides=overrides)


def test_the_plan_warms_up_for_a_share_of_the_steps(plan):
    assert plan.config().train.warmup_steps == int(planning.WARMUP_SHARE * plan.steps)


@pytest.mark.parametrize("budget", ["train.steps=500", f"train.tokens={500 * 128 * 128}"])
def test_settings_that_depend_on_the_number_of_updates_follow_the_users_budget(text, budget):
    plan = make_plan([text], hours=1000, overrides=[*SMALL, "train.batch_size=128", budget])
    train = plan.config().train
    assert (plan.steps, train.batch_size, train.warmup_steps, train.length_warmup_steps) == (500, 128, 30, 50)
    assert (plan.config().evaluate.every, plan.config().checkpoint.every, plan.config().log.every) == (25, 25, 5)
    assert plan.config().evaluate.batches == 5


def test_a_length_that_is_no_multiple_of_the_short_one_has_no_short_sequences(text):
    train = make_plan([text], hours=1000, overrides=[*SMALL, "train.length=100"]).config().train
    assert (train.length, train.start_length) == (100, 100)


@pytest.mark.parametrize("more", [[], ["objective.generator.width=1.0", "objective.generator.sharing=none"]])
def test_two_stages_are_not_planned(text, monkeypatch, more):
    monkeypatch.delattr(planning, "measure_speed")
    with pytest.raises(ConfigError, match=r"^electra train plans one stage of training"):
        make_plan([text], hours=1000, overrides=[*SMALL, 'objective.algorithm = "two_stage"', *more])


@pytest.mark.parametrize(
    ("key", "option"), [("train.hours=1.0", "--hours"), ("out=elsewhere", "--out"), ("data=corpus", "TEXT")]
)
def test_what_has_an_option_is_not_set_as_a_config_key(text, key, option):
    with pytest.raises(ConfigError, match=rf"^{key.partition('=')[0]} cannot be set here; use {option} instead$"):
        make_plan([text], hours=1000, overrides=[key])


def test_the_plan_counts_the_flops_of_its_steps(plan):
    assert plan.flops == flops(plan.config(f"train.steps={plan.steps}")).train_flops


def test_the_users_settings_override_the_plan(trained):
    config = load_config(trained[0])
    assert (config.train.steps, config.train.hours, config.model.layers) == (3, None, 1)
    assert json.loads((trained[0] / PLAN).read_text())["steps"] == 3


@pytest.mark.parametrize(("epochs", "budget"), [(1, "tokens"), (10**9, "hours")])
def test_the_budget_is_in_tokens_if_the_text_runs_out_before_the_time(tmp_path, text, monkeypatch, epochs, budget):
    started = []
    monkeypatch.setattr("electra.recipes.train.pretrain", lambda config, listeners: started.append(config.train))
    monkeypatch.setattr(planning, "MOST_EPOCHS", epochs)
    train(text, hours=HOURS, out=tmp_path / "run", overrides=[*SMALL, "model.vocab_size=100"])
    tokens = json.loads((tmp_path / "run" / PLAN).read_text())["tokens"]
    assert started[0].tokens == (tokens if budget == "tokens" else None)
    assert started[0].hours == (pytest.approx(HOURS, rel=0.5) if budget == "hours" else None)


def test_the_vocabulary_has_the_size_that_the_user_sets(trained):
    assert load_tokenizer(trained[0] / "tokenizer").vocab_size == 100
    assert load_config(trained[0]).model.vocab_size == 100


def test_a_budget_of_the_user_replaces_the_hours_that_preparing_the_text_has_used(tmp_path, text):
    train(text, hours=1e-6, out=tmp_path / "run", overrides=[*SMALL, "train.steps=1", "model.vocab_size=100"])
    assert (tmp_path / "run/model").is_dir()


def test_a_short_text_may_yield_a_smaller_vocabulary_than_the_user_sets(tmp_path, text):
    overrides = [*SMALL, "train.steps=1", "model.vocab_size=5000"]
    train(text, hours=HOURS, out=tmp_path / "run", overrides=overrides)
    pieces = load_tokenizer(tmp_path / "run/tokenizer").vocab_size
    assert 100 < load_config(tmp_path / "run").model.vocab_size == pieces < 1000


def test_a_vocabulary_that_does_not_cover_the_text_gives_a_warning(tmp_path, monkeypatch):
    def stop(config, listeners):
        raise KeyboardInterrupt

    monkeypatch.setattr("electra.recipes.train.pretrain", stop)
    signs = [chr(0x4E00 + number) for number in range(400)]
    (tmp_path / "text.txt").write_text("\n\n".join("".join(signs[at:] + signs[:at]) for at in range(0, 400, 10)))
    said = []
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "text.txt", hours=HOURS, out=tmp_path / "run", overrides=SET, say=said.append)
    advice = "% of the text is unknown to it; enlarge it with --set model.vocab_size=200 and another --out"
    assert any(advice in line for line in said)


def test_a_vocabulary_that_cannot_be_larger_gives_no_advice_to_enlarge_it(tmp_path):
    (tmp_path / "text.txt").write_text("hi")
    said = []
    train(tmp_path / "text.txt", hours=HOURS, out=tmp_path / "run", overrides=[*SET, "train.steps=1"], say=said.append)
    assert any("of the text is unknown to it; train step by step" in line for line in said)


@pytest.fixture
def endless(monkeypatch, text):
    """A text of unknown size, such as a dataset on the Hub."""
    unknown = [Source(str(text), "text", None)]
    for module in ("electra.data.reading.text", "electra.data.corpus.build", "electra.recipes.train"):
        monkeypatch.setattr(f"{module}.find_sources", lambda names, format=None: (unknown, []))


def test_text_of_unknown_size_is_assumed_to_be_enough(endless, monkeypatch, text):
    assert make_plan([text], hours=24.0, overrides=SMALL).epochs > 39  # read completely, so its size is known
    monkeypatch.setattr(planning, "SAMPLE_BYTES", 1 << 12)
    plan = make_plan([text], hours=24.0, overrides=SMALL)
    assert not plan.text_known
    assert plan.train_hours == pytest.approx(24.0, rel=0.01)
    said = "\n".join(describe(plan))
    assert "more than" in said
    assert "epochs" not in said


def test_training_on_text_of_unknown_size_resumes(endless, monkeypatch, text, tmp_path):
    train(text, hours=HOURS, out=tmp_path / "run", overrides=SET)
    said = []
    train(text, hours=HOURS, out=tmp_path / "run", overrides=SET, say=said.append)
    assert any("/corpus: " in line for line in said)


def test_another_heldout_than_that_of_the_corpus_is_refused_even_if_the_text_has_no_size(request, text, trained):
    with pytest.raises(DataError, match="holds a corpus made with another heldout"):
        train(text, hours=HOURS, out=trained[0], overrides=SET, heldout=0.1)
    request.getfixturevalue("endless")
    with pytest.raises(DataError, match="holds a corpus made with another heldout"):
        train(text, hours=HOURS, out=trained[0], overrides=SET, heldout=0.1)


@pytest.mark.parametrize(("key", "other"), [("model.vocab_size=70", "vocabulary"), ("train.length=64", "length")])
def test_settings_that_do_not_fit_the_corpus_are_refused_before_writing(text, tmp_path, monkeypatch, key, other):
    def files():
        return {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}

    def stop(config, listeners):
        raise KeyboardInterrupt

    monkeypatch.setattr("electra.recipes.train.pretrain", stop)
    with pytest.raises(KeyboardInterrupt):
        train(text, hours=HOURS, out=tmp_path / "run", overrides=SET)
    before = files()
    with pytest.raises(DataError, match=f"holds a corpus made with another {other}; choose another --out"):
        train(text, hours=HOURS, out=tmp_path / "run", overrides=[*SET, key])
    assert files() == before


def test_an_invalid_held_out_fraction_is_refused_before_the_vocabulary_is_built(text, tmp_path):
    with pytest.raises(DataError, match="must be at least 0 and less than 1; found 5"):
        train(text, hours=HOURS, out=tmp_path / "run", overrides=SET, heldout=5)
    assert not (tmp_path / "run").exists()


def test_files_without_a_text_extension_are_reported(tmp_path, text):
    (tmp_path / "texts").mkdir()
    shutil.copy(text, tmp_path / "texts/a.txt")
    for name in ("notes.md", "program.exe"):
        (tmp_path / "texts" / name).touch()
    said = describe(make_plan([tmp_path / "texts"], hours=1000, overrides=SMALL))
    first = tmp_path / "texts/notes.md"
    assert said[1].startswith(f"skipped     2 files without a text extension, such as {first}; supported: .txt ")


def test_the_case_is_kept_on_request(tmp_path, text):
    run = train(text, hours=HOURS, out=tmp_path / "run", overrides=SET, lowercase=False, say=(said := []).append)
    assert any(line.endswith("(wordpiece, cased, accents kept)") for line in said)
    assert load(run, device="cpu").detect("The")[0].token.startswith("T")
    with pytest.raises(ConfigError, match=r"planned with different case \(cased\)"):
        train(text, hours=HOURS, out=tmp_path / "run", overrides=SET)


def test_one_call_leaves_a_model_with_its_card_and_its_plan(trained):
    folder, said = trained
    files = {PLAN, "tokenizer", "corpus", "config.toml", "model", "metrics.jsonl"}
    assert {path.name for path in folder.iterdir()} >= files
    assert "ElectraForPreTraining" in (folder / "model/README.md").read_text()
    assert len(load(folder, device="cpu").detect("the chef ate the soup")) >= 5
    assert any(line.startswith("model       tiny") for line in said)
    assert load_config(folder).model.vocab_size == load(folder, device="cpu").tokenizer.vocab_size


def test_the_same_call_again_does_not_repeat_work(trained, text):
    folder, _ = trained
    made = {path: path.stat().st_mtime_ns for path in [folder / PLAN, folder / "tokenizer", folder / "corpus"]}
    train(text, hours=HOURS, out=folder, overrides=SET)
    assert all(path.stat().st_mtime_ns == before for path, before in made.items())
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 3


def test_a_moved_run_resumes_with_another_spelling_of_its_text(trained, text, tmp_path, monkeypatch):
    shutil.copytree(trained[0], tmp_path / "moved")
    monkeypatch.chdir(text.parent)
    train(f"./{text.name}", hours=HOURS, out=tmp_path / "moved", overrides=SET)
    steps = [json.loads(line)["step"] for line in (tmp_path / "moved/metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 3


def test_settings_that_were_changed_in_between_are_kept_by_the_same_call(trained, text, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    places = [f"out={run}", f"data={run / 'corpus'}"]
    pretrain(load_config(run, [*places, "train.learning_rate=1e-5", "train.steps=5"]))
    train(text, hours=HOURS, out=run, overrides=SET)
    config = load_config(run).train
    assert (config.learning_rate, config.steps) == (1e-5, 5)


def test_a_folder_in_which_another_process_prepares_the_text_is_locked(text, tmp_path):
    def try_the_same(line):
        if "pieces" in line:  # the vocabulary exists, nothing is trained yet
            before = (tmp_path / "run" / PLAN).read_bytes()
            with pytest.raises(CheckpointError, match="another process is training"):
                train(text, hours=2 * HOURS, out=tmp_path / "run", overrides=SET)
            assert (tmp_path / "run" / PLAN).read_bytes() == before
            tried.append(line)

    tried = []
    train(text, hours=HOURS, out=tmp_path / "run", overrides=SET, say=try_the_same)
    assert tried


def test_if_the_text_is_missing_the_error_says_how_to_resume(text, tmp_path):
    copy = Path(shutil.copy(text, tmp_path))
    run = train(copy, hours=HOURS, out=tmp_path / "run", overrides=SET)
    copy.unlink()
    with pytest.raises(DataError, match=r"to continue this run: electra pretrain .*/run/config\.toml"):
        train(copy, hours=HOURS, out=run, overrides=SET)


def test_a_run_inside_its_text_folder_is_refused(tmp_path):
    (tmp_path / "some.txt").write_text("The chef ate.\n" * 50)
    with pytest.raises(ConfigError, match=r"run is inside .* and would be read as text; choose another out$"):
        train(tmp_path, hours=HOURS, out=tmp_path / "run", overrides=SET)
    assert not (tmp_path / "run").exists()


def test_another_text_is_refused(trained, text, tmp_path):
    (tmp_path / "other.txt").write_text("The chef ate.\n" * 50)
    with pytest.raises(ConfigError, match=rf"planned with different sources \({text}\)"):
        train(tmp_path / "other.txt", hours=HOURS, out=trained[0], overrides=SET)


def test_another_budget_in_the_same_folder_is_refused(trained, text):
    folder, _ = trained
    with pytest.raises(ConfigError, match="planned with different hours") as refusal:
        train(text, hours=2 * HOURS, out=folder, overrides=SET)
    assert str(refusal.value).endswith(f"; to continue this run: electra pretrain {folder}/config.toml [train.hours=H]")


def test_if_the_text_has_changed_the_error_says_how_to_resume(tmp_path, text):
    copy = Path(shutil.copy(text, tmp_path))
    run = train(copy, hours=HOURS, out=tmp_path / "run", overrides=SET)
    copy.write_text(copy.read_text() + "\n\nOne more meal.")
    with pytest.raises(DataError, match=r"; to continue this run: electra pretrain .*/run/config\.toml"):
        train(copy, hours=HOURS, out=run, overrides=SET)


def test_the_order_of_settings_does_not_matter(trained, text):
    train(text, hours=HOURS, out=trained[0], overrides=SET[::-1])


@pytest.mark.parametrize("home", [False, True])
def test_a_folder_with_other_files_is_refused(home, tmp_path, text, monkeypatch):
    (tmp_path / "letter.txt").write_text("dear")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CheckpointError, match=r"holds letter\.txt"):
        train(text, hours=HOURS, out="~" if home else tmp_path)


def test_a_truncated_plan_is_refused(tmp_path, text):
    (tmp_path / PLAN).write_text('{"sources": [')
    with pytest.raises(CheckpointError, match="is truncated or from another version"):
        train(text, hours=HOURS, out=tmp_path)


def test_training_ends_with_the_budget(tmp_path, text, trained, monkeypatch):
    ticks = count(step=0.05)  # a clock that goes on with each look at it
    monkeypatch.setattr("electra.training.loop.time", SimpleNamespace(monotonic=lambda: next(ticks)))
    for prepared in ("tokenizer", "corpus"):
        shutil.copytree(trained[0] / prepared, tmp_path / "run" / prepared)
    train(text, hours=8 / 3600, out=tmp_path / "run", overrides=[*SMALL, "model.vocab_size=100"])
    assert next(ticks) < 9
    assert load_config(tmp_path / "run").train.hours < 8 / 3600


def test_a_budget_that_is_spent_on_preparing_the_text_is_refused(tmp_path, text):
    with pytest.raises(ConfigError, match="run the same command again to train on the prepared text"):
        train(text, hours=1e-9, out=tmp_path / "run", overrides=SMALL)


def test_a_run_that_train_did_not_start_is_refused(tmp_path, text):
    (tmp_path / "config.toml").write_text("seed = 0")
    with pytest.raises(CheckpointError, match="did not start"):
        train(text, hours=HOURS, out=tmp_path)
