import lzma
import os
import random
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from electra.data.files import locked
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, load_tokenizer
from electra.data.tokens.vocab import read_report, train_vocab
from electra.errors import CheckpointError, DataError

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
MODELS = ["wordpiece", "unigram", "bpe"]
KOREAN = [
    " ".join(sentence)
    for sentence in product(
        ["우리는", "친구가", "선생님은"], ["학교에서", "집에서", "밤에"], ["한국어를", "책을"], ["배운다", "읽는다"]
    )
]
JAPANESE = [
    "".join(sentence)
    for sentence in product(
        ["私は", "友達が", "先生も"], ["学校で", "家で", "夜に"], ["日本語を", "カタカナを"], ["学ぶ。", "読む。"]
    )
]


@pytest.mark.parametrize("model", MODELS)
def test_spans_exclude_the_space_before_a_word(tmp_path, model):
    (tmp_path / "text.txt").write_text("\n".join(KOREAN))
    tokenizer = train_vocab(tmp_path / "text.txt", size=300, out=tmp_path / "tokenizer", model=model)
    text = KOREAN[0]
    spans = tokenizer.spans(tokenizer.encode([text])[0], text)
    assert "".join(text[start:end] for start, end in sorted(set(spans))) == text.replace(" ", "")


def words(seed: int, count: int) -> list[str]:
    """Return a file of made-up words, most of them equally frequent, which gives many ties."""
    draw = random.Random(seed)
    syllables = ["".join(pair) for pair in product("bdkmst", "aeiou")]
    return ["".join(draw.choices(syllables, k=draw.randint(1, 5))) for _ in range(count)]


def test_text_without_spaces_gets_a_suitable_vocabulary(tmp_path):
    draw = random.Random(1)
    thai = [chr(0x0E01 + number) for number in range(40)]
    (tmp_path / "thai.txt").write_text("\n".join("".join(draw.choices(thai, k=150)) for _ in range(200)))
    train_vocab(tmp_path / "thai.txt", size=300, out=tmp_path / "auto")
    report = read_report(tmp_path / "auto")
    assert (report.model, report.fertility.unknown_characters) == ("unigram", 0.0)
    train_vocab(tmp_path / "thai.txt", size=300, out=tmp_path / "wordpiece", model="wordpiece")
    assert read_report(tmp_path / "wordpiece").fertility.unknown_characters == 1.0


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.txt"
    draw = random.Random(0)
    vocabulary = words(0, 500)
    lines = [" ".join(draw.choices(vocabulary, k=12)).capitalize() + ", café [MASK] (42)!" for _ in range(400)]
    path.write_text("\n\n".join(lines), encoding="utf-8")
    return path


def write(path: Path, lines: list[str], times: int = 30) -> Path:
    path.write_text("\n\n".join(lines * times), encoding="utf-8")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def command(text: Path, out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "electra", "vocab", str(text), "--out", str(out), "--size", "400", *options]


@pytest.mark.parametrize("model", MODELS)
def test_a_vocabulary_has_the_requested_size_and_special_tokens_first(tmp_path, text, model):
    tokenizer = train_vocab([text], size=400, out=tmp_path / "out", model=model)
    assert tokenizer.vocab_size == len(tokenizer.backend.get_vocab()) == 400
    assert [tokenizer.token(number) for number in range(5)] == list(SPECIAL_TOKENS)


@pytest.mark.parametrize("model", MODELS)
def test_special_tokens_in_text_are_read_as_text(tmp_path, text, model):
    tokenizer = train_vocab([text], size=400, out=tmp_path / "out", model=model)
    for word in ("[MASK]", "x[CLS]", "[PAD][SEP]"):
        assert min(tokenizer.encode([word])[0].ids) > 4 or tokenizer.encode([word])[0].ids.count(1)
        assert not {0, 2, 3, 4}.intersection(tokenizer.encode([word])[0].ids)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("options", [{}, {"lowercase": False}, {"accents": "keep"}])
