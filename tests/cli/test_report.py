"""`electra report` as a user meets it."""

import json
import subprocess
import sys


def electra(*arguments, folder):
    command = [sys.executable, "-m", "electra", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def write_run(folder):
    folder.mkdir()
    record = {"step": 5, "tokens": 10, "seconds": 1.0, "progress": 1.0, "learning_rate": 1e-4, "generator_loss": 3.0}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")


def test_a_page_is_written_and_named(tmp_path):
    write_run(tmp_path / "run")
    result = electra("report", "run", folder=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("report.html: ")
    assert "<!doctype html>" in (tmp_path / "report.html").read_text()


def test_json_is_printed_and_no_page_written(tmp_path):
    write_run(tmp_path / "run")
    result = electra("report", "run", "--json", folder=tmp_path)
    assert json.loads(result.stdout)["runs"][0]["latest"]["training"]["generator_loss"] == 3.0
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_no_such_run_is_one_line(tmp_path):
    result = electra("report", "runs/nothing", folder=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "electra: no run at runs/nothing\n"
