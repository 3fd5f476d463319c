import pytest

from electra.data.corpus.build import build_corpus
from electra.data.corpus.show import show_sequences
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.errors import DataError

TOKENIZER = wordpiece([*SPECIAL_TOKENS, *"abcdefgh"])


@pytest.fixture
def shown(tmp_path):
    def build(cut: str) -> list[list[str]]:
        (tmp_path / "a.txt").write_text("a b c\n\n" + "\n".join(["d e f g h a b"] * 3))
        corpus = build_corpus(
            tmp_path / "a.txt", TOKENIZER, length=16, out=tmp_path / cut, cut=cut, heldout=0, workers=0
        )
        return [text.split("\n") for text in show_sequences(corpus, 10)]

    return build


def test_packed_sequences_show_where_documents_begin_and_continue(shown):
    first, second = shown("packed")
    assert first == ["train-00000.npy sequence 0", "¶ [CLS] a b c [SEP]", "¶ [CLS] d e f g h a b d e [SEP]"]
    assert second == ["train-00000.npy sequence 1", "… [CLS] f g h a b d e f g h a b [SEP]", "  [PAD] x 2"]


def test_the_papers_sequences_show_both_segments(shown):
    lines = shown("paper")[1]
    assert lines[1].startswith("¶ [CLS] d e f g h a b")
    assert all(line.endswith("[SEP]") for line in lines[1:3])


def test_unknown_pieces_are_shown(tmp_path):
    (tmp_path / "a.txt").write_text("a ? b")
    corpus = build_corpus(tmp_path / "a.txt", TOKENIZER, length=16, out=tmp_path / "corpus", heldout=0, workers=0)
    assert "¶ [CLS] a [UNK] b [SEP]" in show_sequences(corpus, 1)[0]


def test_sequences_come_from_every_shard(tmp_path):
    (tmp_path / "a.txt").write_text("\n\n".join(["a b c d e f g h " * 20] * 9))
    options = {"length": 16, "heldout": 0, "workers": 0, "shard_characters": 300}
    corpus = build_corpus(tmp_path / "a.txt", TOKENIZER, out=tmp_path / "corpus", **options)
    titles = [text.split("\n")[0] for text in show_sequences(corpus, 1000)]
    assert titles == [
        f"{shard.file} sequence {row}" for shard in corpus.manifest.splits["train"] for row in range(shard.sequences)
    ]


@pytest.mark.parametrize("file", ["train-00000.npy", "train-00000.documents.npy"])
def test_a_damaged_shard_is_not_shown(tmp_path, file):
    (tmp_path / "a.txt").write_text("a b\n\nc d")
    corpus = build_corpus(tmp_path / "a.txt", TOKENIZER, length=16, out=tmp_path / "corpus", heldout=0, workers=0)
    content = (corpus.path / file).read_bytes()
    (corpus.path / file).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match=f"is damaged: {file} does not match its checksum in the manifest"):
        show_sequences(corpus, 1)