def test_the_folder_loads_equally_here_and_in_transformers(tmp_path, text, model, options):
    from transformers import AutoTokenizer

    trained = train_vocab([text], size=400, out=tmp_path / "out", model=model, **options)
    loaded, theirs = load_tokenizer(tmp_path / "out"), AutoTokenizer.from_pretrained(tmp_path / "out")
    # transformers reads special tokens from text.
    plain = text.read_text(encoding="utf-8").replace("[MASK]", "[]").split("\n\n")
    lines = [*plain[:50], "Café  (KAFE)\tkate", "未知 😀", ""]
    expected = [encoding.ids for encoding in trained.encode(lines)]
    assert [encoding.ids for encoding in loaded.encode(lines)] == expected
    assert theirs(lines)["input_ids"] == [[2, *ids, 3] for ids in expected]
    assert (theirs.pad_token_id, theirs.mask_token_id) == (0, 4)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"accents": "strip"}, "cafe"),
        ({"accents": "keep"}, "café"),
        ({"lowercase": False}, "Café"),
        ({"lowercase": False, "accents": "strip"}, "Cafe"),
    ],
)
@pytest.mark.parametrize("model", ["wordpiece", "unigram"])
def test_case_and_accents_are_kept_or_not(tmp_path, model, options, expected):
    text = write(tmp_path / "text.txt", ["Café", "Café Kate"])
    tokenizer = train_vocab([text], size=50, out=tmp_path / "out", model=model, **options)
    assert "".join(tokenizer.encode(["Café"])[0].tokens).replace("##", "").removeprefix("▁") == expected


@pytest.mark.parametrize("model", MODELS)
def test_the_number_of_threads_does_not_change_the_result(tmp_path, text, model):
    folders = []
    for threads in ("1", "2", "5"):
        folders.append(tmp_path / threads)
        environment = {**os.environ, "RAYON_NUM_THREADS": threads}
        subprocess.run(command(text, folders[-1], "--model", model), check=True, env=environment, capture_output=True)
    assert contents(folders[0]) == contents(folders[1]) == contents(folders[2])


@pytest.mark.parametrize(("lines", "word"), [(KOREAN, "학교에서"), (JAPANESE, "日本語")])
def test_unigram_finds_words_of_korean_and_japanese(tmp_path, lines, word):
    text = write(tmp_path / "text.txt", lines, times=3)
    tokenizer = train_vocab([text], size=100, out=tmp_path / "out", model="unigram")
    assert any(word in piece for line in lines for piece in tokenizer.encode([line])[0].tokens)
    assert read_report(tmp_path / "out").fertility.unknown == 0


@pytest.mark.parametrize("known", [True, False])
def test_a_damaged_report_is_refused(tmp_path, text, known):
    train_vocab([text], size=100, out=tmp_path / "out")
    (tmp_path / "out" / "report.json").write_text("")
    if not known:
        (tmp_path / "out" / "checksums.json").unlink()
    with pytest.raises(CheckpointError if known else DataError, match=r"report\.json (has changed|is not the report)"):
        read_report(tmp_path / "out")


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("यह बहुत अच्छा है और में", True),
        ("ที่นี่มีข้าว", True),
        ("мой край и твой край", True),
        ("die schöne Brücke", True),
        ("ma má mà mả mã mạ", True),
        ("cafe\u0301", True),
        ("ο άνθρωπος", True),
        ("the café " + "on the corner of the street has been there since the war, and so have its guests " * 3, False),
    ],
)
def test_accents_are_kept_if_they_are_common(tmp_path, line, kept):
    (tmp_path / "text.txt").write_text(f"{line}\n" * 20)
    train_vocab([tmp_path / "text.txt"], size=80, out=tmp_path / "out")
    assert read_report(tmp_path / "out").strip_accents != kept


def test_ideographs_fill_the_remaining_places(tmp_path):
    signs = [chr(0x4E00 + number) for number in range(120)]
    (tmp_path / "text.txt").write_text("".join("".join(signs[at:] + signs[:at]) + "\n" for at in range(0, 120, 10)))
    train_vocab([tmp_path / "text.txt"], size=100, out=tmp_path / "small")
    train_vocab([tmp_path / "text.txt"], size=400, out=tmp_path / "large")
    assert read_report(tmp_path / "small").size == 100
    assert read_report(tmp_path / "large").fertility.unknown == 0
    assert read_report(tmp_path / "large").size == 5 + 120


