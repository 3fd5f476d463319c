import json
import os

import pytest

from electra.config.load import load_config, load_finetune_config
from electra.errors import CheckpointError, ConfigError
from electra.training.run import PREPARED, Run, check_place, read_records


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path / "run")


def begin(run, *overrides):
    with run.open(load_config("tiny", list(overrides)), load_config):
        pass


def lines(run):
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def test_the_config_that_is_written_reproduces_the_run(run):
    begin(run, "seed=5")
    assert load_config(str(run.folder / "config.toml")) == load_config("tiny", ["seed=5"])


@pytest.mark.parametrize(
    "saved", ["checkpoints/step-00000001", "first_stage/checkpoints/step-00000001", "seeds/0/result.json", "model"]
)
def test_a_run_of_another_config_is_refused_by_the_keys_that_differ(run, saved):
    begin(run)
    (run.folder / saved).mkdir(parents=True)
    before = (run.folder / "config.toml").read_bytes()
    with pytest.raises(ConfigError, match=r"started with seed=0, train\.weight_decay=0\.01; use the same") as error:
        begin(run, "seed=5", "train.weight_decay=1.0")
    assert "\n" not in str(error.value)
    assert (run.folder / "config.toml").read_bytes() == before


def test_inputs_with_the_same_fingerprint_may_move(run):
    begin(run, "data=here")
    run.check_inputs({"corpus": "1"})
    (run.folder / "model").mkdir()
    begin(run, "data=there")
    run.check_inputs({"corpus": "1"})
    with pytest.raises(CheckpointError, match="run: corpus changed since the run was started; choose another out"):
        run.check_inputs({"corpus": "2"})
    run.inputs.unlink()  # as in runs of older versions
    with pytest.raises(ConfigError, match=r"was started with data=here; use the same settings or choose another out"):
        begin(run, "data=there")


def test_damaged_fingerprints_matter_only_once_there_is_something_to_lose(run):
    begin(run, "data=here")
    run.inputs.write_text("{")
    run.check_inputs({"corpus": "1"})
    run.check_inputs({"corpus": "1"})
    (run.folder / "model").mkdir()
    run.inputs.write_text("{")
    with pytest.raises(CheckpointError, match=r"inputs\.json is not the fingerprints of a run's inputs"):
        run.check_inputs({"corpus": "1"})


@pytest.mark.parametrize(("ours", "theirs"), [("pretrain", "finetune"), ("finetune", "pretrain")])
def test_a_run_of_another_command_is_refused(run, ours, theirs):
    loaders = {"pretrain": (load_config, "tiny"), "finetune": (load_finetune_config, "glue")}
    (load, preset), (other_load, other_preset) = loaders[ours], loaders[theirs]
    with run.open(other_load(other_preset), other_load):
        (run.folder / "model").mkdir()
    with (
        pytest.raises(ConfigError, match=rf"holds no run of electra {ours}, or one from another version of electra; c"),
        run.open(load(preset), load),
    ):
        pass


def test_a_config_of_another_program_is_not_overwritten(run):
    run.folder.mkdir()
    run.config.write_text('title = "my site"')
    with pytest.raises(ConfigError, match=r"holds no run of electra pretrain"):
        begin(run)
    assert run.config.read_text() == 'title = "my site"'


@pytest.mark.parametrize("left", ["checkpoints/step-00000000", "checkpoints/.step-00000001.partial", "seeds/0/model"])
def test_a_run_without_a_saved_update_may_restart_with_any_config(run, left):
    begin(run)
    (run.folder / left).mkdir(parents=True)
    begin(run, "seed=5", "train.weight_decay=1.0")
    assert load_config(run.folder).seed == 5


def test_budget_and_intervals_may_change_and_are_written_when_the_run_resumes(run):
    begin(run)
    longer = ["train.steps=9", "checkpoint.keep=1", "log.every=1", "evaluate.every=3"]
    (run.folder / "model").mkdir()
    begin(run, *longer)
    assert load_config(run.folder) == load_config("tiny")
    run.write_config(load_config("tiny", longer))
    assert load_config(run.folder) == load_config("tiny", longer)


