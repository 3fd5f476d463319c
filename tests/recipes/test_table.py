"""A stranger's table, from the file to predictions and to a model that `transformers` loads, by three commands."""

import csv
import json

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    ElectraConfig,
    ElectraForSequenceClassification,
)
from typer.testing import CliRunner

import electra
from electra.cli.commands import app
from electra.errors import ElectraError
from electra.recipes.evaluate import evaluate, predict

FOOD = ["soup", "meal", "cat", "dog"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Pairs of sentences with commas and quotes in them; whether they speak of the same thing."""
    path = tmp_path_factory.mktemp("table") / "pairs.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["first sentence", "second sentence", "verdict"])
        for one in FOOD:
            for other in FOOD:
                rows.writerow([f'the "{one}", it was', f"a {other} was good", "same" if one == other else "other"])
    return path


@pytest.fixture(scope="module")
def tuned(pairs, tiny_folder):
    out = pairs.parent / "run"
    run("finetune", "table", f"data={pairs}", f"model={tiny_folder}", f"out={out}", "epochs=1", "batch_size=8")
    return out


def test_the_columns_are_shown_before_anything_is_trained(pairs, tiny_folder):
    shown = run("finetune", "table", f"data={pairs}", f"model={tiny_folder}", "out=nowhere", "--dry-run")
    assert "table.kind=classification table.text='first sentence' table.pair='second sentence'" in shown
    assert "2 labels: other, same" in shown
    assert "2 rows are held out from the training file" in shown


def test_an_exported_model_that_comes_in_again_knows_its_task(tuned, pairs, tmp_path):
    run("export", tuned, "--out", tmp_path / "hf")
    assert "fine-tuned model" in run("import", tmp_path / "hf", "--out", tmp_path / "again")
    ours, again = (list(predict(model, str(pairs))) for model in (tuned, tmp_path / "again"))
    assert [line["label"] for line in again] == [line["label"] for line in ours]


def test_a_run_says_what_was_detected(tuned):
    results = json.loads((tuned / "results.json").read_text())
    assert results["detected"][1] == "2 labels: other, same"
    assert results["examples"] == {"train": 14, "dev": 2}
    assert results["baseline"]["label"] == "other"
    assert results["baseline"]["accuracy"] in (0.5, 1.0)
    assert list(results["median"]) == ["accuracy", "macro_f1"]
    baseline = f'(always "other": {100 * results["baseline"]["accuracy"]:.2f})'
    assert baseline in run("evaluate", tuned)


def test_predictions_are_written_in_the_order_of_the_rows(tuned, pairs):
    out = pairs.parent / "predictions.jsonl"
    run("predict", tuned, pairs, "--out", out)
    predictions = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(predictions) == 16
    assert all(prediction["label"] in ("other", "same") for prediction in predictions)


def test_an_export_gives_the_same_probabilities_in_transformers(tuned, pairs, tmp_path):
    run("export", tuned, "--out", tmp_path / "hf")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    inputs = tokenizer('the "soup", it was', "a soup was good", truncation=True, max_length=16, return_tensors="pt")
    with torch.no_grad():
        expected = theirs(**inputs).logits.softmax(-1)[0].tolist()
    first = next(iter(predict(tmp_path / "hf", pairs)))
    assert first["probabilities"] == pytest.approx(dict(zip(["other", "same"], expected, strict=True)), abs=1e-5)


def test_an_exported_model_can_be_scored(tuned, tmp_path):
    electra.export(tuned, tmp_path / "hf")
    assert evaluate(tmp_path / "hf").metrics == evaluate(tuned).metrics


def test_by_any_name_of_its_table_a_model_is_scored_on_the_rows_held_out(tuned, pairs, monkeypatch):
    monkeypatch.chdir(pairs.parent)
    for name in ("pairs.csv", "./pairs.csv"):
        assert evaluate(tuned, [f"data={name}"]).notes == {"rows are held out from the training file": 2}


def test_the_file_that_is_named_is_scored_whatever_the_run_was_made_with(tiny_folder, tmp_path):
    for name, rows in {"train": 4, "dev": 3, "other": 5}.items():
        lines = "".join(f"the {name} {FOOD[number % 4]} {number},{number % 2}\n" for number in range(rows))
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{lines}")
    files = [f"train_file={tmp_path / 'train.csv'}", f"dev_file={tmp_path / 'dev.csv'}"]
    run("finetune", "table", *files, f"model={tiny_folder}", f"out={tmp_path / 'run'}", "epochs=1")
    assert len(evaluate(tmp_path / "run").predictions) == 3
    assert len(evaluate(tmp_path / "run", [f"data={tmp_path / 'other.csv'}"]).predictions) == 5
    found = evaluate(tmp_path / "run", [f"dev_file={tmp_path / 'train.csv'}"])
    assert (len(found.predictions), found.notes) == (4, {"rows are also in the training data": 4})


def test_rows_without_a_label_are_not_scored_and_noted(tuned, tmp_path):
    lines = ["first sentence,second sentence,verdict", "the soup,a soup was good,same", "the dog,a cat was good,"]
    (tmp_path / "test.csv").write_text("\n".join(lines) + "\n")
    found = evaluate(tuned, [f"test_file={tmp_path / 'test.csv'}"], "test")
    assert found.metrics["accuracy"] == (found.predictions[0]["label"] == "same")
    assert len(found.predictions) == 2
    assert found.notes["examples without a label, not scored"] == 1
    lines[1] = "the soup,a soup was good,"
    (tmp_path / "test.csv").write_text("\n".join(lines) + "\n")
    found = evaluate(tuned, [f"test_file={tmp_path / 'test.csv'}"], "test")
    assert found.metrics == found.notes == {}


def test_a_table_of_tags_is_tuned_and_exported_too(tiny_folder, tmp_path):
    rows = [{"words": f"the {food} ate", "tags": "O B-X O"} for food in FOOD]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = [f"data={tmp_path / 'mine.jsonl'}", f"model={tiny_folder}", f"out={tmp_path / 'run'}"]
    run("finetune", "table", *settings, "epochs=1")
    (tmp_path / "new.txt").write_text("the cat ate\n")
    (prediction,) = predict(tmp_path / "run", tmp_path / "new.txt")
    assert prediction["words"] == ["the", "cat", "ate"]
    electra.export(tmp_path / "run", tmp_path / "hf")
    theirs = AutoModelForTokenClassification.from_pretrained(tmp_path / "hf")
    assert theirs.config.id2label == {0: "O", 1: "B-X"}


@pytest.fixture
def foreign(request, tokenizer, tmp_path):
    """A folder that `transformers` wrote: labels, and not a word of columns."""
    torch.manual_seed(0)
    labels = dict(enumerate(getattr(request, "param", ["bad", "fine"])))
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 40}
    config = ElectraConfig(vocab_size=tokenizer.vocab_size, max_position_embeddings=16, id2label=labels, **shape)
    model = ElectraForSequenceClassification(config)
    model.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    return tmp_path / "theirs"


def test_a_model_that_others_tuned_predicts_and_is_scored(foreign, tmp_path):
    (tmp_path / "new.csv").write_text("review,mood\nthe soup was good,fine\nthe cat sat,bad\n")
    columns = ["table.text=review", "table.label=mood"]
    labels = [prediction["label"] for prediction in predict(foreign, tmp_path / "new.csv", columns)]
    assert set(labels) <= {"bad", "fine"}
    found = evaluate(foreign, [*columns, f"data={tmp_path / 'new.csv'}"])
    assert [prediction["label"] for prediction in found.predictions] == labels
    assert found.metrics["accuracy"] == sum(map(str.__eq__, labels, ["fine", "bad"])) / 2


@pytest.mark.parametrize("foreign", [["LABEL_0"]], indirect=True)
def test_a_regression_of_others_gives_values(foreign, tmp_path):
    (tmp_path / "new.csv").write_text("text,label\nthe soup was good,0.5\nthe cat sat,1\n")
    values = [prediction["value"] for prediction in predict(foreign, tmp_path / "new.csv")]
    found = evaluate(foreign, [f"data={tmp_path / 'new.csv'}"])
    assert [prediction["value"] for prediction in found.predictions] == values
    squares = [(value - truth) ** 2 for value, truth in zip(values, [0.5, 1], strict=True)]
    assert found.metrics["squared_error"] == pytest.approx(sum(squares) / 2)


def test_a_label_that_the_head_does_not_have_is_refused(foreign, tmp_path):
    (tmp_path / "new.csv").write_text("text,label\nthe soup was good,great\n")
    with pytest.raises(ElectraError, match="unknown label 'great'; known: bad, fine"):
        evaluate(foreign, [f"data={tmp_path / 'new.csv'}"])


def test_a_task_with_other_labels_does_not_fit_the_head(foreign):
    with pytest.raises(ElectraError, match=r"head of .* does not fit task mnli: it predicts bad, fine, not entailment"):
        evaluate(foreign, ["task=mnli", "data=nowhere"])


def test_a_missing_column_is_one_line(tuned, tmp_path):
    (tmp_path / "new.csv").write_text("first,second sentence\na,b\n")
    with pytest.raises(ElectraError, match=r"no column 'first sentence'.*found first, second sentence"):
        list(predict(tuned, tmp_path / "new.csv"))
