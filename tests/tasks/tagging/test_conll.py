import tarfile
from pathlib import Path

import pytest

from electra.config.load import load_finetune_config
from electra.config.tasks import TaggingConfig
from electra.errors import TaskError
from electra.tasks.base import Notes
from electra.tasks.build import build_task
from electra.tasks.tagging.conll import read_sentences
from electra.tasks.tagging.task import Sentence

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
TEXT = """-DOCSTART- -X- O

the DT B-NP
chef NN I-NP
ate VBD B-VP

soup NN B-NP"""


def read(text: str, name: str = "train.txt", tagged: bool = True, **settings) -> list[Sentence]:
    return list(read_sentences(text.split("\n"), name, TaggingConfig(**settings), tagged))


def test_sentences_end_at_blank_lines_and_at_the_end_of_the_file():
    assert read(TEXT) == [
        Sentence(("the", "chef", "ate"), ("B-NP", "I-NP", "B-VP"), "train.txt line 3"),
        Sentence(("soup",), ("B-NP",), "train.txt line 7"),
    ]


def test_the_columns_can_be_set():
    assert [sentence.tags for sentence in read(TEXT, tag_column=2)] == [("DT", "NN", "VBD"), ("NN",)]
    assert read(TEXT, word_column=2)[1].words == ("NN",)


def test_tags_are_passed_over_where_they_are_not_wanted():
    assert read("the\nchef", tagged=False) == [Sentence(("the", "chef"), None, "train.txt line 1")]
    assert read(TEXT, tagged=False)[1].tags is None


def test_a_word_between_tabs_may_hold_spaces():
    assert read("New York\tB-LOC\nis\tO")[0].words == ("New York", "is")


def test_conllu_has_comments_and_words_in_parts():
    text = "# text = don't go\n1-2\tdon't\t_\t_\n1\tdo\tdo\tAUX\n2\tn't\tnot\tPART\n2.1\tx\tx\tX\n3\tgo\tgo\tVERB\n"
    for name in ("dev.conllu", "dev.conllu.gz"):
        (sentence,) = read(text, name)
        assert (sentence.words, sentence.tags) == (("do", "n't", "go"), ("AUX", "PART", "VERB"))


def test_a_number_sign_is_a_word_in_plain_columns():
    assert read("# SYM O")[0].words == ("#",)


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("the DT O\nchef NN", {}, r"train\.txt line 2: 2 columns, but the first line has 3; every word needs a tag"),
        ("the\nchef", {}, r"train\.txt line 1: column 1 would be both word and tag"),
        ("the O", {"tag_column": 3}, r"train\.txt line 1: tagging\.tag_column is 3, but the line has 2"),
        ("the O", {"word_column": 9}, r"tagging\.word_column is 9, but the line has 2"),
    ],
)
def test_lines_without_their_tag_are_refused(text, settings, message):
    with pytest.raises(TaskError, match=message):
        read(text, **settings)


def test_an_empty_tag_is_refused():
    with pytest.raises(TaskError, match=r"train\.txt line 1: an empty tag; every word needs a tag"):
        read("the\tB-NP\nchef\t\n")


def test_sentences_to_tag_have_a_word_a_line(task, tmp_path):
    (tmp_path / "train.txt").write_text(TEXT)
    new = tmp_path / "new.txt"
    chunking = task("chunking")
    for text in ("the\nchef\n", "the DT B-NP\nchef NN I-NP\n"):
        new.write_text(text)
        assert [sentence.words for sentence in chunking.inputs(str(new), Notes())] == [("the", "chef")]
    new.write_text("the\n" * 100 + "the chef ate soup\n")
    message = (
        r"new\.txt line 101: 4 columns, but the training file has 3; write one word per line, and a blank line after"
    )
    with pytest.raises(TaskError, match=message):
        list(chunking.inputs(str(new), Notes()))
    new.write_text("the chef ate soup\n")
    before = {name: value for name, value in chunking.describe().items() if name != "width"}
    config = load_finetune_config("tagging", ["task=chunking", f"data={tmp_path}"])
    assert next(build_task(config, before).inputs(str(new), Notes())).words == ("the",)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("new.csv", 'id,text\n1,"the chef, ate"\n'),
        ("new.jsonl", '{"text": "the chef, ate"}\n'),
        ("new.jsonl", '{"words": ["the", "chef,", "ate"]}\n'),
    ],
)
def test_sentences_to_tag_may_be_in_a_table(task, tmp_path, name, content):
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / name).write_text(content)
    found = [sentence.words for sentence in task("chunking").inputs(str(tmp_path / name), Notes())]
    assert found == [("the", "chef,", "ate")]


