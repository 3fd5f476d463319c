"""Pre-training on several corpora, each with its share."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from electra.data.corpus.build import build_corpus
from electra.errors import ConfigError
from electra.recipes.corpora import Corpora
from electra.recipes.pretrain import check, pretrain


@pytest.mark.parametrize(("weights", "warned"), [(None, False), ([1.0, 3.0], True)])
def test_of_a_mixture_the_part_that_is_read_most_often_counts(
    config, corpus, tokenizer, records, tmp_path, weights, warned
):
    (tmp_path / "text.txt").write_text("the chef ate the soup .\n\n" * 8)
    build_corpus(
        [tmp_path / "text.txt"], tokenizer, length=16, cut="packed", out=tmp_path / "few", heldout=0.0, workers=0
    )
    mixture = [f'data=["{corpus}", "{tmp_path / "few"}"]', *([f"data_weights={weights}"] if weights else [])]
    run = pretrain(config(*mixture, "train.steps=30"))
    assert any("runs dry" in line.get("warning", "") for line in records(run)) == warned


@pytest.mark.parametrize(
    ("heldout", "weights", "first"), [(0.1, [1.0, 1e-4], True), (0.1, [1e-4, 1.0], False), (0.0, [1e-4, 1.0], True)]
)
def test_held_out_text_is_mixed_as_the_text_is(config, corpus, tokenizer, tmp_path, heldout, weights, first):
    documents = (f"{number:09b}".replace("0", "o ").replace("1", "x ") for number in range(400))
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    build_corpus(
        [tmp_path / "text.txt"], tokenizer, length=16, cut="packed", out=tmp_path / "other", heldout=heldout, workers=0
    )
    folders = json.dumps([str(corpus), str(tmp_path / "other")])
    run = pretrain(config(f"data={folders}", f"data_weights={weights}", "train.steps=1"))
    assert ('"original": [" the"' in (run / "samples.jsonl").read_text()) == first


@pytest.mark.parametrize(("corpora", "weights"), [(1, []), (2, [1.0]), (2, [1.0, 2.0, 3.0])])
def test_corpora_and_weights_of_different_number_are_refused(config, corpus, corpora, weights):
    mixture = config(f"data={json.dumps([str(corpus)] * corpora)}", f"data_weights={weights}")
    for start in (check, pretrain):
        with pytest.raises(ConfigError, match=rf"{len(weights)} weights for {corpora} corpora; give one for each$"):
            start(mixture)


def test_the_unigram_generator_knows_a_mixture_by_its_weights():
    special = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}

    def corpus(*tokens):
        shard = np.array([[2, *tokens, 3]])
        return SimpleNamespace(shards=lambda split: [shard], manifest=SimpleNamespace(special_ids=special))

    corpora = Corpora.__new__(Corpora)
    corpora.extend([corpus(5, 5, 5, 6), corpus(6, 1)])
    corpora.weights = None
    assert corpora.token_counts(7).tolist() == [0, 1, 0, 0, 0, 3, 2]
    corpora.weights = [1.0, 3.0]
    mixed = corpora.token_counts(7)
    assert mixed.sum() == 6
    assert (mixed / 6).tolist() == pytest.approx([0, 0.375, 0, 0, 0, 0.1875, 0.4375])
