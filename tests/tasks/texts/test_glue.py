"""GLUE's files: small ones in each of its layouts, wrong ones, and the real ones where they are."""

import tarfile
from pathlib import Path

import fsspec
import pytest

from electra.errors import DataError, TaskError
from electra.tasks.base import Notes
from electra.tasks.texts.glue import TASKS

SHARED = Path(__file__).parents[4] / "shared" / "data" / "tasks" / "glue.tar.xz"
FILES = {  # two rows of each task's training file, as the benchmark lays it out
    "cola": ("CoLA", "gj04\t1\t\tThe cat sat.\ngj04\t0\t*\tCat the sat.\n"),
    "sst-2": ("SST-2", 'sentence\tlabel\na "good soup \t1\na bad soup\t0\n'),
    "mrpc": ("MRPC", '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\t"A cat.\tA cat\n0\t9\t1\tA\tB\n'),
    "sts-b": (
        "STS-B",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        "0\tg\tf\ty\t1\ts\ts\tA cat\tA dog\t2.5\n1\tg\tf\ty\t2\ts\ts\tA\tB\t0.0\n",
    ),
    "qqp": (
        "QQP",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n5\t1\t2\tWho?\tWho is it?\t1\n6\t3\t4\tA?\tB?\t0\n",
    ),
    "mnli": (
        "MNLI",
        "index\tpromptID\tsentence1\tsentence2\tlabel1\tgold_label\n"
        "0\tp\tA cat\tAn animal\tentailment\tentailment\n1\tp\tA\tB\tneutral\tneutral\n",
    ),
    "qnli": ("QNLI", "index\tquestion\tsentence\tlabel\n0\tWho?\tHe.\tentailment\n1\tWhy?\tIt.\tnot_entailment\n"),
    "rte": ("RTE", "index\tsentence1\tsentence2\tlabel\n0\tA cat\tA dog\tnot_entailment\n1\tA\tA\tentailment\n"),
    "wnli": ("WNLI", "index\tsentence1\tsentence2\tlabel\n0\tA cat\tA dog\t0\n1\tA\tA\t1\n"),
}
OFFICIAL = {
    "cola": (8551, 1043, 1063),
    "sst-2": (67349, 872, 1821),
    "mrpc": (3668, 408, 1725),
    "sts-b": (5749, 1500, 1379),
    "rte": (2490, 277, 3000),
    "wnli": (635, 71, 146),
}


