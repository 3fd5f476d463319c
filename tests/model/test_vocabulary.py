"""A model moves to another vocabulary: shared pieces keep their embeddings, new ones are composed from old pieces."""

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from electra.config.load import load_config
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, framed, wordpiece
from electra.model.networks import Discriminator, build_networks
from electra.model.pretrained import Pretrained
from electra.model.vocabulary import compose, with_vocabulary


def unigram(*pieces):
    scores = [(piece, -1.0) for piece in (*SPECIAL_TOKENS, *pieces)]
    backend = Backend(models.Unigram(scores, unk_id=1))
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace()])
    return framed(backend)


def byte_level(*texts):
    signs = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    written = [signs.pre_tokenize_str(text)[0][0] for text in texts]
    alphabet = sorted(signs.alphabet())
    vocab = {piece: number for number, piece in enumerate(dict.fromkeys([*SPECIAL_TOKENS, *alphabet, *written]))}
    backend = Backend(models.BPE(vocab, [], unk_token="[UNK]"))
    backend.pre_tokenizer, backend.decoder = signs, decoders.ByteLevel()
    return framed(backend)


OLD = {
    "wordpiece": wordpiece([*SPECIAL_TOKENS, "the", "cook", "##ing", "##s", "中", "ᄒ", "##ᅡ", "##ᆫ"]),
    "unigram": unigram("▁the", "▁cook", "ing", "s", "中"),
    "byte-level": byte_level(" the", " cook", "ing", "s", "中"),
}
NEW = {
    "wordpiece": wordpiece([*SPECIAL_TOKENS, "the", "##ing", "cooking", "The", "##中"], lowercase=False),
    "unigram": unigram("▁the", "ing", "▁cooking", "▁The", "中"),
    "byte-level": byte_level(" the", "ing", " cooking", " The", "中"),
}


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize("old", OLD)
def test_pieces_of_any_kind_of_vocabulary_are_compared_as_text(old, new):
    spelled = {
        NEW[new].spell(number): [OLD[old].spell(part) for part in parts]
        for number, parts in enumerate(compose(OLD[old], NEW[new]))
    }
    assert (spelled[" the"], spelled["ing"], spelled[" cooking"]) == ([" the"], ["ing"], [" cook", "ing"])
    assert [part.strip() for part in spelled["中"]] == ["中"]  # BERT's tokenizer reads an ideograph as a word
    if old == "wordpiece":  # which lowercases
        assert spelled[" The"] == [" the"]


def test_special_tokens_are_matched_by_their_role():
    other = wordpiece(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], names=["<pad>", "<unk>", "<s>", "</s>", "<mask>"])
    assert compose(OLD["wordpiece"], other) == [[2], [0], [3], [1], [4]]


def test_hangul_is_composed_of_its_letters_if_the_old_vocabulary_has_only_those():
    old, (*_, parts) = OLD["wordpiece"], compose(OLD["wordpiece"], wordpiece([*SPECIAL_TOKENS, "한"], lowercase=False))
    assert [old.token(number) for number in parts] == ["ᄒ", "##ᅡ", "##ᆫ"]


@pytest.mark.parametrize("preset", ["tiny", "modern-7x256"])
@torch.no_grad()
def test_only_the_rows_of_the_vocabulary_change(preset):
    old, new = OLD["wordpiece"], wordpiece([*SPECIAL_TOKENS, "cooks", "the", "Ω"])
    sizes = [f"model.vocab_size={old.vocab_size}", "model.layers=1", "model.hidden_size=64", "model.heads=1"]
    config = load_config(preset, sizes)
    torch.manual_seed(0)
    encoder, generator = build_networks(config.model, config.objective.generator)
    corrector = encoder.token_head()
    start = Pretrained(Discriminator(encoder).plain(), old.of_length(9), generator, corrector=corrector)
    for head in (generator.head, corrector):
        torch.nn.init.normal_(head.bias)
    moved = with_vocabulary(start, new, torch.eye(new.vocab_size).roll(1, 0).to_sparse())
    assert moved.tokenizer.longest == 9
    for before, after in ((start.network, moved.network), (start.generator, moved.generator)):
        words, rows = before.vocabulary, after.vocabulary
        assert after.encoder.config.vocab_size == len(rows) == new.vocab_size
        assert torch.equal(rows[:5], words[:5])
        torch.testing.assert_close(rows[5], (words[6] + words[8]) / 2)
        assert torch.equal(rows[6], words[5])
        assert 0 < (rows[7] - words.mean(0)).abs().max() < 4 * words.std()  # of the size of the others
        theirs = before.state_dict()
        for name, weight in after.state_dict().items():
            assert name.endswith(("words.weight", "head.bias")) or torch.equal(weight, theirs[name]), name
    for before, after in ((generator.head, moved.generator.head), (corrector, moved.corrector)):
        torch.testing.assert_close(after.bias[5], before.bias[[6, 8]].mean())
        assert torch.equal(after.dense.weight, before.dense.weight)
    assert torch.equal(moved.generator.vocabulary, moved.network.vocabulary) == torch.equal(
        start.generator.vocabulary, start.network.vocabulary
    )
    assert len(moved.detect("the cooks")) == 2
