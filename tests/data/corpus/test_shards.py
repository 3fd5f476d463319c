import os

import numpy as np
import pytest

from electra.data.corpus.build import build_corpus
from electra.data.corpus.cut import Frame, Row
from electra.data.corpus.shards import ShardWriter, dtype_for, open_corpus
from electra.data.corpus.verify import verify_corpus
from electra.data.files import file_sha256
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.errors import DataError

FRAME = Frame(4, 2, 3, 0, np.dtype("<u2"))


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "a.txt").write_text("a b\n\nb a\n\n" * 50)
    tokenizer = wordpiece([*SPECIAL_TOKENS, "a", "b"])
    return build_corpus(tmp_path / "a.txt", tokenizer, length=16, out=tmp_path / "corpus", workers=0).path


def test_a_shard_is_a_plain_numpy_file(tmp_path):
    writer = ShardWriter(tmp_path, "train-00000.npy", FRAME)
    for number in range(1000):
        writer.write([Row(np.array([2, number, 3, 0], np.uint16), 1, (0,) if number % 2 else ())])
    shard = writer.finish()
    ids = np.load(tmp_path / "train-00000.npy")
    assert (ids.shape, ids.dtype, ids[:, 1].tolist()) == ((1000, 4), np.uint16, list(range(1000)))
    assert np.load(tmp_path / shard.documents_file).tolist() == [[number, 0] for number in range(1, 1000, 2)]
    assert (shard.sequences, shard.tokens, shard.documents) == (1000, 1000, 500)
    assert shard.sha256 == file_sha256(tmp_path / shard.file)


def test_a_shard_does_not_appear_before_it_is_complete(tmp_path):
    writer = ShardWriter(tmp_path, "train-00000.npy", FRAME)
    writer.write([Row(np.array([2, 7, 3, 0], np.uint16), 1, ())])
    writer.close()
    assert not list(tmp_path.glob("*.npy"))


def test_an_empty_shard_leaves_nothing(tmp_path):
    assert ShardWriter(tmp_path, "train-00000.npy", FRAME).finish() is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("vocab_size", "name"), [(30_522, "uint16"), (65_536, "uint16"), (65_537, "uint32")])
def test_ids_take_as_few_bytes_as_the_vocabulary_allows(vocab_size, name):
    assert dtype_for(vocab_size).name == name


def test_a_corpus_round_trips(corpus):
    opened = open_corpus(corpus)
    [shard] = opened.shards("train")
    assert shard.shape == (opened.manifest.splits["train"][0].sequences, 16)
    [starts] = opened.documents("train")
    assert all(shard[sequence, offset] == opened.manifest.special_ids["cls"] for sequence, offset in starts)
    assert verify_corpus(corpus) == []


def test_a_folder_without_a_corpus_is_refused(tmp_path):
    with pytest.raises(
        DataError, match=r"is not a corpus; build one with: electra corpus TEXT\.\.\. --tokenizer T --length N --out"
    ):
        open_corpus(tmp_path)
    with pytest.raises(
        DataError, match=r"no corpus at .*nowhere; build one with: electra corpus .* --length N --out .*nowhere"
    ):
        open_corpus(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ["no json", "[]", '{"tokens": 1}', "[" * 100_000], ids=range(4))
def test_a_broken_manifest_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json is not a corpus manifest"):
        open_corpus(tmp_path)


def test_a_shard_of_the_wrong_shape_is_refused(corpus):
    np.save(corpus / "train-00000.npy", np.zeros((3, 16), np.uint16))
    with pytest.raises(DataError, match=r"uint16 of shape \(3, 16\), but the manifest says uint16 of"):
        open_corpus(corpus).shards("train")


def test_a_missing_shard_is_refused(corpus):
    (corpus / "train-00000.npy").unlink()
    with pytest.raises(DataError, match="No such file or directory; check with: electra corpus --verify"):
        open_corpus(corpus).shards("train")
    assert verify_corpus(corpus) == ["train-00000.npy is missing"]


def test_a_named_pipe_instead_of_a_shard_is_refused(corpus):
    (corpus / "train-00000.npy").unlink()
    os.mkfifo(corpus / "train-00000.npy")
    with pytest.raises(DataError, match=r"train-00000\.npy: a named pipe, not a file; check with"):
        open_corpus(corpus).shards("train")


def test_an_empty_shard_file_is_refused(corpus):
    (corpus / "train-00000.npy").write_bytes(b"")
    with pytest.raises(DataError, match=r"train-00000\.npy: No data left in file; check with: electra corpus --verify"):
        open_corpus(corpus).shards("train")