def test_a_folder_is_for_one_process_at_a_time(run):
    for _ in range(2):
        with (
            run.open(load_config("tiny"), load_config),
            pytest.raises(CheckpointError, match=r"^another process is training .*run; wait for it, or choose another"),
        ):
            begin(Run(run.folder), "seed=5")


def test_a_folder_that_is_not_a_run_is_refused(run):
    run.folder.mkdir()
    (run.folder / "thesis.txt").write_text("important")
    with pytest.raises(CheckpointError, match=r"exists and is not a run: it holds thesis\.txt; choose another out"):
        begin(run)


def test_metrics_of_repeated_steps_are_dropped(run):
    begin(run)
    for step in (0, 5, 10, 15):
        run.report({"step": step})
    run.rewind(10)
    assert [record["step"] for record in lines(run)] == [0, 5, 10]


def test_samples_of_repeated_steps_are_dropped(run):
    begin(run)
    for step in (0, 5, 10):
        run.show({"step": step, "samples": [{"original": ["the", "cat"]}]})
    run.rewind(5)
    assert [record["step"] for record in read_records(run.samples)] == [0, 5]
    run.samples.write_text('{"step": null}\n[1]\n{"step": 3}\n')
    assert read_records(run.samples) == [{"step": 3}]


def test_paces_of_repeated_steps_are_dropped(run):
    begin(run)
    for step in (1, 2, 4):
        run.note_paces({"step": step, "seconds": [0.1, 0.2]})
    with run.ranks.open("a") as file:
        file.write('{"step": 1, "sec')
    run.rewind(2)
    kept = [{"step": step, "seconds": [0.1, 0.2]} for step in (1, 2)]
    assert [json.loads(line) for line in run.ranks.read_text().splitlines()] == kept


def test_a_line_that_a_kill_cut_short_is_dropped(run):
    begin(run)
    run.report({"step": 1})
    with run.metrics.open("a") as file:
        file.write('{"step": 1, "lo')
    run.rewind(5)
    run.report({"step": 6})
    assert [record["step"] for record in lines(run)] == [1, 6]


@pytest.mark.parametrize(
    "damaged",
    [
        '{"step": 2, "warning": 5}',
        '{"step": 2, "seconds": null}',
        '{"step": 2, "tokens": "many"}',
        '{"step": 2, "loss": [1.0]}',
        "[" * 100_000 + "]" * 100_000,
    ],
)
def test_a_line_with_values_of_another_type_is_dropped(run, damaged):
    begin(run)
    run.report({"step": 1, "loss": float("nan"), "seconds": 2.5})
    with run.metrics.open("a") as file:
        file.write(f"{damaged}\n")
    run.report({"step": 3, "warning": "late"})
    assert [record["step"] for record in read_records(run.metrics)] == [1, 3]


def test_listeners_receive_every_record(run):
    received = []
    run.listeners.append(received.append)
    begin(run)
    run.report({"step": 3, "loss": 1.5})
    assert received == [{"step": 3, "loss": 1.5}]


def test_numbers_that_are_not_finite_become_null(run):
    begin(run)
    run.report({"step": 3, "loss": float("nan"), "gradient_norm": float("inf"), "all": [{"x": float("nan")}, 1.0]})
    assert lines(run) == [{"step": 3, "loss": None, "gradient_norm": None, "all": [{"x": None}, 1.0]}]


def test_a_new_or_empty_folder_may_become_a_run(tmp_path):
    check_place(tmp_path)
    check_place(tmp_path / "new")


def test_files_of_earlier_stages_are_accepted(tmp_path):
    for name in [*PREPARED, ".tokenizer.partial"]:
        (tmp_path / name).mkdir()
    check_place(tmp_path)


def test_a_folder_with_anything_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(CheckpointError, match=r"holds thesis\.tex"):
        check_place(tmp_path)


def test_a_log_that_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl is not a file; remove it"):
        Run(tmp_path).rewind(5)
