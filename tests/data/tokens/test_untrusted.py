"""Tokenizer files of strangers."""

import json
import os

import numpy as np
import pytest
from tokenizers import Regex, normalizers, pre_tokenizers

from electra.data.corpus.encode import tokenize_documents
from electra.data.reading.text import Passage
from electra.data.settings import Cleaning
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, load_tokenizer, wordpiece
from electra.errors import DataError

PIECES = [*SPECIAL_TOKENS, "a", "b"]


def edit(path, **changes) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("part", "chain"),
    [
        ("normalizer", normalizers.Sequence([normalizers.Replace("a", "aa")] * 40)),
        ("normalizer", normalizers.Sequence([normalizers.Replace(Regex("x?"), "x")] * 40)),
        ("normalizer", normalizers.Sequence([normalizers.ByteLevel()] * 40)),
        ("normalizer", normalizers.Prepend("a" * 1000)),
        ("pre_tokenizer", pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()] * 40)),
    ],
)
def test_a_chain_of_replacements_that_would_make_a_text_huge_is_refused(part, chain, tmp_path):
    wordpiece(PIECES).save(tmp_path)
    edit(tmp_path / "tokenizer.json", **{part: json.loads(chain.__getstate__())})
    with pytest.raises(DataError, match=r"tokenizer\.json: the tokenizer may make a text .* times longer"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer"])
def test_a_regular_expression_that_runs_for_too_long_is_an_error_of_the_tokenizer(part, tmp_path):
    endless = Regex("(a+)+$")
    steps = {"normalizer": normalizers.Replace(endless, ""), "pre_tokenizer": pre_tokenizers.Split(endless, "isolated")}
    wordpiece(PIECES).save(tmp_path)
    edit(tmp_path / "tokenizer.json", **{part: json.loads(steps[part].__getstate__())})
    tokenizer = load_tokenizer(tmp_path)
    with pytest.raises(
        DataError, match=r"^the tokenizer cannot split this text: .*retry-limit.*; use another tokenizer$"
    ):
        tokenizer.encode(["a" * 30 + "b"])
    with pytest.raises(DataError, match="cannot split this text"):
        tokenize_documents([Passage("a" * 30 + "b")], tokenizer, Cleaning(), np.dtype(np.uint16))


def test_the_usual_replacements_are_accepted(tmp_path):
    steps = [normalizers.Replace("``", '"'), normalizers.Replace(Regex(" {2,}"), " "), normalizers.NFKC()]
    steps += [normalizers.Replace(" ", "▁"), normalizers.Replace("ﬁ", "fi"), normalizers.ByteLevel()]
    wordpiece(PIECES).save(tmp_path)
    edit(tmp_path / "tokenizer.json", normalizer=json.loads(normalizers.Sequence(steps).__getstate__()))
    load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("tokenizer.json", {"normalizer": 5}, "normalizer: Input should be a valid dictionary"),
        ("tokenizer.json", {"added_tokens": [5]}, "added_tokens.0: Input should be a valid dictionary"),
        ("tokenizer_config.json", {"tokenizer_class": ["a"]}, "tokenizer_class: Input should be a valid string"),
        ("tokenizer_config.json", {"do_lower_case": "yes"}, "do_lower_case: Input should be a valid boolean"),
    ],
)
def test_an_entry_of_another_type_is_named(file, changes, message, tmp_path):
    wordpiece(PIECES).save(tmp_path)
    edit(tmp_path / file, **changes)
    with pytest.raises(DataError, match=message):
        load_tokenizer(tmp_path)


def test_an_unknown_token_that_is_not_in_the_vocabulary_is_refused(tmp_path):
    wordpiece(PIECES).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    edit(path, model=json.loads(path.read_text())["model"] | {"unk_token": "<unk>"})
    with pytest.raises(DataError, match="the vocabulary lacks its own unk_token <unk>"):
        load_tokenizer(tmp_path)


def test_half_a_character_is_refused(tmp_path):
    wordpiece(PIECES).save(tmp_path)
    edit(tmp_path / "tokenizer_config.json", sep_token="\ud800")
    with pytest.raises(DataError, match="surrogates not allowed"):
        load_tokenizer(tmp_path)


def test_settings_of_null_mean_the_default(tmp_path):
    wordpiece(PIECES).save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    edit(tmp_path / "tokenizer_config.json", do_lower_case=None, tokenize_chinese_chars=None)
    assert load_tokenizer(tmp_path).encode(["A"])[0].tokens == ["a"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_or_a_device_is_not_a_tokenizer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(DataError, match="is neither a file nor a folder; give a tokenizer"):
            load_tokenizer(path)
