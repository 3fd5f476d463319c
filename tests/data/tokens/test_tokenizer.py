import json
import lzma
from itertools import islice
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from electra.data.tokens.tokenizer import SPECIAL_TOKENS, Tokenizer, framed, load_tokenizer, wordpiece
from electra.errors import DataError

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
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
def test_text_is_split_as_by_the_original(text, expected):
    assert pieces(wordpiece(PIECES), text) == expected


def test_accents_can_be_kept():
    assert pieces(wordpiece(PIECES, strip_accents=False), "Café") == ["café"]


def test_a_saved_tokenizer_round_trips(tmp_path):
    wordpiece(PIECES, strip_accents=False).save(tmp_path)
    for source in (tmp_path, tmp_path / "tokenizer.json", tmp_path / "vocab.txt"):
        loaded = load_tokenizer(source)
        assert pieces(loaded, "Café [MASK]") == ["café", "[", "mask", "]"]
        assert (loaded.pad_id, loaded.mask_id, loaded.vocab_size) == (0, 4, len(PIECES))


def test_a_saved_tokenizer_loads_in_transformers(tmp_path):
    from transformers import AutoTokenizer

    wordpiece(PIECES).of_length(6).save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    found = theirs("The unaffable", "cafe")
    assert found["input_ids"] == [2, 11, 5, 6, 7, 3, 12, 3]
    assert found["token_type_ids"] == [0, 0, 0, 0, 0, 0, 1, 1]
    assert theirs.mask_token_id == 4
    assert len(theirs("The unaffable cafe", truncation=True)["input_ids"]) == 6
    assert load_tokenizer(tmp_path).longest == 6


@pytest.mark.parametrize("types", [True, False])
def test_a_saved_tokenizer_states_its_inputs(tmp_path, types):
    """Otherwise transformers 5.3 and earlier return no token types for a model folder."""
    wordpiece(PIECES).save(tmp_path, types)
    stated = json.loads((tmp_path / "tokenizer_config.json").read_text())["model_input_names"]
    assert stated == ["input_ids", *["token_type_ids"] * types, "attention_mask"]


@pytest.mark.parametrize("said", [10**30, None, "512", 2, -1])
def test_an_invalid_maximum_length_is_ignored(tmp_path, said):
    wordpiece(PIECES).save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": said}))
    assert load_tokenizer(tmp_path).longest is None


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


@pytest.mark.parametrize("part", ["tokenizer", "model"])
def test_the_tokenizer_of_a_corpus_or_a_run_is_found(tmp_path, part):
    tokenizer = wordpiece(PIECES)
    tokenizer.save(tmp_path / part)
    assert load_tokenizer(tmp_path).encode(["the cat"])[0].ids == tokenizer.encode(["the cat"])[0].ids


def test_a_cased_vocabulary_keeps_the_case(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "[unused1]", "The", "the"]))
    assert pieces(load_tokenizer(tmp_path), "The the") == ["The", "the"]


def test_settings_next_to_a_vocabulary_are_used(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "The", "the", "日本"]))
    settings = {"do_lower_case": True, "tokenize_chinese_chars": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert pieces(load_tokenizer(tmp_path), "The 日本") == ["the", "日本"]


def bpe_file(folder, *, names, merges=()):
    letters = [*names, *"<maskpdcle>[]/su", *("".join(pair) for pair in merges)]
    backend = tokenizers.Tokenizer(
        models.BPE(
            {piece: number for number, piece in enumerate(dict.fromkeys(letters))}, list(merges), unk_token="<unk>"
        )
    )
    backend.save(str(folder / "tokenizer.json"))


OTHER_NAMES = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": {"content": "</s>", "lstrip": False},
    "mask_token": "<mask>",
}


def test_other_names_of_special_tokens_are_read_from_the_settings(tmp_path):
    bpe_file(tmp_path, names=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(OTHER_NAMES))
    tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.cls_id, tokenizer.pad_id, tokenizer.sep_id, tokenizer.mask_id) == (0, 1, 2, 4)
    assert pieces(tokenizer, "<s>") == ["<", "s", ">"]
    tokenizer.save(tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").names == tokenizer.names


def test_additional_special_tokens_are_recognized_in_text(tmp_path):
    wordpiece([*SPECIAL_TOKENS, "the", "cat", "[", "]", "e"]).save(tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    theirs.add_special_tokens(["[E1]"])
    theirs.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    assert pieces(tokenizer, "the [E1] cat [SEP]") == ["the", "[E1]", "cat", "[", "[UNK]", "]"]


def test_ids_without_a_piece_keep_their_place(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "", "the", "cat", "the"]) + "\n")
    tokenizer = load_tokenizer(tmp_path / "vocab.txt")
    tokenizer.save(tmp_path / "again")
    (tmp_path / "again" / "tokenizer.json").unlink()
    again = load_tokenizer(tmp_path / "again")
    assert [again.backend.token_to_id(piece) for piece in ("the", "cat")] == [8, 7]


