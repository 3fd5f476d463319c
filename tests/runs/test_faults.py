"""The fault campaign: a slice of it passes, and it finds what is planted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults.commands import COMMANDS
from faults.faults import FAULTS
from faults.process import TIMED_OUT, Outcome
from faults.verdicts import Finding, check_equal, check_outcome, published

ROOT = Path(__file__).parents[2]
SETTINGS = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "runs")]), "OMP_NUM_THREADS": "1"}
REFUSAL = "electra: corpus is damaged; build it again\n"


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, since it forks."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=SETTINGS, capture_output=True, text=True, timeout=600)


def test_a_hundred_cases_have_each_command_and_fault_and_no_findings(tmp_path):
    """If this fails: python runs/faults.py --case SEED --out DIR."""
    campaign = python(ROOT / "runs/faults.py", "--cases", 100, "--workers", 2, "--out", tmp_path)
    assert campaign.returncode == 0, campaign.stdout + campaign.stderr
    assert len((tmp_path / "cases.jsonl").read_text().splitlines()) == 100
    for kind, names in {"fault": FAULTS, "command": COMMANDS}.items():
        header, *rows = (tmp_path / f"{kind}s.csv").read_text().splitlines()
        assert header == f"{kind},cases,unharmed,identical,refused,finding"
        assert len(rows) == len(names) + 1  # each of them, and the sum


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Run a campaign against commands with planted defects, twice."""
    run = python(Path(__file__).with_name("planted.py"), tmp_path_factory.mktemp("plants"))
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("command", ["torn", "trusting", "crashing"])
def test_a_planted_defect_is_found(planted, command):
    assert "finding" in planted["verdicts"][command]


def test_a_command_without_defects_has_no_findings(planted):
    assert {"identical", "refused"} <= {*planted["verdicts"]["honest"]} <= {"identical", "refused", "unharmed"}


def test_a_campaign_resumes_and_a_seed_repeats_its_case(planted):
    assert planted["new"] == [60, 0]
    assert planted["again"][0] == planted["again"][1]


@pytest.mark.parametrize(
    ("outcome", "finding"),
    [
        (Outcome(1, "", "Traceback (most recent call last):\nKeyError: 3\n", 0), "traceback: KeyError"),
        (Outcome(1, "", "electra: KeyError: 3 (this is a bug; ...)\n", 0), "a bug: "),
        (Outcome(2, "", "", 0), "0 messages"),
        (Outcome(2, "", "electra: \n", 0), "1 messages"),
        (Outcome(2, "", 2 * REFUSAL, 0), "2 messages"),
        (Outcome(-6, "", "", 0), "exit code -6"),
        (Outcome(TIMED_OUT, "", "", 60), "hangs"),
        (Outcome(0, '{"loss": NaN}', "", 0), "invalid JSON"),
        (Outcome(0, "", "", 0), "invalid JSON"),
    ],
)
def test_what_no_fault_excuses_is_a_finding(outcome, finding):
    with pytest.raises(Finding, match=finding):
        check_outcome(outcome, ["detect", "--json"])


def test_one_line_is_a_refusal_and_warnings_may_precede_it():
    check_outcome(Outcome(2, "", f"warning: nothing was learned\n{REFUSAL}", 0), ["pretrain"])


def test_files_are_compared_without_timings_and_hidden_files(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.lock").touch()
    (tmp_path / "run/metrics.jsonl").write_text('{"step": 1, "seconds": 0.5, "loss": 2.0}\n')
    found = published(tmp_path, ["run"], "")
    assert found == {"run/metrics.jsonl": b'{"step": 1, "loss": 2.0}'}
    with pytest.raises(Finding, match=r"silently: run/metrics\.jsonl differs"):
        check_equal(found, {"run/metrics.jsonl": b'{"step": 1, "loss": 3.0}'}, "silently")
    check_equal(found, {}, "silently", but="run/metrics.jsonl")


def test_of_several_checkpoints_only_the_newest_is_compared(tmp_path):
    for name in ("step-00000004", "step-00000005"):
        (tmp_path / "run/checkpoints" / name).mkdir(parents=True)
        (tmp_path / "run/checkpoints" / name / "weights.safetensors").write_bytes(name.encode())
    name = "run/checkpoints/step-00000005/weights.safetensors"
    assert published(tmp_path, ["run"], "") == {name: b"step-00000005"}


def test_timings_inside_a_sealed_file_are_not_compared(tmp_path):
    (tmp_path / "state.json").write_text('{"sha256": "0f", "content": {"step": 1, "seconds": 0.5}}')
    assert published(tmp_path, ["state.json"], "") == {"state.json": b'{"step": 1}'}


def test_a_published_file_has_to_be_json(tmp_path):
    (tmp_path / "results.json").write_text('{"loss": Infinity}')
    with pytest.raises(Finding, match="Infinity is not JSON"):
        published(tmp_path, ["results.json"], "")
    assert published(tmp_path, ["results.json"], "", but="results.json") == {}
