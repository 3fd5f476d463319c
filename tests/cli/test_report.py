"""`electra report` as a user sees it."""

import json

import pytest


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_run(folder):
    folder.mkdir()
    record = {"step": 5, "tokens": 10, "seconds": 1.0, "progress": 1.0, "learning_rate": 1e-4, "generator_loss": 3.0}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")


def test_a_page_is_written_and_named(electra, tmp_path):
    write_run(tmp_path / "run")
    result = electra("report", "run")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("report.html: ")
    assert "<!doctype html>" in (tmp_path / "report.html").read_text()


def test_a_warning_shared_by_two_runs_counts_once(electra, tmp_path):
    for name in ("one", "two"):
        write_run(tmp_path / name)
        with (tmp_path / name / "metrics.jsonl").open("a") as stream:
            stream.write(json.dumps({"step": 5, "warning": "the generator is too strong: 97% of its samples"}) + "\n")
    assert electra("report", "one", "two").stdout == "report.html: 2 runs, 1 kind of warnings\n"


def test_only_a_report_is_overwritten(electra, tmp_path):
    write_run(tmp_path / "run")
    assert electra("report", "run").returncode == electra("report", "run").returncode == 0
    for name, content in (("config.toml", "seed = 0\n"), ("report.html", "<!doctype html>\n<p>of another program\n")):
        (tmp_path / name).write_text(content)
        result = electra("report", "run", "--out", name)
        assert result.returncode == 2
        assert result.stderr == f"electra: {name} exists and is not a report of electra; choose another --out\n"
        assert (tmp_path / name).read_text() == content


def test_json_is_printed_and_no_page_is_written(electra, tmp_path):
    write_run(tmp_path / "run")
    result = electra("report", "run", "--json")
    assert json.loads(result.stdout)["runs"][0]["latest"]["training"]["generator_loss"] == 3.0
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_missing_run_is_a_one_line_error(electra, tmp_path):
    result = electra("report", "runs/nothing")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "electra: no run at runs/nothing; give a run or a folder of runs\n"