def write(folder: Path, name: str, content: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("name", FILES)
def test_each_layout_is_read(task, tmp_path, name):
    folder, content = FILES[name]
    write(tmp_path / folder, "train.tsv", content)
    first, second = task(name).read("train", Notes())
    assert len(first.texts) == len(TASKS[name].columns)
    assert all(first.texts)
    assert first.label != second.label
    assert {first.label, second.label} <= {*task(name).labels, 2.5, 0.0}


@pytest.mark.parametrize("name", FILES)
def test_the_folder_may_be_the_tasks_own(task, tmp_path, name):
    write(tmp_path, "train.tsv", FILES[name][1])
    assert len(task(name).read("train", Notes())) == 2


def test_the_folder_may_be_in_object_storage(task, tmp_path, monkeypatch):
    monkeypatch.setenv("ELECTRA_CACHE", str(tmp_path))
    storage, (folder, text) = fsspec.filesystem("memory"), FILES["rte"]
    storage.pipe({f"/glue/{folder}/train.tsv": text.encode(), "/glue/MRPC/train.tsv": b""})
    for place in ("memory://glue", f"memory://glue/{folder}"):
        assert [example.texts for example in task("rte", data=place).read("train", Notes())] == [
            ("A cat", "A dog"),
            ("A", "A"),
        ]


def test_quotes_are_ordinary_characters(task, tmp_path):
    write(tmp_path / "SST-2", "train.tsv", FILES["sst-2"][1])
    assert task("sst-2").read("train", Notes())[0].texts == ('a "good soup ',)


def test_a_test_file_needs_no_labels(task, tmp_path):
    write(tmp_path / "CoLA", "test.tsv", "index\tsentence\n0\tThe cat.\n1\tThe dog.\n")
    examples = task("cola").read("test", Notes())
    assert [(example.id, example.label) for example in examples] == [(0, None), (1, None)]


def test_both_parts_of_mnli_are_read_and_a_missing_one_is_noted(task, tmp_path):
    write(tmp_path / "MNLI", "dev_matched.tsv", FILES["mnli"][1])
    notes = Notes()
    assert {example.group for example in task("mnli").read("dev", notes)} == {"matched"}
    assert notes.counts == {"mismatched part missing": 1}
    write(tmp_path / "MNLI", "dev_mismatched.tsv", FILES["mnli"][1])
    assert [example.group for example in task("mnli").read("dev", Notes())] == ["matched"] * 2 + ["mismatched"] * 2


@pytest.mark.parametrize(
    ("file", "submitted"), [("test_matched.tsv", "MNLI-m"), ("my_mismatched.tsv", "MNLI-mm"), ("other.tsv", "MNLI-m")]
)
def test_a_named_file_of_mnli_belongs_to_the_part_in_its_name(task, tmp_path, file, submitted):
    write(tmp_path / "MNLI", file, FILES["mnli"][1])
    chosen = task("mnli", f"test_file={file}")
    examples = chosen.read("test", Notes())
    assert list(chosen.files(examples, [{"label": "neutral"}] * len(examples))) == [f"{submitted}.tsv"]


def test_a_named_file_of_mnli_that_is_missing_is_told(task, tmp_path):
    write(tmp_path / "MNLI", "test_matched.tsv", FILES["mnli"][1])
    with pytest.raises(TaskError, match=r"no my_mismatched\.tsv"):
        task("mnli", "test_file=my_mismatched.tsv").read("test", Notes())


def test_lines_that_are_broken_in_two_are_skipped_and_counted(task, tmp_path):
    write(tmp_path / "QQP", "train.tsv", FILES["qqp"][1] + "7\t1\t2\tHalf a\nquestion?\tOther?\t1\n")
    notes = Notes()
    assert len(task("qqp").read("train", notes)) == 2
    assert notes.counts == {"skipped, fields missing": 2}


def test_the_diagnostic_set_is_a_test_for_models_of_mnli(task, tmp_path):
    write(tmp_path / "MNLI", "diagnostic.tsv", "index\tsentence1\tsentence2\n0\tA\tB\n")
    assert len(task("ax").read("test", Notes())) == 1
    write(tmp_path / "diagnostic", "diagnostic.tsv", "index\tsentence1\tsentence2\n0\tA\tB\n1\tC\tD\n")
    assert len(task("ax").read("test", Notes())) == 2
    with pytest.raises(TaskError, match="ax has no train split"):
        task("ax").read("train", Notes())


def wrong(*parts: str):
    return pytest.param(*parts, id=parts[0][:30])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        wrong("index\tsentence1\tlabel\n0\tA\t1\n", "has no column 'sentence2'; found index, sentence1, label"),
        wrong("index\tsentence1\tsentence2\tlabel\n0\tA\tB\tmaybe\n", "line 2: unknown label 'maybe'.*known: entail"),
        wrong(
            'index\tsentence1\tsentence2\tlabel\n0\t"A\tB"\tC\tentailment\n', "line 2: 5 fields, but the header has 4"
        ),
        wrong("index\tsentence1\tsentence2\tlabel\n", "the dev split of rte has no examples"),
        wrong("", "the dev split of rte has no examples"),
    ],
)
def test_a_wrong_file_is_one_line(task, tmp_path, content, reason):
    write(tmp_path / "RTE", "dev.tsv", content)
    with pytest.raises(TaskError, match=reason) as caught:
        task("rte").read("dev", Notes())
    assert "\n" not in str(caught.value)


