import hashlib
import json
from pathlib import Path

import pytest

from electra.data.corpus.shards import open_corpus
from electra.data.corpus.verify import VERIFIED, check_corpus, verify_corpus
from electra.errors import CheckpointError, DataError

from .building import build, write_text

SHARDS = ["train-00000.npy", "train-00000.documents.npy", "train-00001.npy", "train-00001.documents.npy"]
FILES = [*SHARDS, "tokenizer/tokenizer.json"]


@pytest.fixture
def corpus(tmp_path):
    return build(write_text(tmp_path / "a.txt", 20), tmp_path / "corpus", heldout=0).path


def change_last_byte(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("file", FILES)
def test_one_changed_byte_is_found(corpus, file):
    check_corpus(open_corpus(corpus))  # was intact before
    change_last_byte(corpus / file)
    assert verify_corpus(corpus) == [f"{file} does not match its checksum in the manifest"]
    with pytest.raises(DataError, match=rf"corpus is damaged: {file} does not match .*; delete it and build it again"):
        check_corpus(open_corpus(corpus))


def test_a_damaged_corpus_is_not_trusted_when_it_is_built_again(tmp_path):
    text = write_text(tmp_path / "a.txt", 20)
    change_last_byte(build(text, tmp_path / "corpus").path / FILES[0])
    with pytest.raises(DataError, match="is damaged"):
        build(text, tmp_path / "corpus")


def test_a_missing_file_is_found(corpus):
    (corpus / "train-00000.documents.npy").unlink()
    with pytest.raises(DataError, match=r"is damaged: train-00000\.documents\.npy is missing"):
        check_corpus(open_corpus(corpus))


def test_a_damaged_config_of_the_tokenizer_is_found(corpus):
    check_corpus(open_corpus(corpus))
    path = corpus / "tokenizer/tokenizer_config.json"
    path.with_name("checksums.json").unlink()  # as in corpora of earlier versions
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_lower_case": False}))
    assert verify_corpus(corpus) == ["tokenizer/tokenizer_config.json has changed"]
    with pytest.raises(DataError, match=r"tokenizer_config\.json has changed; delete it and build it again"):
        check_corpus(open_corpus(corpus))


def test_a_damaged_vocabulary_is_found(corpus):
    check_corpus(open_corpus(corpus))
    change_last_byte(corpus / "tokenizer/vocab.txt")
    with pytest.raises(CheckpointError, match=r"vocab\.txt has changed since it was written"):
        check_corpus(open_corpus(corpus))


@pytest.fixture
def hashed(monkeypatch):
    """Return a list that grows by the name of each shard that is hashed."""
    names = []
    digest = hashlib.file_digest

    def record(stream, algorithm):
        names.extend(name for name in [Path(stream.name).name] if name.endswith(".npy"))
        return digest(stream, algorithm)

    monkeypatch.setattr(hashlib, "file_digest", record)
    return names


def test_only_changed_files_are_read_again(corpus, hashed):
    check_corpus(open_corpus(corpus))
    assert sorted(hashed) == sorted(SHARDS)
    hashed.clear()
    check_corpus(open_corpus(corpus))
    assert hashed == []
    (corpus / FILES[0]).touch()
    check_corpus(open_corpus(corpus))
    assert hashed == [FILES[0]]
    verify_corpus(corpus)
    assert len(hashed) == 1 + len(SHARDS)  # never skips a file


def test_a_check_of_some_files_remembers_those_of_others(corpus, hashed):
    check_corpus(open_corpus(corpus), FILES[:1])
    check_corpus(open_corpus(corpus), FILES[1:2])
    check_corpus(open_corpus(corpus), FILES[:2])
    assert hashed == FILES[:2]


def test_a_corpus_that_cannot_be_written_to_is_read_every_time(corpus, hashed):
    (corpus / VERIFIED).mkdir()
    for _ in range(2):
        check_corpus(open_corpus(corpus))
    assert len(hashed) == 2 * len(SHARDS)


@pytest.mark.parametrize("content", ["", "[]", '{"content": {}}'])
def test_a_damaged_record_of_earlier_checks_is_ignored(corpus, hashed, content):
    (corpus / VERIFIED).write_text(content)
    check_corpus(open_corpus(corpus))
    assert len(hashed) == len(SHARDS)


def test_wrong_counts_are_found(corpus):
    path = corpus / "manifest.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "documents": values["documents"] + 1}))
    assert verify_corpus(corpus) == ["the manifest says 21 documents, but its shards have 20"]
    values["splits"]["train"][0]["documents"] += 7
    path.write_text(json.dumps(values))
    with pytest.raises(DataError, match=r"documents\.npy: found uint32 of shape"):
        verify_corpus(corpus)
