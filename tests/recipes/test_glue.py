import json
import zipfile
from types import SimpleNamespace

import pytest

import electra
from electra.cli.glue import _table
from electra.errors import CheckpointError, ConfigError, TaskError
from electra.recipes.glue import SUITE, Score, Suite, _for_task, _score, _test_files, published
from electra.tasks.build import TASKS

QUICK = "epochs=0.5 batch_size=8 learning_rate=2e-3 layer_decay=1.0 optimizer=adamw".split()


@pytest.fixture(scope="module")
def suite(tiny_folder, tasks_folder, tmp_path_factory):
    (tasks_folder / "RTE" / "train.tsv").rename(tasks_folder / "RTE" / "train_part.tsv")
    out = tmp_path_factory.mktemp("suite")
    yield electra.glue(str(tiny_folder), [str(tasks_folder)], out, [*QUICK, "sst-2.seeds=2"]), out
    (tasks_folder / "RTE" / "train_part.tsv").rename(tasks_folder / "RTE" / "train.tsv")


def test_every_task_found_is_scored_and_the_others_are_named(suite):
    found, out = suite
    assert [(score.task, score.seeds) for score in found.scores] == [("sst-2", 2), ("mnli", 1)]
    assert "train_part.tsv" in found.skipped["rte"]
    assert "cola" in found.skipped
    assert json.loads((out / "suite.json").read_text())["scores"][0]["task"] == "sst-2"


def test_folders_without_any_task_are_refused(tiny_folder, tmp_path):
    with pytest.raises(TaskError, match=rf"no task found in {tmp_path}; for example, cola: no train.tsv in "):
        electra.glue(str(tiny_folder), [str(tmp_path)], tmp_path / "suite")


def test_the_submission_has_the_test_predictions(suite):
    found, out = suite
    with zipfile.ZipFile(out / "submission.zip") as archive:
        assert sorted(archive.namelist()) == ["MNLI-m.tsv", "SST-2.tsv"]
        lines = archive.read("MNLI-m.tsv").decode().splitlines()
    assert lines[0] == "index\tprediction"
    assert len(lines) == 13
    assert "diagnostic.tsv" in found.submission["ax"]


def test_only_glue_tasks_have_test_predictions(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "electra.recipes.glue.evaluate", lambda run, *others: asked.append(run) or SimpleNamespace(files={})
    )
    assert [_test_files(task, task) for task in ("sst-2", "squad-1.1", "chunking")] == [({}, {})] * 3
    assert asked == ["sst-2"]


def test_a_named_file_is_noted(suite, tiny_folder, tasks_folder, tmp_path):
    keys = [*QUICK, "rte.train_file=train_part.tsv", "rte.epochs=0.1"]
    heard = []
    (score,) = electra.glue(str(tiny_folder), [str(tasks_folder)], tmp_path, keys, ["rte"], [heard.append]).scores
    assert score.notes == "trained on train_part.tsv, constant predictions in 1 of 1 seeds"  # 0.1 epochs are too few
    keys = ["dev_file=train_part.tsv", "start=untrained", "learning_rates=[1e-4, 1e-3]", "early_stopping=1"]
    keys = [*QUICK[:2], *QUICK[3:], "train_file=train_part.tsv", *keys]
    (score,) = electra.glue(str(tiny_folder), [str(tasks_folder)], tmp_path / "other", keys, ["rte"]).scores
    said = "trained on train_part.tsv, scored on train_part.tsv, start untrained, best of 2 rates, "
    assert score.notes.startswith(said + "early stopping on dev")
    assert heard[0] == {"detected": "task rte"}  # shows which task is running


@pytest.mark.parametrize("width", [256, 512])  # with and without published scores
def test_the_last_line_is_the_mean(width):
    scores = {"cola": 60.0, "sst-2": 90.0, "rte": 66.0}
    rows = [
        Score(task, "accuracy", score, 0.0, 1, "single", published(task, width), "") for task, score in scores.items()
    ]
    rows += [Score("wnli", "accuracy", 56.3, 0.0, 1, "single", {}, "")]
    assert _table(Suite("run", rows, {}, {}))[-1][:3] == ["mean", "of 3", "72.0"]


def test_tasks_outside_of_glue_have_no_mean():
    scores = {"squad-1.1": 75.0, "chunking": 96.0}
    rows = [
        Score(task, "accuracy", score, 0.0, 1, "single", published(task, 256), "") for task, score in scores.items()
    ]
    assert [row[0] for row in _table(Suite("run", rows, {}, {}))] == ["task", *scores]