def test_a_missing_file_names_what_is_there(task, tmp_path):
    write(tmp_path / "RTE", "train_part.tsv", FILES["rte"][1])
    with pytest.raises(TaskError, match=r"no train\.tsv in .*; found train_part\.tsv; name another with train_file"):
        task("rte").read("train", Notes())
    assert len(task("rte", "train_file=train_part.tsv").read("train", Notes())) == 2


def test_a_missing_folder_is_named(task, tmp_path):
    with pytest.raises(TaskError, match=r"no folder .*nowhere"):
        task("rte", data=tmp_path / "nowhere").read("train", Notes())
    (tmp_path / "train.tsv").touch()
    with pytest.raises(TaskError, match=r"train\.tsv is a file; set data=DIR to the folder with"):
        task("rte", data=tmp_path / "train.tsv").read("train", Notes())
    with pytest.raises(TaskError, match="set data=DIR"):
        task("rte", data="").read("train", Notes())


def test_a_named_file_takes_the_place_of_a_split_of_the_hub(task, tmp_path, monkeypatch):
    import datasets

    record = {"sentence1": "A", "sentence2": "B", "label": 0, "idx": 7}
    monkeypatch.setattr(datasets, "load_dataset", lambda name, config, split, streaming: [record])
    mine = write(tmp_path, "mine.tsv", FILES["rte"][1])
    rte = task("rte", f"train_file={mine}", data="someone/glue")
    assert [example.texts for example in rte.read("train", Notes())] == [("A cat", "A dog"), ("A", "A")]
    assert [example.id for example in rte.read("dev", Notes())] == [7]
    with pytest.raises(TaskError, match=r"no nothing\.tsv in "):
        task("rte", "train_file=nothing.tsv", data="someone/glue").read("train", Notes())


def test_parquet_files_of_the_hubs_dataset_are_read(task, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "mnli").mkdir()
    columns = {"premise": ["A cat", "x"], "hypothesis": ["An animal", "y"], "label": [0, 2], "idx": [4, 5]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "mnli" / "validation_matched-00000-of-00001.parquet")
    hidden = columns | {"label": [-1, -1]}
    parquet.write_table(pyarrow.table(hidden), tmp_path / "mnli" / "test_matched-00000-of-00001.parquet")
    first, second = task("mnli").read("dev", Notes())
    assert (first.texts, first.label, first.id) == (("A cat", "An animal"), "entailment", 4)
    assert second.label == "contradiction"
    assert task("mnli").read("test", Notes())[0].label is None


def test_a_submission_has_the_benchmarks_files(task, tmp_path):
    similar = task("sts-b")
    write(tmp_path / "STS-B", "test.tsv", "index\tsentence1\tsentence2\n0\tA\tB\n1\tA\tA\n")
    examples = similar.read("test", Notes())
    found = similar.files(examples, [{"value": 2.34567}, {"value": 5.4}])
    assert found == {"STS-B.tsv": "index\tprediction\n0\t2.346\n1\t5.000\n"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pairs.csv", 'sentence1,sentence2\n"A, b",C\n'),
        ("pairs.jsonl", '{"sentence1": "A, b", "sentence2": "C"}\n'),
        ("pairs.tsv", "index\tsentence1\tsentence2\n3\tA, b\tC\n"),
        ("pairs.txt", "A, b\tC\n"),
        ("mixed.txt", '{"sentence1": "A, b", "sentence2": "C"}\n\n'),
    ],
)
def test_new_examples_come_from_tables_or_lines(task, tmp_path, name, content):
    (example,) = task("rte").inputs(str(write(tmp_path, name, content)), Notes())
    assert example.texts == ("A, b", "C")


def test_a_text_that_is_null_is_empty(task, tmp_path):
    path = write(tmp_path, "pairs.jsonl", '{"sentence1": null, "sentence2": "C"}\n')
    (example,) = task("rte").inputs(str(path), Notes())
    assert example.texts == ("", "C")


@pytest.mark.parametrize(("ending", "tab"), [("csv", ","), ("tsv", "\t")])
@pytest.mark.parametrize("header", [("#1 String", "#2 String"), ("sentence1", "sentence2")])
def test_new_examples_may_have_the_columns_of_the_files_or_of_the_hub(task, tmp_path, header, ending, tab):
    path = write(tmp_path, f"pairs.{ending}", f"{tab.join(header)}\nA{tab}B\n")
    (example,) = task("mrpc").inputs(str(path), Notes())
    assert example.texts == ("A", "B")