@pytest.mark.parametrize("text", ["the chef ate soup\nsoup\n", "the chef ate\n", "\nthe chef ate\n\nsoup boils\n"])
def test_sentences_to_tag_may_be_plain_lines(task, tmp_path, text):
    (tmp_path / "train.txt").write_text(TEXT)
    new = tmp_path / "new.txt"
    new.write_text(text)
    notes = Notes()
    sentences = task("chunking").inputs(str(new), notes)
    assert [sentence.words for sentence in sentences] == [tuple(line.split()) for line in text.split("\n") if line]
    assert set(notes.counts) == {"lines were read as sentences, with words separated by spaces"}


def test_without_a_dev_file_the_test_file_is_scored_and_noted(task, tmp_path):
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "test.txt").write_text("a B-NP\ndog I-NP\n")
    notes = Notes()
    assert len(task("chunking").read("dev", notes)) == 1
    assert notes.counts == {"sentences of the test file, because there is no dev file": 1}
    (tmp_path / "valid.conll").write_text("a B-NP\n\ndog B-NP\n")
    assert len(task("chunking").read("dev", Notes())) == 2


def test_a_file_may_be_named_by_a_path_of_its_own(task, tmp_path):
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/mine.txt").write_text("a B-NP\n")
    for name in (tmp_path / "elsewhere/mine.txt", "elsewhere/mine.txt"):
        assert len(task("chunking", f"dev_file={name}").read("dev", Notes())) == 1


def test_files_are_found_in_a_folder_of_the_tasks_name(task, tmp_path):
    (tmp_path / "conll2000").mkdir()
    (tmp_path / "conll2000" / "train.txt").write_text(TEXT)
    assert task("chunking").labels == ("B-NP", "B-VP", "I-NP")


def test_a_missing_file_names_what_is_there(task, tmp_path):
    (tmp_path / "notes.md").write_text("")
    with pytest.raises(TaskError, match=r"no train\.\* in .*; found notes\.md; name it with train_file=FILE"):
        task("ner")


def test_an_empty_file_is_refused(task, tmp_path):
    (tmp_path / "train.txt").write_text("\n\n")
    with pytest.raises(TaskError, match=r"train\.txt has no sentences"):
        task("pos")


def test_plain_tags_are_no_spans(task, tmp_path):
    (tmp_path / "train.txt").write_text("the DT\nchef NN\n")
    assert task("pos").metric == "accuracy"
    with pytest.raises(TaskError, match=r"do not mark spans, .* found DT, NN …; set tagging\.tag_column, or task=pos"):
        task("ner")


@pytest.mark.parametrize("tags", ["I-NP I-NP B-NP", "B-NP I-NP B-NP", "B-NP E-NP S-NP"])
def test_every_scheme_becomes_the_networks_own(task, tmp_path, tags):
    (tmp_path / "train.txt").write_text("".join(f"word {tag}\n" for tag in tags.split()))
    assert task("ner").labels == ("B-NP", "I-NP")
    assert task("ner", "tagging.scheme=bioes").labels == ("B-NP", "E-NP", "S-NP")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the tasks of ../shared/data")
def test_conll_2000_has_its_official_number_of_sentences(task, tmp_path):
    with tarfile.open(SHARED / "tasks/conll2000.tar.xz") as pack:
        pack.extractall(tmp_path, filter="data")
    chunking = task("chunking")
    assert (len(chunking.read("train", Notes())), len(chunking.read("test", Notes()))) == (8936, 2012)
    assert len(chunking.labels) == 22