def test_other_names_of_special_tokens_are_refused_without_settings(tmp_path):
    bpe_file(tmp_path, names=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    with pytest.raises(
        DataError, match=r"tokenizer\.json: .*lacks the special tokens \[PAD\].*mask_token in a tokeniz"
    ):
        load_tokenizer(tmp_path)


def test_a_tokenizer_that_reads_special_tokens_from_text_is_refused(tmp_path):
    bpe_file(tmp_path, names=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], merges=[("<", "s"), ("<s", ">")])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(OTHER_NAMES))
    with pytest.raises(DataError, match="the text <s> is read as that special token"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("model", [models.WordPiece, models.WordLevel])
def test_a_tokenizer_that_takes_a_word_for_a_special_token_is_refused(model):
    vocabulary = {piece: number for number, piece in enumerate([*SPECIAL_TOKENS, "a", "b"])}
    backend = tokenizers.Tokenizer(model(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    with pytest.raises(DataError, match=r"the text \[PAD\] is read as that special token"):
        Tokenizer(backend)


def test_one_token_for_two_roles_is_refused(tmp_path):
    wordpiece([*SPECIAL_TOKENS, "a"]).save(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**settings, "sep_token": "[CLS]"}))
    with pytest.raises(DataError, match=r"must be different; found \[PAD\] \[UNK\] \[CLS\] \[CLS\]"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (models.BPE({piece: number for number, piece in enumerate(SPECIAL_TOKENS)}, []), "drops unknown letters"),
        (models.Unigram([(piece, 0.0) for piece in SPECIAL_TOKENS]), "has no unk_id"),
    ],
)
def test_a_tokenizer_without_an_unknown_token_is_refused(model, message):
    with pytest.raises(DataError, match=message):
        Tokenizer(tokenizers.Tokenizer(model))


@pytest.mark.parametrize("content", ["{", "[]"])
def test_broken_settings_are_refused(tmp_path, content):
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIAL_TOKENS))
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(DataError, match=r"tokenizer_config\.json is not a tokenizer's config: "):
        load_tokenizer(tmp_path)


def test_a_vocabulary_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="the vocabulary is not UTF-8"):
        load_tokenizer(tmp_path)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the text and the vocabulary of ../shared/data")
def test_real_text_is_split_as_in_transformers():
    from transformers import BertTokenizer

    ours = load_tokenizer(SHARED / "vocab/vocab.txt")
    theirs = BertTokenizer(str(SHARED / "vocab/vocab.txt"))
    lines = []
    for name in ("wiki-00", "books-00", "korean-00", "japanese-00"):
        with lzma.open(SHARED / f"corpus/{name}.txt.xz", "rt", encoding="utf-8") as stream:
            lines += islice(filter(str.strip, stream), 2_500)
    assert len(lines) == 10_000
    expected = theirs(lines, add_special_tokens=False)["input_ids"]
    assert [encoding.ids for encoding in ours.encode(lines)] == expected


TEXTS = ["The Chef cooked café", "a  b,c", "日本 the"]


def course(backend):  # as in a well-known course
    backend.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    backend.pre_tokenizer = pre_tokenizers.Whitespace()