@pytest.mark.parametrize("name", FILES)
def test_the_benchmarks_own_files_are_new_examples_too(task, tmp_path, name):
    found = list(task(name).inputs(str(write(tmp_path, "dev.tsv", FILES[name][1])), Notes()))
    assert [len(example.texts) for example in found] == [len(TASKS[name].columns)] * 2


def test_a_file_in_another_encoding_is_one_line(task, tmp_path):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2/dev.tsv").write_bytes(b"sentence\tlabel\ncaf\xe9\t1\n")
    with pytest.raises(TaskError, match=r"dev\.tsv is not UTF-8 \(byte 0xe9\); convert it with iconv"):
        task("sst-2").read("dev", Notes())


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("pairs.csv", "sentence1,other\nA,B\n", "line 2: no column 'sentence2'; found sentence1, other"),
        ("pairs.txt", "only one text\n", "line 1: 1 texts instead of 2"),
        ("pairs.txt", "A\tB\n\n\nC\tD\n", r"pairs\.txt line 2 is empty; each line must be an example"),
        ("pairs.txt", '{"sentence1": \n', "line 1: not a JSON record"),
        ("pairs.txt", f'{{"sentence1": {"[" * 3000}', "line 1: not a JSON record"),
        ("pairs.txt", "id,sentence1,sentence2\n1,A,B\n", "line 1 is the header of a table"),
        ("pairs.txt", "sentence1\tsentence2\nA\tB\n", "line 1 is the header of a table"),
    ],
)
def test_new_examples_that_do_not_fit_are_one_line(task, tmp_path, name, content, reason):
    with pytest.raises((TaskError, DataError), match=reason):
        list(task("rte").inputs(str(write(tmp_path, name, content)), Notes()))


def test_new_examples_that_are_skipped_are_noted(task, tmp_path):
    path, notes = write(tmp_path, "pairs.tsv", "sentence1\tsentence2\nA\nB\tC\n"), Notes()
    assert [example.texts for example in task("rte").inputs(str(path), notes)] == [("B", "C")]
    assert notes.counts == {"skipped, fields missing": 1}


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Path:
    if not SHARED.is_file():
        pytest.skip("needs the files of ../shared/data")
    folder = tmp_path_factory.mktemp("real")
    with tarfile.open(SHARED) as archive:
        archive.extractall(folder, filter="data")
    return folder / "glue"


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_real_files_have_the_official_counts(task, real, name):
    notes = Notes()
    chosen = task(name, data=real)
    assert tuple(len(chosen.read(split, notes)) for split in ("train", "dev", "test")) == OFFICIAL[name]
    assert not notes.counts


def test_a_table_that_is_written_with_quotes_is_read_so_whatever_its_columns_are_called(task, tmp_path):
    content = 'index\tsentence1\tsentence2\n0\t"He said ""hi"""\tB\n1\t"two\nlines"\tC\n'
    found = task("rte").inputs(str(write(tmp_path, "mine.tsv", content)), Notes())
    assert [example.texts for example in found] == [('He said "hi"', "B"), ("two\nlines", "C")]


def test_the_other_real_files_are_read_too(task, real):
    qnli = task("qnli", "train_file=train_reconstructed.tsv", data=real)
    assert (len(qnli.read("train", Notes())), len(qnli.read("dev", Notes()))) == (104_743, 5463)
    mnli = task("mnli", "train_file=train_partial.tsv", data=real)
    assert (len(mnli.read("train", Notes())), len(mnli.read("dev", Notes()))) == (3000, 9815)
    qqp = task("qqp", "train_file=train_partial.tsv", "dev_file=dev_unofficial.tsv", data=real)
    assert (len(qqp.read("train", Notes())), len(qqp.read("dev", Notes()))) == (41_265, 10_000)