def test_squad_is_compared_by_exact_matches_and_has_its_f1_as_a_note():
    scores = {"f1": 0.8346, "exact": 0.7512}
    places = {"train_file": None, "dev_file": None, "start": "pretrained", "early_stopping": None}
    results = {"task": "squad-1.1", "metric": "f1", "protocol": "single", "seeds": [{"constant": False}]} | places
    score = _score(results | {"median": scores, "std": dict.fromkeys(scores, 0.0)}, 256)
    assert (score.metric, score.score, score.notes) == ("exact", 75.12, "f1 83.46")


def test_the_keys_of_a_task_apply_only_to_it_even_if_its_name_has_a_dot():
    keys = ["squad-1.1.batch_size=8", "sst-2.seeds=3", "seeds=2"]  # what is said of a task is for it in any order
    assert _for_task("squad-1.1", keys) == ["seeds=2", "batch_size=8"]
    assert _for_task("sst-2", keys) == ["seeds=2", "seeds=3"]


def test_a_config_key_that_begins_like_a_task_is_not_taken_for_a_key_of_that_task():
    keys = ["similarity.pooling=first", "similarity.epochs=2"]
    assert _for_task("similarity", keys) == ["similarity.pooling=first", "epochs=2"]
    assert _for_task("mrpc", keys) == ["similarity.pooling=first"]


def test_each_task_is_looked_for_in_every_folder(tiny_folder, tasks_folder, tmp_path):
    for name in ("train.txt", "test.txt"):
        (tmp_path / "chunks" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "chunks" / name).write_text("the B-NP\ncat I-NP\nsat B-VP\n\n" * 8)
    folders = [str(tasks_folder), str(tmp_path / "chunks")]
    (score,) = electra.glue(str(tiny_folder), folders, tmp_path / "suite", QUICK, ["chunking"]).scores
    assert score.task == "chunking"


def test_question_answering_is_compared_by_exact_match_as_published(tiny_folder, tmp_path):
    question = {"id": "1", "question": "who sat", "answers": [{"text": "cat", "answer_start": 4}]}
    data = {"data": [{"title": "a", "paragraphs": [{"context": "the cat sat", "qas": [question]}]}]}
    for split in ("train", "dev"):
        (tmp_path / f"{split}-v1.1.json").write_text(json.dumps(data))
    keys = [*QUICK, "max_length=16"]
    (score,) = electra.glue(str(tiny_folder), [str(tmp_path)], tmp_path / "suite", keys, ["squad-1.1"]).scores
    assert score.metric == "exact"


@pytest.mark.parametrize("key", ["out=elsewhere", "rte.out=elsewhere", "task=sst-2"])
def test_task_and_folder_are_not_set_as_config_keys(tiny_folder, tasks_folder, tmp_path, key):
    with pytest.raises(ConfigError, match="task and out cannot be set here; use --task and --out instead"):
        electra.glue(tiny_folder, tasks_folder, tmp_path, [*QUICK, key], ["rte"])


def test_a_named_task_has_to_exist(tiny_folder, tasks_folder, tmp_path):
    with pytest.raises(TaskError, match="found MNLI, RTE, SST-2"):
        electra.glue(str(tiny_folder), [str(tasks_folder)], tmp_path, tasks=["cola"])
    with pytest.raises(TaskError, match="no task 'colla'; did you mean cola"):
        electra.glue(str(tiny_folder), [str(tasks_folder)], tmp_path, tasks=["colla"])
    with pytest.raises(ConfigError, match="no data folder given"):
        electra.glue(str(tiny_folder), [], tmp_path)


def test_a_folder_with_other_files_is_refused_and_an_existing_suite_resumes(suite, tiny_folder, tasks_folder, tmp_path):
    (tmp_path / "config.toml").write_text("")  # of a run, for instance
    with pytest.raises(CheckpointError, match=r"is not a suite of runs: it holds config\.toml; choose another"):
        electra.glue(str(tiny_folder), [str(tasks_folder)], tmp_path, QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]
    found, out = suite
    (out / "notes.txt").write_text("looks good")
    assert electra.glue(str(tiny_folder), [str(tasks_folder)], out, [*QUICK, "sst-2.seeds=2"]) == found


def test_the_published_scores_are_those_of_the_width():
    assert published("mrpc", 256) == {"ELECTRA-Small++": 88.0, "Small-OWT": 87.4}
    assert published("cola", 768) == {"ELECTRA-Base": 67.7}
    assert published("wnli", 1024) == {}
    assert published("cola", 128) == {}
    small = [published(task, 256)["Small-OWT"] for task in "cola sst-2 mrpc sts-b qqp mnli qnli rte".split()]
    assert sum(small) / 8 == pytest.approx(80.36, abs=0.01)  # the published mean


def test_the_suite_has_only_known_tasks_and_covers_the_published_ones():
    assert set(SUITE) <= set(TASKS)
    assert all(published(task, 1024) for task in SUITE if task != "wnli")
