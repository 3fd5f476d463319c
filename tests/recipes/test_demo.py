"""The demo, in seconds instead of minutes."""

import time
from types import SimpleNamespace

import pytest

from electra.errors import CheckpointError
from electra.recipes.demo import demo

MINUTES = 0.5


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Run the demo by a clock that stands still while other tests have the cores."""
    folder, said = tmp_path_factory.mktemp("demo") / "run", []
    with pytest.MonkeyPatch.context() as patch:
        for module in ("recipes.demo", "training.loop"):
            patch.setattr(f"electra.{module}.time", SimpleNamespace(monotonic=time.process_time))
        began = time.process_time()
        result = demo(folder, minutes=MINUTES, say=said.append)
        return result, said, time.process_time() - began


def test_the_demo_finishes_in_time(shown):
    assert shown[2] < 60 * MINUTES + 10


def test_the_demo_leaves_a_run(shown):
    for name in "text/seen.txt text/unseen.txt tokenizer corpus config.toml metrics.jsonl model/README.md".split():
        assert (shown[0].folder / name).exists(), name


def test_the_demo_shows_sentences_with_replaced_tokens(shown):
    sentences = shown[0].sentences
    assert len(sentences) == 4
    assert all(any(token.replaced for token in sentence) for sentence in sentences)


def test_the_demo_detects_replaced_tokens_better_than_chance(shown):
    assert shown[0].auc > 0.56  # chance is 0.5 ± 0.02


def test_the_demo_compares_with_an_untrained_encoder(shown):
    result = shown[0]
    assert 0.2 < result.untrained_accuracy < 0.8  # chance, for some forty examples
    assert 0.4 < result.trained_accuracy <= 1
    assert min(result.fitted, result.tested) > 20


def test_the_shown_sentences_are_not_in_the_training_text(shown):
    folder = shown[0].folder
    seen = set((folder / "text/seen.txt").read_text().splitlines()) - {""}
    unseen = set((folder / "text/unseen.txt").read_text().splitlines()) - {""}
    assert unseen
    assert not seen & unseen


def test_the_demo_reports_each_stage(shown):
    assert [line.split()[0] for line in shown[1]] == ["text", "vocabulary", "corpus", "training", "comparing"]


def test_an_existing_demo_is_shown_again_and_keeps_its_minutes(shown):
    folder = shown[0].folder
    before, said = (folder / "metrics.jsonl").read_bytes(), []
    assert demo(folder, minutes=2 * MINUTES, say=said.append) == shown[0]
    assert said[3].endswith(f", as {folder} was started with; to change it, choose another --out")
    assert (folder / "metrics.jsonl").read_bytes() == before


def test_a_run_that_demo_did_not_start_is_not_touched(tmp_path):
    (tmp_path / "config.toml").write_text("seed = 0")
    with pytest.raises(CheckpointError, match="holds a run that demo did not start; choose another out"):
        demo(tmp_path, minutes=MINUTES)
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_a_folder_with_other_files_is_not_touched(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(CheckpointError, match=r"holds letter\.txt"):
        demo(tmp_path, minutes=MINUTES)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