def test_wordpiece_does_not_split_hangul_and_kana(tmp_path):
    text = write(tmp_path / "text.txt", [*KOREAN, "カタカナで書く"])
    tokenizer = train_vocab([text], size=200, out=tmp_path / "out")
    assert not read_report(tmp_path / "out").strip_accents
    assert "학교에서" in tokenizer.encode(["학교에서"])[0].tokens
    assert "".join(tokenizer.encode(["カタカナで"])[0].tokens).replace("##", "") == "カタカナで"


def test_bpe_knows_every_text(tmp_path, text):
    tokenizer = train_vocab([text], size=400, out=tmp_path / "out", model="bpe")
    assert 1 not in tokenizer.encode(["未知の文 😀 Ωmega"])[0].ids


@pytest.mark.parametrize("model", MODELS)
def test_spelled_pieces_reproduce_the_text(tmp_path, model):
    text = write(tmp_path / "text.txt", ["the tea of kate", "кот ест суп"] * 20)
    tokenizer = train_vocab([text], size=400, out=tmp_path / "out", model=model)
    ids = tokenizer.encode(["the teat ест кот"])[0].ids
    assert "".join(map(tokenizer.spell, ids)) == " the teat ест кот"
    assert tokenizer.spell(tokenizer.mask_id).strip() == "[MASK]"


def test_one_file_needs_no_list(tmp_path, text):
    alone = train_vocab(str(text), size=60, out=tmp_path / "alone")
    assert alone.backend.to_str() == train_vocab([text], size=60, out=tmp_path / "listed").backend.to_str()


def test_letters_that_occur_once_are_unknown(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("kate tea ж " * 1 + "kate tea " * 50, encoding="utf-8")
    for model in ("wordpiece", "unigram"):
        tokenizer = train_vocab([text], size=60, out=tmp_path / model, model=model)
        assert tokenizer.encode(["ж"])[0].ids[-1] == tokenizer.unk_id
        assert tokenizer.unk_id not in tokenizer.encode(["kate"])[0].ids


def test_the_report_describes_the_training(tmp_path, text):
    train_vocab([text], size=400, out=tmp_path / "out")
    report = read_report(tmp_path / "out")
    characters = len(text.read_text(encoding="utf-8")) - 2 * 399  # the blank lines between documents
    assert (report.passages, report.characters, report.sampled_characters) == (400, characters, characters)
    tokenizer = load_tokenizer(tmp_path / "out")
    lines = text.read_text(encoding="utf-8").split()
    tokens = sum(map(len, tokenizer.encode(lines)))
    assert report.fertility.tokens_per_word == pytest.approx(tokens / len(lines), abs=1e-4)
    assert report.fertility.tokens_per_character == pytest.approx(tokens / sum(map(len, lines)), abs=1e-4)


def test_a_long_text_is_sampled(tmp_path):
    spaceless = ".".join(words(1, 2000))
    text = write(tmp_path / "text.txt", [spaceless], times=3_000_000 // len(spaceless))
    train_vocab([text], size=300, out=tmp_path / "out", max_characters=20_000_000)
    report = read_report(tmp_path / "out")
    assert report.characters > 2_000_000 >= report.sampled_characters > 1_000_000


def test_too_little_text_gives_a_smaller_vocabulary_and_a_note(tmp_path):
    text = write(tmp_path / "text.txt", ["tea for two"])
    for model in MODELS:
        tokenizer = train_vocab([text], size=5000, out=tmp_path / model, model=model)
        report = read_report(tmp_path / model)
        assert tokenizer.vocab_size == report.size < report.requested_size == 5000


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(st.characters(codec="utf-8", exclude_characters="\0")))
@example("\u200b\ufeff\x7f")  # normalized to nothing
@example("Ж")
@example("한\r\n\u0301\u2028▁▁ x")
def test_any_text_gives_a_vocabulary_that_encodes_it(tmp_path, model, content):
    text = tmp_path / "text.txt"
    text.write_bytes(content.encode())
    if not content.strip():
        return
    tokenizer = train_vocab([text], size=300, out=tmp_path / "out", model=model)
    assert load_tokenizer(tmp_path / "out").backend.to_str() == tokenizer.backend.to_str()
    encoding = tokenizer.encode([content])[0]
    assert not {0, 2, 3, 4}.intersection(encoding.ids)
    assert max(encoding.ids, default=0) < tokenizer.vocab_size <= 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 10}, "a vocabulary of 10 pieces is too small"),
        ({"size": 10**11}, "vocabulary of 100,000,000,000 pieces is too large"),
        ({"size": 100, "model": "bpe"}, "use at least 261"),
        ({"size": 100, "max_characters": 5}, "max_characters 5 is too small"),
    ],
)
def test_impossible_settings_are_refused(tmp_path, text, options, message):
    with pytest.raises(DataError, match=message):
        train_vocab([text], out=tmp_path / "out", **options)


