import numpy as np
import pytest
import torch

from electra.errors import DataError
from electra.model.bodies import build_body
from electra.model.huggingface import write_network
from electra.model.networks import TaskNetwork
from electra.model.pretrained import Pretrained
from electra.model.sentences import SentenceHead
from electra.recipes.bench.encode import CarefulLoop, bench_encode, invent_texts, vocabulary_of
from electra.recipes.bench.timing import Row

CPU = torch.device("cpu")
TEXTS = ["a cat", "a cat sat on a mat", "the dog ate all of the soup that the chef had cooked", "it was good ."]


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    pytest.importorskip("sentence_transformers")
    found = bench_encode("tiny", 2, 16, texts=TEXTS, seconds=0, against="hf", device=CPU)
    return {row.variant: row for row in found.rows}


def test_every_variant_gets_a_row(rows):
    assert list(rows) == ["electra", "hf_pipeline", "hf_careful", "sentence_transformers"]
    assert {(row.work, row.size, row.batch, row.seq) for row in rows.values()} == {("encode", "tiny", 2, 14)}


def test_padding_is_not_counted(rows):
    tokens = sum(len(text.split()) + 2 for text in TEXTS)
    for row in rows.values():
        assert row.tokens_s == pytest.approx(tokens / row.ms * 1000, rel=1e-2)
        assert row.ratio_low <= row.ratio <= row.ratio_high


def test_sentence_vectors_are_compared_with_sentence_transformers(tiny_model, tmp_path):
    pytest.importorskip("sentence_transformers")
    network = TaskNetwork(tiny_model.encoder, SentenceHead(tiny_model.encoder.config))
    write_network(network, tmp_path, tokenizer=tiny_model.tokenizer)
    found = bench_encode([str(tmp_path)], 2, 16, texts=TEXTS, seconds=0, against="hf", device=CPU)
    assert [row.variant for row in found.rows] == [str(tmp_path), f"{tmp_path} in sentence-transformers"]
    assert found.rows[1].ratio_low <= found.rows[1].ratio <= found.rows[1].ratio_high


def test_texts_that_are_too_long_are_skipped():
    found = bench_encode("tiny", 2, 9, texts=TEXTS, seconds=0, against="none", device=CPU)
    assert [(row.variant, row.seq) for row in found.rows] == [("electra", 8)]


def test_if_there_are_no_texts_it_is_an_error():
    with pytest.raises(DataError, match="no texts to encode"):
        bench_encode("tiny", 2, 8, texts=[], seconds=0, against="none", device=CPU)


def test_if_all_texts_are_too_long_it_is_an_error():
    with pytest.raises(DataError, match="none of 1 texts has 8 tokens or fewer"):
        bench_encode("tiny", 2, 8, texts=["a " * 20], seconds=0, against="none", device=CPU)


def test_the_careful_loop_returns_our_vectors(tiny_config, tmp_path):
    pytest.importorskip("transformers")
    tokenizer = vocabulary_of(TEXTS, tiny_config.model.vocab_size)
    model = Pretrained(build_body(tiny_config.model), tokenizer)
    write_network(model.encoder, tmp_path)
    tokenizer.save(tmp_path)
    np.testing.assert_allclose(CarefulLoop(str(tmp_path), 2, CPU)(TEXTS), model.encode(TEXTS), rtol=1e-4, atol=1e-5)


def test_invented_texts_have_mixed_lengths_up_to_the_maximum():
    lengths = [len(text.split()) for text in invent_texts(1000, most_words=126)]
    assert min(lengths) >= 1
    assert max(lengths) <= 126
    assert np.quantile(lengths, 0.9) > 2 * np.median(lengths)


def test_the_vocabulary_has_the_most_common_words():
    tokenizer = vocabulary_of(["the the the cat cat sat"], size=7)
    assert tokenizer.encode(["the cat sat"])[0].tokens == ["the", "cat", "[UNK]"]
