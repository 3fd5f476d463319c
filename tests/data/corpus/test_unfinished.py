import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from electra.data.corpus.unfinished import check_place
from electra.data.files import locked
from electra.data.settings import Cleaning, Reading
from electra.errors import DataError

from .building import TOKENIZER, build, interrupt, same, write_text


def test_duplicates_are_found_after_a_resume(tmp_path):
    text = write_text(tmp_path / "a.txt", 60)
    text.write_text(f"{text.read_text()}\n\n" * 2)
    cleaning = Cleaning(duplicates="exact")
    whole = build(text, tmp_path / "whole", cleaning=cleaning)
    interrupt(text, tmp_path / "again", cleaning=cleaning)
    build(text, tmp_path / "again", cleaning=cleaning)
    assert same(tmp_path / "whole", tmp_path / "again")
    assert whole.manifest.report["dropped"]["exact duplicate"]["documents"] == 60
    assert not (tmp_path / "again.partial").exists()


def test_an_interrupted_build_resumes(tmp_path):
    text = write_text(tmp_path / "a.txt", 100)
    interrupt(text, tmp_path / "corpus")
    first = tmp_path / "corpus.partial" / "corpus" / "train-00000.npy"
    before = first.stat().st_mtime_ns
    build(text, tmp_path / "corpus")
    assert (tmp_path / "corpus" / "train-00000.npy").stat().st_mtime_ns == before


def test_a_build_stopped_by_invalid_bytes_resumes_with_another_setting(tmp_path):
    text = write_text(tmp_path / "a.txt", 100)
    text.write_bytes((text.read_bytes() + b"\n") * 40 + b"\xff abc")  # beyond the first megabyte
    with pytest.raises(DataError, match="invalid UTF-8"):
        build(text, tmp_path / "corpus", shard_characters=300_000)
    first = tmp_path / "corpus.partial" / "corpus" / "train-00000.npy"
    before = first.stat().st_mtime_ns
    build(text, tmp_path / "corpus", shard_characters=300_000, reading=Reading(invalid="skip"))
    assert (tmp_path / "corpus" / "train-00000.npy").stat().st_mtime_ns == before


SCRIPT = """
import sys, electra
text, tokenizer, out, workers, shard_characters = sys.argv[1:]
electra.build_corpus(
    text, tokenizer, length=32, out=out, workers=int(workers), shard_characters=int(shard_characters), heldout=0.1
)
"""


def kill_until(kills: int, text: Path, workers: int, shard_characters: int) -> None:
    """Kill a build at random moments, resume it each time, and compare the result with that of an uninterrupted one."""
    source = random.Random(os.getpid())
    folder = text.parent
    TOKENIZER.save(folder / "tokenizer")

    def command(out: Path) -> list[str]:
        options = [text, folder / "tokenizer", out, workers, shard_characters]
        return [sys.executable, "-c", SCRIPT, *map(str, options)]

    start = time.monotonic()
    subprocess.run(command(folder / "whole"), check=True)
    seconds = time.monotonic() - start
    out = folder / "killed"
    while kills:
        process = subprocess.Popen(command(out))
        try:
            process.wait(source.uniform(0.1, 1) * seconds)
            assert process.returncode == 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills -= 1
        assert not out.exists() or same(out, folder / "whole")
        if out.exists():
            shutil.rmtree(out)
    subprocess.run(command(out), check=True)
    assert same(out, folder / "whole")


@pytest.mark.slow
def test_a_build_killed_four_times_gives_the_same_bytes(tmp_path):
    text = write_text(tmp_path / "a.txt", 1000)
    kill_until(4, text, workers=1, shard_characters=10_000)


@pytest.mark.slow
def test_a_build_killed_thirty_times_gives_the_same_bytes(tmp_path):
    text = write_text(tmp_path / "a.txt", 40_000)
    kill_until(30, text, workers=2, shard_characters=500_000)


@pytest.fixture
def unfinished(tmp_path):
    """Return a text whose build at `corpus` was interrupted."""
    text = write_text(tmp_path / "a.txt", 100)
    interrupt(text, tmp_path / "corpus")
    return text


@pytest.mark.parametrize("change", [lambda text: "x" + text, lambda text: text[:1000]])
def test_an_unfinished_build_does_not_resume_with_another_text(tmp_path, unfinished, change):
    unfinished.write_text(change(unfinished.read_text()))
    with pytest.raises(DataError, match=r"the text has changed since .* was started; remove that folder"):
        build(unfinished, tmp_path / "corpus")


def test_an_unfinished_build_does_not_resume_with_other_settings(tmp_path, unfinished):
    with pytest.raises(DataError, match=r"holds an unfinished build with a different length, cut; finish it"):
        build(unfinished, tmp_path / "corpus", length=64, cut="paper")


@pytest.mark.parametrize("removed", ["settings.json", "groups/00000.npy", "corpus/train-00001.npy", "corpus", "groups"])
def test_a_partly_removed_build_starts_over(tmp_path, unfinished, removed):
    path = tmp_path / "corpus.partial" / removed
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    build(unfinished, tmp_path / "corpus")
    build(unfinished, tmp_path / "whole")
    assert same(tmp_path / "corpus", tmp_path / "whole")


def test_two_builds_cannot_write_the_same_corpus(tmp_path, unfinished):
    held = locked(tmp_path / ".corpus.lock", DataError("held"))
    with held, pytest.raises(DataError, match="another process is building"):
        build(unfinished, tmp_path / "corpus")


def changed(data: bytes) -> bytes:
    """Change a digit in the second half of a file, or its last byte."""
    place = next((place for place in range(len(data) // 2, len(data)) if data[place] in b"0123456789"), len(data) - 1)
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-7], changed], ids=["empty", "cut", "changed"])
@pytest.mark.parametrize(
    "file",
    [
        "settings.json",
        "groups/00001.json",
        "groups/00001.npy",
        "corpus/train-00001.npy",
        "corpus/train-00001.documents.npy",
    ],
)
def test_a_damaged_build_gives_the_same_bytes(tmp_path, unfinished, file, damage):
    path = tmp_path / "corpus.partial" / file
    path.write_bytes(damage(path.read_bytes()))
    first = tmp_path / "corpus.partial/corpus/train-00000.npy"
    before = first.stat().st_mtime_ns
    build(unfinished, tmp_path / "corpus")
    build(unfinished, tmp_path / "whole")
    assert same(tmp_path / "corpus", tmp_path / "whole")
    kept = (tmp_path / "corpus/train-00000.npy").stat().st_mtime_ns == before
    assert kept == (file != "settings.json")  # only what may be damaged is built again


def test_a_file_that_a_killed_process_was_writing_is_not_published(tmp_path, unfinished):
    for name in ("tokenizer/.vocab.txt.1.partial", ".train-00009.npy.partial"):
        (tmp_path / "corpus.partial/corpus" / name).touch()
    build(unfinished, tmp_path / "corpus")
    assert not list((tmp_path / "corpus").rglob(".*"))


def test_the_current_folder_can_become_a_corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not check_place(".")
