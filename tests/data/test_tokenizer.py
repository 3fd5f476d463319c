import json

import pytest

from electra.data.tokenizer import SPECIAL_TOKENS, Tokenizer, load_tokenizer, wordpiece
from electra.errors import DataError

PIECES = [*SPECIAL_TOKENS, "un", "##aff", "##able", "[", "]", "mask", "the", "cafe", "café", "a", "b"]


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.encode([text])[0].tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unaffable", ["un", "##aff", "##able"]),
        ("[MASK] the", ["[", "mask", "]", "the"]),
        ("a" * 201, ["[UNK]"]),
        ("Café", ["cafe"]),
        ("a\u00a0b", ["a", "b"]),
        ("a\u0000b the", ["[UNK]", "the"]),
        ("", []),
    ],
)
def test_text_splits_as_the_original_splits_it(text, expected):
    assert pieces(wordpiece(PIECES), text) == expected


def test_accents_can_be_kept():
    assert pieces(wordpiece(PIECES, strip_accents=False), "Café") == ["café"]


def test_a_saved_tokenizer_loads_equal(tmp_path):
    wordpiece(PIECES, strip_accents=False).save(tmp_path)
    for source in (tmp_path, tmp_path / "tokenizer.json", tmp_path / "vocab.txt"):
        loaded = load_tokenizer(source)
        assert pieces(loaded, "Café [MASK]") == ["café", "[", "mask", "]"]
        assert (loaded.pad_id, loaded.mask_id, loaded.vocab_size) == (0, 4, len(PIECES))


def test_a_saved_tokenizer_loads_in_transformers(tmp_path):
    from transformers import AutoTokenizer

    wordpiece(PIECES).save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs("The unaffable", "cafe")["input_ids"] == [2, 11, 5, 6, 7, 3, 12, 3]
    assert theirs.mask_token_id == 4


def test_a_vocabulary_without_special_tokens_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("the\nof\n")
    with pytest.raises(DataError, match=r"lacks the special tokens \[PAD\]"):
        load_tokenizer(tmp_path)


def test_a_broken_tokenizer_file_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": 1}))
    with pytest.raises(DataError, match="not a tokenizer"):
        load_tokenizer(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)
