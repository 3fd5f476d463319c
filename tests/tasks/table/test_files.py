from pathlib import Path

import numpy as np
import pytest

from electra.config.load import load_finetune_config
from electra.data.reading.records import dataset_splits, read_rows
from electra.errors import ElectraError
from electra.tasks.base import Notes
from electra.tasks.table.files import Table

ROWS = "text,label\n" + "".join(f"text {number},{number % 2}\n" for number in range(20))


def opened(*overrides, known=None) -> Table:
    """Open a table, of which a stored model may know something."""
    table = Table(load_finetune_config("table", overrides), known or {})
    table.texts = ("text",)
    return table


def learned(*overrides) -> Table:
    """Open a table that a model is tuned on."""
    table = opened(*overrides)
    table.learn(table.read_training_file())
    return table


def read(split, *overrides, tuned_on: Path | None = None) -> tuple[list[str], dict[str, int]]:
    """Read a split of the table that a model is, or that another one was, tuned on."""
    notes = Notes()
    table = opened(*overrides)
    table.learn([*read_rows(str(tuned_on))] if tuned_on else table.read_training_file())
    rows = table.read(split, notes)
    return [row.cells["text"] for row in rows], dict(notes.counts)


def test_of_one_file_a_tenth_is_held_out_and_noted(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(ROWS)
    train, nothing = read("train", f"data={path}")
    dev, noted = read("dev", f"data={path}")
    assert (len(train), len(dev)) == (18, 2)
    assert {*train, *dev} == {f"text {number}" for number in range(20)}
    assert set(dev) == {f"text {number}" for number in np.random.default_rng(0).permutation(20)[:2]}
    assert (nothing, noted) == ({}, {"rows are held out from the training file": 2})


def test_rows_of_the_same_text_are_held_out_together(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("text,label\n" + "".join(f"text {number % 20},{number % 3}\n" for number in range(80)))
    train, dev = read("train", f"data={path}")[0], read("dev", f"data={path}")[0]
    assert (len(train), len(dev)) == (72, 8)
    assert not set(train) & set(dev)


def test_a_row_is_always_left_to_learn_from(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(ROWS)
    assert len(read("train", f"data={path}", "table.dev_fraction=0.999")[0]) == 1


def test_the_rows_held_out_are_the_same_for_every_seed(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(ROWS)
    assert read("dev", f"data={path}", "seed=3") == read("dev", f"data={path}")
    assert len(read("dev", f"data={path}", "table.dev_fraction=0.5")[0]) == 10


def test_a_stored_model_is_scored_on_the_rows_that_were_held_out_whatever_is_said_later(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(ROWS)
    tuned = learned(f"data={path}")
    again = opened(f"data={path}", "table.dev_fraction=0.5", known=tuned.describe())
    assert again.read("dev", Notes()) == tuned.read("dev", Notes())


@pytest.mark.parametrize(("splits", "sizes"), [(["train", "test"], (18, 2)), (["train", "validation"], (20, 20))])
def test_of_a_dataset_of_the_hub_without_a_dev_split_rows_are_held_out(monkeypatch, splits, sizes):
    import datasets

    rows = [{"text": f"text {number}", "label": number % 2} for number in range(20)]
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda name, config: splits)
    monkeypatch.setattr(datasets, "load_dataset", lambda name, config, split, streaming: rows)
    dataset_splits.cache_clear()
    assert tuple(len(read(split, "data=someone/reviews")[0]) for split in ("train", "dev")) == sizes


def test_another_file_than_the_model_was_tuned_on_is_scored_as_a_whole(tmp_path):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text(ROWS)
    new.write_text(ROWS.replace("text ", "another "))
    for split in ("dev", "test"):
        texts, notes = read(split, f"data={new}", tuned_on=old)
        assert (len(texts), notes) == (20, {})


def test_rows_that_the_model_learned_from_are_left_out_wherever_they_stand(tmp_path):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text(ROWS)
    head, *rows = ROWS.splitlines()
    new.write_text("\n".join([head, *rows[::-1], "one more,1"]) + "\n")
    held_out, _ = read("dev", f"data={old}")
    texts, notes = read("dev", f"data={new}", tuned_on=old)
    assert sorted(texts) == sorted([*held_out, "one more"])
    assert notes == {"rows were trained on and are skipped": 18}
    new.write_text("\n".join([head, *(row for row in rows[::-1] if row.split(",")[0] not in held_out)]) + "\n")
    with pytest.raises(ElectraError, match="the model was trained on every row of this table; set data or dev_file"):
        read("dev", f"data={new}", tuned_on=old)


def test_rows_that_were_learned_from_are_known_by_their_texts_alone(tmp_path):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text(ROWS)
    new.write_text("label,text,source\n" + "".join(f"?,text {number},{number}\n" for number in range(20)))
    texts, notes = read("dev", f"data={new}", tuned_on=old)
    assert sorted(texts) == sorted(read("dev", f"data={old}")[0])
    assert notes == {"rows were trained on and are skipped": 18}


def test_a_dev_file_with_rows_that_were_learned_from_is_noted(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(ROWS)
    tuned = learned(f"data={path}")
    again, notes = opened(f"dev_file={path}", known=tuned.describe()), Notes()
    assert len(again.read("dev", notes)) == 20
    assert notes.counts == {"rows are also in the training data": 18}


def test_no_row_of_the_training_file_counts_as_held_out_where_all_were_learned_from(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(ROWS)
    (tmp_path / "dev.csv").write_text("text,label\nanother,0\n")
    tuned = learned(f"data={path}", f"dev_file={tmp_path / 'dev.csv'}")
    again = opened(f"data={path}", known=tuned.describe())
    with pytest.raises(ElectraError, match="the model was trained on every row"):
        again.read("dev", Notes())


def test_of_another_file_all_rows_are_its_training_split(tmp_path):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text(ROWS)
    new.write_text(ROWS.replace("text ", "another "))
    assert len(read("train", f"data={new}", tuned_on=old)[0]) == 20


def test_a_file_that_is_not_there_is_called_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ElectraError, match=r"^no file or folder tables/mine\.csv; a hub dataset"):
        read("train", "data=tables/mine.csv")


def test_the_file_that_the_model_was_tuned_on_is_known_by_any_name(tmp_path, monkeypatch):
    path = tmp_path / "mine.csv"
    path.write_text(ROWS)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/copy.csv").write_text(ROWS)
    expected = read("dev", f"data={path}")
    monkeypatch.chdir(tmp_path / "elsewhere")
    for name in (path, "../mine.csv", "./../mine.csv", "copy.csv"):
        assert read("dev", f"data={name}", tuned_on=path) == expected
        with pytest.raises(ElectraError, match="no test file"):
            read("test", f"data={name}", tuned_on=path)


@pytest.mark.parametrize("name", ["dev.tsv", "valid.tsv", "validation.tsv", "val.tsv", "mine_dev.tsv", "Mine-val.tsv"])
def test_a_folder_has_a_file_for_each_split(tmp_path, name):
    (tmp_path / "train.csv").write_text(ROWS)
    (tmp_path / name).write_text("text\tlabel\nheld out\t0\n")
    (tmp_path / "test.jsonl").write_text('{"text": "unseen"}\n')
    assert len(read("train", f"data={tmp_path}")[0]) == 20
    assert read("dev", f"data={tmp_path}") == (["held out"], {})
    assert read("test", f"data={tmp_path}") == (["unseen"], {})


def test_a_test_file_is_never_taken_for_dev(tmp_path):
    (tmp_path / "train.csv").write_text(ROWS)
    (tmp_path / "test.csv").write_text("text,label\nunseen,0\n")
    assert "unseen" not in read("dev", f"data={tmp_path}")[0]


def test_files_can_be_named_with_or_without_a_folder(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(f"text,label\n{name},0\n")
    assert read("dev", f"data={tmp_path}", "train_file=a.csv", "dev_file=b.csv")[0] == ["b.csv"]
    assert read("train", f"train_file={tmp_path}/a.csv", f"dev_file={tmp_path}/b.csv")[0] == ["a.csv"]


@pytest.mark.parametrize(
    ("files", "overrides", "message"),
    [
        ({}, [], r"no table; set data=FILE"),
        ({"x.md": ""}, ["data={}"], r"no train\.csv, \.tsv, \.jsonl or \.parquet in .*; found x\.md"),
        ({"train.csv": ""}, ["data={}"], r"train\.csv has no rows"),
        ({"train.csv": "text,label\n"}, ["data={}"], r"train\.csv has no rows"),
        (
            {"train.csv": "text,label\none,0\n"},
            ["data={}"],
            r"has only 1 text, so none can be held out; set dev_file=FILE",
        ),
        ({"train.csv": ROWS}, ["data={}", "dev_file=b.csv"], r"no file b\.csv here or in .* \(dev_file\)"),
        ({"train.csv": "text,label\none\n"}, ["data={}"], r"line 2: 1 fields, but the header has 2"),
        ({"train.csv": "text,text\na,b\n"}, ["data={}"], r"two columns are called 'text'"),
        ({}, ["data={}/nothing.csv"], r"no file or folder .*nothing\.csv"),
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path, files, overrides, message):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ElectraError, match=message):
        read("train", *(override.format(tmp_path) for override in overrides))


def test_a_split_without_a_file_is_refused(tmp_path):
    (tmp_path / "train.csv").write_text(ROWS)
    with pytest.raises(ElectraError, match=r"no test file; set test_file=FILE"):
        read("test", f"data={tmp_path}")