def byte_level(backend):
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (models.WordPiece, course),
        (lambda vocab: models.WordPiece(vocab, max_input_chars_per_word=4), None),
        (lambda vocab: models.BPE(vocab, []), None),
        (lambda vocab: models.BPE(vocab, []), byte_level),
    ],
)
def test_other_tokenizers_are_the_same_in_transformers_with_types_and_special_tokens(tmp_path, model, change):
    from transformers import AutoTokenizer

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    vocab = dict.fromkeys([*SPECIAL_TOKENS, "the", "chef", "cooked", "cafe", "Chef", "The", *"abc", *sorted(alphabet)])
    backend = tokenizers.Tokenizer(model({piece: number for number, piece in enumerate(vocab)}))
    backend.model.unk_token = "[UNK]"
    if change:
        change(backend)
    backend.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path)
    ours.save(tmp_path / "out")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in TEXTS:
        assert theirs(text)["input_ids"] == [ours.cls_id, *ours.encode([text])[0].ids, ours.sep_id]
    first, second = (encoding.ids for encoding in ours.encode(["the chef", "a b"]))
    pair = theirs("the chef", "a b")
    assert pair["input_ids"] == [ours.cls_id, *first, ours.sep_id, *second, ours.sep_id]
    assert pair["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def metaspace(backend):
    backend.pre_tokenizer = pre_tokenizers.Metaspace()


@pytest.mark.parametrize("change", [course, byte_level, metaspace])
def test_words_have_the_pieces_that_they_have_in_a_text(change):
    starts = ("the", "\u0120the", "\u2581the")
    vocab = [*SPECIAL_TOKENS, *starts, *"chef", *sorted(pre_tokenizers.ByteLevel.alphabet()), "\u2581"]
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(vocab))}
    merges = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("\u2581", "the")]
    backend = tokenizers.Tokenizer(models.BPE(numbers | {"th": len(numbers)}, merges, unk_token="[UNK]"))
    change(backend)
    tokenizer = framed(backend)
    (words,) = tokenizer.encode_words([["the", "chef", "the"]])
    assert words.ids == tokenizer.encode(["the chef the"])[0].ids
    assert sorted({*words.word_ids}) == [0, 1, 2]


def test_offsets_of_byte_level_pieces_are_trimmed_if_the_file_says_so(tmp_path):
    vocab = dict.fromkeys([*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet())])
    backend = tokenizers.Tokenizer(models.BPE({piece: number for number, piece in enumerate(vocab)}, []))
    byte_level(backend)
    backend.post_processor = processors.ByteLevel(trim_offsets=True)
    backend.save(str(tmp_path / "tokenizer.json"))
    expected = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("a b").offsets
    load_tokenizer(tmp_path).save(tmp_path / "out")
    for folder in (tmp_path, tmp_path / "out"):
        assert load_tokenizer(folder).encode(["a b"])[0].offsets == expected


def test_a_mask_token_that_strips_the_space_before_it_is_kept(tmp_path):
    wordpiece(PIECES).save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["added_tokens"][4]["lstrip"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    load_tokenizer(tmp_path).save(tmp_path / "out")
    (mask,) = [
        token
        for token in json.loads((tmp_path / "out" / "tokenizer.json").read_text())["added_tokens"]
        if token["content"] == "[MASK]"
    ]
    assert mask["lstrip"]


def test_settings_take_precedence_over_the_tokenizer_file(tmp_path):
    from transformers import AutoTokenizer

    wordpiece([*PIECES, "The"]).save(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text()) | {"do_lower_case": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert pieces(load_tokenizer(tmp_path), "The") == AutoTokenizer.from_pretrained(tmp_path).tokenize("The") == ["The"]


@pytest.mark.parametrize("place", ["settings", "file"])
def test_added_tokens_are_read(tmp_path, place):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "the", "cat"]))
    listed = {"added_tokens_decoder": {"1": {"content": "[UNK]"}, "7": {"content": "[E1]"}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(listed if place == "settings" else {}))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[E1]": 7} if place == "file" else {}))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode(["the [E1] cat"])[0].ids == [5, 7, 6]
    assert tokenizer.vocab_size == 8


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "for BertJapaneseTokenizer, which needs a tokenizer.json"),
        ({"added_tokens_decoder": {"9": {"content": "[E1]"}}}, r"added token \[E1\] has id 9, but id 7 in the"),
        ({"added_tokens_decoder": {"x": {"content": "[E1]"}}}, "do not have integer ids"),
        ({"cls_token": {"foo": 1}}, "a token has no content"),
    ],
)
def test_invalid_or_unsupported_settings_are_refused(tmp_path, settings, said):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "the", "cat"]))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(DataError, match=said):
        load_tokenizer(tmp_path)


def test_a_pair_is_not_a_text():
    with pytest.raises(DataError, match="texts must be strings"):
        wordpiece(PIECES).encode([("the", "cafe")])


def test_a_repeated_text_is_split_once():
    first, other, again = wordpiece(PIECES).encode(["the cafe", "the", "the cafe"])
    assert again is first
    assert first.tokens != other.tokens == ["the"]
