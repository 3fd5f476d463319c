"""`electra train` as a user sees it."""

import json
import re

import pytest

from electra.cli.outcome import show_outcome
from electra.config.load import dump_config, load_config


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "meals.txt"
    path.write_text("\n\n".join(f"The chef ate meal number {n} and then it was good." for n in range(400)))
    return path


def test_a_dry_run_prints_the_plan_and_writes_nothing(electra, text, tmp_path):
    result = electra("train", str(text), "--hours", "1", "--out", str(tmp_path / "run"), "--dry-run")
    assert result.returncode == 0, result.stderr
    assert result.stderr == "measuring the text and how fast this machine trains on it\n"
    assert [line.split()[0] for line in result.stdout.splitlines()[:4]] == ["text", "machine", "model", "training"]
    assert "FLOPs" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("vocabulary  wordpiece, uncased, accents stripped (judging by")
    assert not (tmp_path / "run").exists()


def test_train_takes_settings_and_states_what_was_learned(electra, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = [part for key in ("train.steps=2", "model.layers=1") for part in ("--set", key)]
    result = electra("train", str(text), "--hours", "0.1", "--out", "run", "--quiet", *settings)
    assert result.returncode == 0, result.stderr
    assert all(line.startswith("warning: ") for line in result.stderr.splitlines())
    *_, tokenizer, corpus, verdict, done, then = result.stdout.splitlines()
    names = [line.split(":")[0] for line in (tokenizer, corpus, verdict, done)]
    assert names == ["run/tokenizer", "run/corpus", "run", "run"]
    learned = r"run: (Learned nothing|Too short to have learned much|Learned little): AUC 0\."  # which one is chance
    assert re.match(learned, verdict)
    assert then == "Next: electra report run --out report.html"  # two updates make no model to detect with
    assert json.loads((tmp_path / "run/plan.json").read_text())["overrides"] == ["train.steps=2", "model.layers=1"]


def test_part_of_a_single_document_is_held_out_and_the_same_command_resumes(electra, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(f"The chef ate meal number {n}. " * 40 for n in range(20)))
    settings = [part for key in ("train.steps=1", "model.layers=1") for part in ("--set", key)]
    command = ["train", tmp_path / "text.txt", "--hours", "0.1", "--quiet", *settings]
    for _ in range(2):
        result = electra(*command, "--out", tmp_path / "run")
        assert result.returncode == 0, result.stderr
        assert "held out" not in result.stderr
    assert "heldout_loss" in (tmp_path / "run/metrics.jsonl").read_text()


@pytest.mark.parametrize(
    ("objective", "metric", "command"),
    [
        ("electra", "discriminator_auc", 'electra detect RUN "a sentence with a wrong word in it"'),
        ("mlm", "mlm_hidden_accuracy", "electra finetune table data=TABLE.csv model=RUN out=runs/tuned"),
    ],
)
def test_a_model_that_has_learned_something_is_put_to_use(tmp_path, capsys, objective, metric, command):
    config = load_config("tiny", [f"objective.name={objective}"])
    (tmp_path / "config.toml").write_text(dump_config(config))
    for value, suggested in ((0.75, command), (0.05, "electra report RUN --out report.html")):
        record = {"step": 9, "tokens": 10**7, "heldout_loss": 1.0, f"heldout_{metric}": value}
        (tmp_path / "metrics.jsonl").write_text(json.dumps(record))
        show_outcome(tmp_path)
        learned, _, then = capsys.readouterr().out.splitlines()
        assert ("Learned nothing" in learned) == (value == 0.05)
        assert then == f"Next: {suggested.replace('RUN', str(tmp_path))}"


def test_invalid_bytes_are_skipped_on_request(electra, text, tmp_path):
    (tmp_path / "text.txt").write_bytes(text.read_bytes() + b" \xff.")
    settings = [part for key in ("train.steps=1", "model.layers=1") for part in ("--set", key)]
    command = ["train", tmp_path / "text.txt", "--hours", "0.1", "--quiet", *settings, "--out", tmp_path / "run"]
    assert "electra train, vocab and corpus accept --invalid replace" in electra(*command).stderr
    assert "1 places of the text were not valid UTF-8" in electra(*command, "--invalid", "skip").stdout


def test_a_dry_run_refuses_what_the_command_refuses(electra, text, tmp_path):
    (tmp_path / "table.csv").touch()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun/config.toml").touch()
    for arguments, message in (
        (["--out", tmp_path / "table.csv"], "is a file; choose another out"),
        (["--out", tmp_path / "begun"], "holds a run that train did not start"),
        (["--out", tmp_path / "run", "--heldout", "2"], "must be at least 0 and less than 1; found 2.0"),
    ):
        result = electra("train", text, "--hours", "1", "--dry-run", *arguments)
        assert (result.returncode, message in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "./nowhere", "--hours", "1", "--out", "x"], "no file or folder ./nowhere"),
        (["train", "-", "--hours", "1", "--out", "x"], "read more than once"),
        (["train", "./nowhere", "--hours", "0", "--out", "x"], "hours has to be a number above 0"),
        (["train", "./nowhere", "--hours", "nan", "--out", "x"], "found nan"),
        (["train", "./nowhere", "--out", "x"], "Missing option '--hours'"),
    ],
)
def test_wrong_input_is_a_one_line_error_with_exit_code_2(electra, arguments, message):
    result = electra(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
