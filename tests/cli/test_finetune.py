"""The fine-tuning commands, in the order a user types them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from electra.cli.commands import app
from electra.errors import ElectraError
from electra.recipes.evaluate import evaluate

QUICK = "epochs=1.0 batch_size=8 learning_rate=2e-3 layer_decay=1.0 optimizer=adamw".split()


def command(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def run(tiny_folder, tasks_folder, tmp_path_factory):
    """A fine-tuned run, its keys and the output of the command."""
    out = tmp_path_factory.mktemp("runs") / "sst"
    keys = ["task=sst-2", f"model={tiny_folder}", f"data={tasks_folder}", f"out={out}", *QUICK]
    return out, keys, command("finetune", "glue", *keys, "--quiet")


def test_finetune_prints_the_score_with_its_protocol(run):
    out, _, printed = run
    assert "sst-2: accuracy " in printed
    assert "(1 seed), protocol single" in printed
    assert f"{out}: wrote results.json" in printed
    assert printed.endswith(f"\nNext: electra predict {out} FILE --out predictions.jsonl\n")


def test_finetune_prints_the_median_of_each_learning_rate(run, tmp_path):
    _, keys, _ = run
    keys = [*(key for key in keys if not key.startswith("learning_rate")), "learning_rates=[1e-7,2e-3]"]
    printed = command("finetune", "glue", *keys, f"out={tmp_path / 'sweep'}", "--quiet")
    sweep = json.loads((tmp_path / "sweep/results.json").read_text())["sweep"]
    medians = " · ".join(f"{rate} {100 * medians['accuracy']:.2f}" for rate, medians in sweep.items())
    assert f"\nlearning rates: {medians}\n" in f"\n{printed}"


def test_the_docs_list_every_field_of_the_results(run):
    results = json.loads((run[0] / "results.json").read_text())
    page = (Path(__file__).parents[2] / "docs/finetuning.md").read_text().partition("### results.json")[2]
    assert [name for name in [*results, *results["seeds"][0]] if f"`{name}`" not in page] == []


def test_a_finished_run_prints_its_results_again(run):
    out, keys, _ = run
    assert json.loads(command("finetune", "glue", *keys, "--quiet", "--json")) == json.loads(
        (out / "results.json").read_text()
    )


def test_a_dry_run_prints_the_plan_and_writes_nothing(run, tmp_path):
    _, keys, _ = run
    printed = command("finetune", "glue", *keys, f"out={tmp_path / 'none'}", "max_length=7", "--dry-run")
    assert "# 25 steps, batch size 8, warmup 2 steps" in printed
    assert "# learning rates: embeddings 0.002, top layer 0.002, head 0.002" in printed
    assert "# train: 200 examples, 200 inputs, " in printed
    assert "truncated" in printed
    assert not (tmp_path / "none").exists()


def test_a_dry_run_prints_each_learning_rate(run):
    _, keys, _ = run
    keys = [*(key for key in keys if not key.startswith("learning_rate=")), "learning_rates=[1e-4,2e-3]"]
    printed = command("finetune", "glue", *keys, "--dry-run").splitlines()
    assert [line for line in printed if line.startswith(("learning_rate =", "# learning"))] == [
        "# learning rates: embeddings 0.0001, top layer 0.0001, head 0.0001",
        "# learning rates: embeddings 0.002, top layer 0.002, head 0.002",
    ]


def test_a_dry_run_prints_json(run):
    _, keys, _ = run
    printed = json.loads(command("finetune", "glue", *keys, "--dry-run", "--json"))
    assert printed["config"]["task"] == "sst-2"
    assert "25 steps, batch size 8, warmup 2 steps" in printed["plan"]


def test_a_dry_run_refuses_a_folder_that_is_not_a_run(run, tmp_path):
    _, keys, _ = run
    (tmp_path / "letter.txt").touch()
    with pytest.raises(ElectraError, match=r"exists and is not a run: it holds letter\.txt"):
        command("finetune", "glue", *keys, f"out={tmp_path}", "--dry-run")


def test_evaluate_refuses_an_unknown_split(run):
    with pytest.raises(ElectraError, match="split='nix': choose train, dev, test"):
        evaluate(run[0], split="nix")


def test_evaluate_scores_a_split_and_writes_predictions(run, tmp_path):
    out, *_ = run
    found = json.loads(command("evaluate", out, "--json"))
    assert found["metrics"] == json.loads((out / "results.json").read_text())["median"]
    printed = command("evaluate", out, "--split", "test", "--out", tmp_path / "predictions")
    assert "sst-2, test, 12 examples: accuracy" in printed
    assert len((tmp_path / "predictions" / "predictions.jsonl").read_text().splitlines()) == 12
    assert (tmp_path / "predictions" / "SST-2.tsv").is_file()


def test_evaluate_names_the_file_or_folder_that_it_scored(run, tasks_folder):
    out, *_ = run
    assert "sst-2, train.tsv, 200 examples" in command("evaluate", out, "dev_file=train.tsv")
    assert f"sst-2, dev of {tasks_folder}, " in command("evaluate", out, f"data={tasks_folder}")
    assert json.loads(command("evaluate", out, "--json"))["source"] == "dev"


def test_evaluate_refuses_an_existing_folder_before_scoring(run, tmp_path):
    out, *_ = run
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ElectraError, match="already exists"):
        command("evaluate", out, "data=nowhere", "--out", tmp_path)


def test_predict_makes_the_folder_of_its_file_and_writes_nothing_on_failure(run, tmp_path):
    out, *_ = run
    (tmp_path / "new.csv").write_text("sentence\na fine film\n")
    command("predict", out, tmp_path / "new.csv", "--out", tmp_path / "new" / "predictions.jsonl")
    command("predict", out, tmp_path / "new.csv", "--out", tmp_path / "new" / "predictions.jsonl")  # overwrites
    others = {"other.csv": "title\na fine film\n", "data.jsonl": '{"text": "a", "label": "b"}\n', "a.json": "{\n}\n"}
    for name, content in others.items():
        (tmp_path / name).write_text(content)
    failures = [("other.csv", "new/other.jsonl"), *(("new.csv", name) for name in ("new", "new.csv", *others))]
    for source, target in failures:
        with pytest.raises(ElectraError):
            command("predict", out, tmp_path / source, "--out", tmp_path / target)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["predictions.jsonl"]
    assert (tmp_path / "new.csv").read_text() == "sentence\na fine film\n"
    assert {name: (tmp_path / name).read_text() for name in others} == others


def test_predict_overwrites_predictions_whose_lines_have_different_fields(run, tmp_path, monkeypatch):
    monkeypatch.setattr("electra.recipes.evaluate.predict", lambda *_: iter([{"similarity": 0.5}, {"vector": [1.0]}]))
    for _ in range(2):
        command("predict", run[0], tmp_path / "new.txt", "--out", tmp_path / "p.jsonl")
    assert len((tmp_path / "p.jsonl").read_text().splitlines()) == 2


def test_predict_writes_one_line_per_example(run, tmp_path):
    out, *_ = run
    (tmp_path / "new.csv").write_text('sentence\n"the cat, sat"\nthe dog sat\n')
    printed = command("predict", out, tmp_path / "new.csv", "--out", tmp_path / "predictions.jsonl")
    assert printed == f"{tmp_path / 'predictions.jsonl'}: 2 predictions\n"
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [set(line) for line in lines] == [{"label", "probabilities"}] * 2


@pytest.mark.parametrize("name", ["new.csv", "new.txt"])
def test_predict_refuses_a_file_without_examples(run, tmp_path, name):
    out, *_ = run
    (tmp_path / name).write_text("sentence\n" if name == "new.csv" else "")
    (tmp_path / "earlier.jsonl").write_text("{}\n")
    with pytest.raises(ElectraError, match=f"{name} has no examples, so there is nothing to predict"):
        command("predict", out, tmp_path / name, "--out", tmp_path / "earlier.jsonl")
    assert (tmp_path / "earlier.jsonl").read_text() == "{}\n"


def test_glue_prints_its_plan_in_a_dry_run(tiny_folder, tasks_folder, tmp_path):
    keys = [*QUICK[:2], *QUICK[3:], "learning_rates=[2e-3,1e-3]", "mnli.seeds=2"]
    out = tmp_path / "suite"
    printed = command("glue", tiny_folder, *keys, "--data", tasks_folder, "--out", out, "--dry-run").splitlines()
    rows = [row.replace(str(tasks_folder), "DATA").split("  ") for row in printed]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert cells[0] == ["task", "data", "train", "dev", "epochs", "rate", "seeds"]
    as_json = command("glue", tiny_folder, *keys, "--data", tasks_folder, "--out", out, "--dry-run", "--json")
    planned = json.loads(as_json)["tasks"]["mnli"]
    assert (planned["config"]["seeds"], planned["train"], planned["dev"]) == (2, 200, 40)
    assert cells[1][:2] == ["sst-2", "DATA"]
    assert cells[1][4:] == ["1", "0.002, 0.001", "1"]
    assert [row[0] for row in cells[1:4]] == ["sst-2", "mnli", "rte"]
    assert cells[2][-1] == "2"
    assert "skipped cola: " in "\n".join(printed)
    assert not out.exists()


def test_glue_prints_a_table_and_the_submission(tiny_folder, tasks_folder, tmp_path):
    keys = [*QUICK, "epochs=0.1"]
    text = command("glue", tiny_folder, *keys, "--data", tasks_folder, "--out", tmp_path, "--task", "sst-2", "--quiet")
    header, row, *_ = text.splitlines()
    assert header.split()[:6] == ["task", "metric", "score", "std", "seeds", "protocol"]
    assert row.split()[0:2] == ["sst-2", "accuracy"]
    assert "submission, sst-2: SST-2.tsv" in text
