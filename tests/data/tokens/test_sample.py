import unicodedata

import pytest

from electra.data.tokens.sample import Sample


def sample_of(texts, folder, max_characters=10**9) -> Sample:
    sample = Sample(folder / "sample", max_characters)
    for text in texts:
        sample.add(text)
    sample.close()
    return sample


def test_a_short_text_is_kept_entirely(tmp_path):
    sample = sample_of(["one", "two\nlines", "three"], tmp_path)
    assert sorted(sample.lines()) == ["lines", "one", "three", "two"]
    assert (sample.documents, sample.characters, sample.kept_characters) == (3, 17, 17)


@pytest.mark.parametrize("documents", [100, 1000, 4097])
def test_a_long_text_is_sampled_evenly(tmp_path, documents):
    sample = sample_of([f"{number:05}" for number in range(1, documents + 1)], tmp_path, max_characters=300)
    kept = sorted(int(line) for line in sample.lines())
    assert sample.characters == 5 * documents
    assert 150 <= sample.kept_characters == 5 * len(kept) <= 300 or documents == 100
    stride = 2**sample.level
    assert [(number - 1) // stride for number in kept[: documents // stride]] == list(range(documents // stride))


@pytest.mark.parametrize("kinds", [2, 4, 8])
def test_alternating_kinds_of_text_are_all_kept(tmp_path, kinds):
    texts = [f"{number % kinds} document" for number in range(4000)]
    sample = sample_of(texts, tmp_path, max_characters=5000)
    kept = [line[0] for line in sample.lines()]
    assert len(kept) == 4000 / 8
    assert all(kept.count(str(kind)) > 0.6 * len(kept) / kinds for kind in range(kinds))


def test_alternating_lines_are_thinned_evenly(tmp_path):
    kept = list(sample_of(["a\nb\n" * 2000], tmp_path).lines(stride=4))
    assert 400 < kept.count("a") < 600


@pytest.mark.parametrize("documents", range(1, 20))
def test_something_is_always_kept_of_large_documents(tmp_path, documents):
    assert sample_of(["x " * 30] * documents, tmp_path, max_characters=100).kept_characters == 60


def test_text_without_spaces_counts_ten_times(tmp_path):
    sample = sample_of(["日本語" * 10] * 64, tmp_path, max_characters=64 * 30)
    assert 30 * 3 <= sample.kept_characters <= 30 * 6


def test_dropped_documents_leave_no_file(tmp_path):
    sample = sample_of(["x" * 10] * 1000, tmp_path, max_characters=100)
    assert sorted((tmp_path / "sample").iterdir()) == sample.files
    assert sum(file.stat().st_size for file in sample.files) <= 110


def test_lines_can_be_thinned(tmp_path):
    assert len(list(sample_of(["a\nb\nc", "d\ne\nf\ng\nh\ni"], tmp_path).lines(stride=3))) == 3


def test_characters_are_counted_as_stored_or_normalized(tmp_path):
    decomposed = unicodedata.normalize("NFD", "가")
    sample = sample_of([decomposed + "ﬁ", "\U0001f600"], tmp_path)
    assert sample.count_characters() == {**dict.fromkeys(decomposed, 1), "ﬁ": 1, "\U0001f600": 1, "\n": 2}
    assert sample.count_characters(compatible=True) == {"가": 1, "f": 1, "i": 1, "\U0001f600": 1, "\n": 2}


def test_text_without_white_space_is_cut_into_words_that_trainers_can_take(tmp_path):
    texts = ["a" * 1000, "b" * 2500 + "\nc d"]
    sample = sample_of(texts, tmp_path)
    lines = ["a" * 1000, f"{'b' * 1000} {'b' * 1000} {'b' * 500}", "c d"]
    assert sorted(sample.lines()) == lines
    assert sample.characters == sum(map(len, texts))
