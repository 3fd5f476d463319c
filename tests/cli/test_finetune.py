"""The commands of fine-tuning, one after the other, as one would type them."""

import json

import pytest
from typer.testing import CliRunner

from electra.cli import app
from electra.errors import ElectraError
from electra.recipes.evaluate import evaluate

QUICK = "epochs=1.0 batch_size=8 learning_rate=2e-3 layer_decay=1.0 optimizer=adamw".split()


def command(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def run(tiny_folder, tasks_folder, tmp_path_factory):
    """A fine-tuned run, and what the command said."""
    out = tmp_path_factory.mktemp("runs") / "sst"
    keys = ["task=sst-2", f"model={tiny_folder}", f"data={tasks_folder}", f"out={out}", *QUICK]
    return out, keys, command("finetune", "glue", *keys, "--quiet")


def test_finetune_prints_the_score_with_its_protocol(run):
    out, _, said = run
    assert "sst-2: accuracy " in said
    assert "(1 seed), protocol single" in said
    assert f"{out}: results.json" in said


def test_a_finished_run_gives_its_results_again(run):
    out, keys, _ = run
    assert json.loads(command("finetune", "glue", *keys, "--quiet", "--json")) == json.loads(
        (out / "results.json").read_text()
    )


def test_a_dry_run_prints_the_plan_and_writes_nothing(run, tmp_path):
    _, keys, _ = run
    said = command("finetune", "glue", *keys, f"out={tmp_path / 'none'}", "max_length=7", "--dry-run")
    assert "# 25 updates of 8, 2 of them to warm up" in said
    assert "# learning rates: embeddings 0.002, top layer 0.002, head 0.002" in said
    assert "# train: 200 examples, 200 inputs, " in said
    assert "truncated" in said
    assert not (tmp_path / "none").exists()


def test_a_dry_run_refuses_a_folder_of_something_else(run, tmp_path):
    _, keys, _ = run
    (tmp_path / "letter.txt").touch()
    with pytest.raises(ElectraError, match=r"exists and is not a run: it holds letter\.txt"):
        command("finetune", "glue", *keys, f"out={tmp_path}", "--dry-run")


def test_evaluate_refuses_a_split_that_no_task_has(run):
    with pytest.raises(ElectraError, match="split='nix': choose train, dev, test"):
        evaluate(run[0], split="nix")


def test_evaluate_scores_a_split_and_writes_predictions(run, tmp_path):
    out, *_ = run
    found = json.loads(command("evaluate", out, "--json"))
    assert found["metrics"] == json.loads((out / "results.json").read_text())["median"]
    said = command("evaluate", out, "--split", "test", "--out", tmp_path / "predictions")
    assert "sst-2, test, 12 examples: accuracy" in said
    assert len((tmp_path / "predictions" / "predictions.jsonl").read_text().splitlines()) == 12
    assert (tmp_path / "predictions" / "SST-2.tsv").is_file()


def test_evaluate_refuses_a_folder_that_is_there_before_it_scores(run, tmp_path):
    out, *_ = run
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ElectraError, match="already exists"):
        command("evaluate", out, "data=nowhere", "--out", tmp_path)


def test_predict_makes_the_folder_of_its_file_and_leaves_nothing_of_a_failure(run, tmp_path):
    out, *_ = run
    (tmp_path / "new.csv").write_text("sentence\na fine film\n")
    command("predict", out, tmp_path / "new.csv", "--out", tmp_path / "new" / "predictions.jsonl")
    (tmp_path / "other.csv").write_text("title\na fine film\n")
    command("predict", out, tmp_path / "new.csv", "--out", tmp_path / "new" / "predictions.jsonl")  # its own again
    failures = [("other.csv", "new/other.jsonl"), *(("new.csv", name) for name in ("new", "new.csv", "other.csv"))]
    for source, target in failures:
        with pytest.raises(ElectraError):
            command("predict", out, tmp_path / source, "--out", tmp_path / target)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["predictions.jsonl"]
    assert (tmp_path / "new.csv").read_text() == "sentence\na fine film\n"
    assert (tmp_path / "other.csv").read_text() == "title\na fine film\n"


def test_predict_writes_a_line_for_each_example(run, tmp_path):
    out, *_ = run
    (tmp_path / "new.csv").write_text('sentence\n"the cat, sat"\nthe dog sat\n')
    said = command("predict", out, tmp_path / "new.csv", "--out", tmp_path / "predictions.jsonl")
    assert said == f"{tmp_path / 'predictions.jsonl'}: 2 predictions\n"
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [set(line) for line in lines] == [{"label", "probabilities"}] * 2


def test_predict_of_a_header_alone_says_that_there_is_nothing(run, tmp_path):
    out, *_ = run
    (tmp_path / "new.csv").write_text("sentence\n")
    result = CliRunner().invoke(app, ["predict", str(out), str(tmp_path / "new.csv")])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{tmp_path / 'new.csv'}: nothing to predict\n"


def test_glue_says_what_it_would_do(tiny_folder, tasks_folder, tmp_path):
    keys = [*QUICK, "learning_rates=[2e-3,1e-3]", "mnli.seeds=2"]
    out = tmp_path / "suite"
    said = command("glue", tiny_folder, *keys, "--data", tasks_folder, "--out", out, "--dry-run").splitlines()
    rows = [row.replace(str(tasks_folder), "DATA").split("  ") for row in said]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert cells[0] == ["task", "data", "train", "dev", "epochs", "rate", "seeds"]
    assert cells[1][:2] == ["sst-2", "DATA"]
    assert cells[1][4:] == ["1", "0.002, 0.001", "1"]
    assert [row[0] for row in cells[1:4]] == ["sst-2", "mnli", "rte"]
    assert cells[2][-1] == "2"
    assert "skipped cola: " in "\n".join(said)
    assert not out.exists()


def test_glue_prints_a_table_and_names_what_it_skipped(tiny_folder, tasks_folder, tmp_path):
    keys = [*QUICK, "epochs=0.1"]
    said = command("glue", tiny_folder, *keys, "--data", tasks_folder, "--out", tmp_path, "--task", "sst-2", "--quiet")
    header, row, *_ = said.splitlines()
    assert header.split()[:6] == ["task", "metric", "score", "std", "seeds", "protocol"]
    assert row.split()[0:2] == ["sst-2", "accuracy"]
    assert "submission, sst-2: SST-2.tsv" in said