def test_an_empty_text_is_refused_and_writes_no_vocabulary(tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(DataError, match="no text"):
        train_vocab([tmp_path / "empty.txt"], size=100, out=tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.lock", "empty.txt"]


@pytest.mark.parametrize("others", [[], ["report.json"], ["report.json", "vocab.txt"]])
def test_a_folder_with_other_files_is_not_replaced(tmp_path, text, others):
    (tmp_path / "out").mkdir()
    for name in ("thesis.tex", *others):
        (tmp_path / "out" / name).write_text("keep")
    with pytest.raises(DataError, match=r"holds files other than a vocabulary, such as thesis\.tex"):
        train_vocab([text], size=100, out=tmp_path / "out")
    assert (tmp_path / "out" / "thesis.tex").read_text() == "keep"


def test_a_vocabulary_that_another_process_is_writing_is_not_touched(tmp_path, text):
    lock = locked(tmp_path / ".vocab.lock", DataError(""))
    with lock, pytest.raises(CheckpointError, match=r"another process is writing .*vocab; wait for it"):
        train_vocab([text], size=200, out=tmp_path / "vocab")
    train_vocab([text], size=200, out=tmp_path / "vocab")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".vocab.lock", "text.txt", "vocab"]


def test_a_vocabulary_is_replaced_by_a_new_one(tmp_path, text):
    train_vocab([text], size=100, out=tmp_path / "out", model="wordpiece")
    train_vocab([text], size=300, out=tmp_path / "out", model="bpe")
    files = ["checksums.json", "report.json", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(contents(tmp_path / "out")) == files
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.lock", "out", "text.txt"]


def kill_repeatedly(text: Path, out: Path, times: int) -> int:
    """Kill training at moments spread over its duration; return how often it was unfinished."""
    began = time.perf_counter()
    undisturbed = out.with_name("undisturbed")
    subprocess.run(command(text, undisturbed), check=True, capture_output=True)
    duration = time.perf_counter() - began
    killed = 0
    for number in range(times):
        process = subprocess.Popen(command(text, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(duration * (number + random.Random(number).random()) / times)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        assert not out.exists() or contents(out) == contents(undisturbed)
    subprocess.run(command(text, out), check=True, capture_output=True)
    assert contents(out) == contents(undisturbed)
    names = sorted(path.name for path in text.parent.iterdir())
    assert names == [".out.lock", ".undisturbed.lock", "out", "text.txt", "undisturbed"]
    return killed


def test_a_killed_training_leaves_nothing_incomplete(tmp_path, text):
    assert kill_repeatedly(text, tmp_path / "out", times=3) >= 1


@pytest.mark.slow
def test_thirty_killed_trainings_leave_nothing_incomplete(tmp_path, text):
    assert kill_repeatedly(text, tmp_path / "out", times=40) >= 30


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the text of ../shared/data")
@pytest.mark.parametrize(("language", "most"), [("korean", 0.65), ("japanese", 0.65)])
def test_real_korean_and_japanese_get_words(tmp_path, language, most):
    with lzma.open(SHARED / f"corpus/{language}-00.txt.xz", "rt", encoding="utf-8") as stream:
        (tmp_path / "text.txt").write_text(stream.read(1_000_000), encoding="utf-8")
    train_vocab([tmp_path / "text.txt"], size=16_000, out=tmp_path / "out", model="unigram")
    fertility = read_report(tmp_path / "out").fertility
    assert fertility.tokens_per_character < most
    assert fertility.unknown < 0.005
