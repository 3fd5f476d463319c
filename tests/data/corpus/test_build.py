import io
import json
import os
import resource
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from electra.data.corpus.shards import open_corpus
from electra.data.corpus.verify import verify_corpus
from electra.data.settings import Cleaning, Reading
from electra.data.tokens.tokenizer import SPECIAL_TOKENS
from electra.errors import DataError

from .building import TOKENIZER, build, same, write_text


def stored_text(corpus, split: str = "train") -> list[int]:
    ids = np.concatenate([shard.ravel() for shard in corpus.shards(split)])
    return ids[ids >= len(SPECIAL_TOKENS)].tolist()


@pytest.mark.parametrize("cut", ["sentences", "paper"])
def test_the_number_of_workers_does_not_change_the_result(tmp_path, cut):
    text = write_text(tmp_path / "a.txt", 200)
    for workers in (0, 1, 3):
        build(text, tmp_path / str(workers), cut=cut, workers=workers, cleaning=Cleaning(duplicates="exact"))
    assert len(open_corpus(tmp_path / "0").manifest.splits["train"]) > 3
    assert same(tmp_path / "0", tmp_path / "1")
    assert same(tmp_path / "0", tmp_path / "3")


def test_packing_keeps_every_token_in_order(tmp_path):
    text = write_text(tmp_path / "a.txt", 100)
    corpus = build(text, tmp_path / "corpus", cut="packed", heldout=0)
    expected = [token for line in TOKENIZER.encode(text.read_text().split("\n")) for token in line.ids]
    assert stored_text(corpus) == expected
    manifest = corpus.manifest
    assert (manifest.tokens, manifest.documents) == (len(expected), 100)
    assert manifest.report["tokens_read"] == len(expected)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=40), max_size=12),
    st.sampled_from(["sentences", "packed", "paper"]),
)
def test_no_text_breaks_a_build(tmp_path_factory, lines, cut):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_bytes("\n".join(["abc", "", *lines]).encode())
    try:
        corpus = build(folder / "a.txt", folder / "corpus", cut=cut, heldout=0, shard_characters=100)
    except DataError as problem:
        assert "binary" in str(problem)  # noqa: PT017 (most texts raise nothing)
    else:
        read = (folder / "a.txt").read_bytes().decode().replace("\r\n", "\n").replace("\r", "\n")
        expected, tokens = sum(len(line.ids) for line in TOKENIZER.encode(read.split("\n"))), corpus.manifest.tokens
        assert corpus.manifest.report["tokens_read"] == expected
        assert {"packed": tokens == expected, "sentences": tokens >= expected, "paper": tokens <= expected}[cut]
        assert verify_corpus(corpus.path) == []


def test_a_document_longer_than_a_shard_continues_in_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("electra.data.reading.text.LINE_LIMIT", 500)
    monkeypatch.setattr("electra.data.reading.text.PASSAGE_LIMIT", 1000)
    (tmp_path / "a.txt").write_text("abcd " * 2000)
    corpus = build(tmp_path / "a.txt", tmp_path / "corpus", cut="packed", heldout=0, shard_characters=3000)
    assert (len(corpus.manifest.splits["train"]), corpus.manifest.documents) == (4, 1)
    assert len(stored_text(corpus)) == corpus.manifest.tokens == 8000


def test_held_out_documents_stay_held_out_when_the_corpus_grows(tmp_path):
    small, large = write_text(tmp_path / "a.txt", 100, seed=1), write_text(tmp_path / "b.txt", 100, seed=2)
    first = build(small, tmp_path / "one")
    grown = build([large, small], tmp_path / "two")
    assert first.manifest.splits["heldout"]
    held_out = "".join(map(chr, stored_text(grown, "heldout")))
    [starts] = first.documents("heldout")[:1]
    shard = first.shards("heldout")[0].ravel()
    for sequence, offset in starts:
        beginning = shard[sequence * 32 + offset + 1 :][:8]
        assert "".join(map(chr, beginning)) in held_out


def test_a_finished_build_is_not_repeated(tmp_path):
    text = write_text(tmp_path / "a.txt", 20)
    build(text, tmp_path / "corpus")
    before = (tmp_path / "corpus" / "manifest.json").stat().st_mtime_ns
    build(text, tmp_path / "corpus")
    assert (tmp_path / "corpus" / "manifest.json").stat().st_mtime_ns == before


def test_a_corpus_of_standard_input_is_not_reused(tmp_path, monkeypatch):
    for content in (b"abc", b"xyz"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        if content == b"abc":
            build("-", tmp_path / "corpus", heldout=0)
    with pytest.raises(DataError, match=r"holds a corpus, and - may have changed; choose another --out"):
        build("-", tmp_path / "corpus", heldout=0)


def test_a_finished_corpus_is_not_overwritten(tmp_path):
    text = write_text(tmp_path / "a.txt", 20)
    build(text, tmp_path / "corpus")
    with pytest.raises(DataError, match="holds a corpus made with another seed; choose another --out"):
        build(text, tmp_path / "corpus", seed=1)


@pytest.mark.parametrize("edited", [lambda text: text.replace("a", "e"), lambda text: " " * len(text)])
def test_a_text_that_was_edited_to_the_same_size_is_noticed(tmp_path, edited):
    text = write_text(tmp_path / "a.txt", 20)
    build(text, tmp_path / "corpus")
    before = text.read_text()
    text.write_text(before)  # as it was, though written later
    build(text, tmp_path / "corpus")
    text.write_text(edited(before))
    with pytest.raises(DataError, match="holds a corpus made with another text; choose another --out"):
        build(text, tmp_path / "corpus")


def test_a_folder_that_is_not_a_corpus_is_not_overwritten(tmp_path):
    text = write_text(tmp_path / "a.txt", 20)
    with pytest.raises(DataError, match="exists and is not a corpus"):
        build(text, tmp_path)


def test_an_empty_folder_is_replaced(tmp_path):
    (tmp_path / "corpus").mkdir()
    build(write_text(tmp_path / "a.txt", 20), tmp_path / "corpus")
    assert verify_corpus(tmp_path / "corpus") == []


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, r"nothing to train on: no document was kept \(0 read\)"),
        ("\n \n", {}, r"nothing to train on: no document was kept \(0 read\)"),
        ("abc", {"cleaning": Cleaning(min_characters=9)}, r"nothing to train on: no document was kept \(1 read\)"),
        ("abc", {"heldout": 0.999999}, "nothing to train on: all documents are in the held-out split"),
        ("abc", {"heldout": 1}, "held-out fraction"),
        ("abc", {"length": 8}, "length 8 is too short; use at least 16 tokens"),
        ("abc", {"length": 10**11}, "length 100,000,000,000 is too long; use at most 65,536 tokens"),
    ],
)
def test_an_impossible_build_is_refused(tmp_path, content, options, message):
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(DataError, match=message):
        build(tmp_path / "a.txt", tmp_path / "corpus", **options)
    assert not list(tmp_path.glob("corpus*"))


def test_a_build_that_failed_early_leaves_no_state(tmp_path):
    with pytest.raises(DataError, match="no file or folder"):
        build(tmp_path / "nowhere.txt", tmp_path / "corpus", length=64)
    build(write_text(tmp_path / "a.txt", 20), tmp_path / "corpus")
    assert open_corpus(tmp_path / "corpus").manifest.length == 32


def test_a_full_disk_is_one_line_and_the_build_resumes(tmp_path):
    text = write_text(tmp_path / "a.txt", 400)
    build(text, tmp_path / "whole")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
    try:
        with pytest.raises(DataError, match=r"no room to write .*; free some space and run the same command again"):
            build(text, tmp_path / "corpus")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    build(text, tmp_path / "corpus")
    assert same(tmp_path / "whole", tmp_path / "corpus")


def test_the_manifest_reports_what_was_read_kept_and_dropped(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"story": text}) for text in ("abc def", "a", "abc def")))
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    cleaning = Cleaning(min_characters=3, duplicates="exact")
    corpus = build(tmp_path, tmp_path.parent / f"{tmp_path.name}-corpus", cleaning=cleaning, heldout=0)
    report = corpus.manifest.report
    assert (report["documents_read"], corpus.manifest.documents) == (3, 1)
    assert report["dropped"]["too short"] == {"documents": 1, "characters": 1, "examples": ["a"]}
    assert report["dropped"]["exact duplicate"]["documents"] == 1
    assert report["sources_by_document"] == {"record": 1}
    assert report["columns"] == ["story"]
    assert report["ignored_files"] == [str(tmp_path / "photo.png")]
    assert corpus.manifest.provenance["sources"][0]["name"] == str(tmp_path / "a.jsonl")


def test_invalid_bytes_are_refused_or_counted(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"abc \xff def")
    with pytest.raises(DataError, match="invalid UTF-8 at byte 4"):
        build(tmp_path / "a.txt", tmp_path / "corpus", heldout=0)
    corpus = build(tmp_path / "a.txt", tmp_path / "skipped", heldout=0, reading=Reading(invalid="skip"))
    assert corpus.manifest.report["invalid_places"] == 1


def test_progress_counts_finished_work_only(tmp_path, monkeypatch):
    monkeypatch.setattr("electra.data.reading.sources.CHUNK_BYTES", 1000)
    text = write_text(tmp_path / "a.txt", 100)
    seen = []
    build(text, tmp_path / "corpus", cut="packed", workers=1, progress=seen.append)
    size = text.stat().st_size
    assert [progress.bytes_read for progress in seen] == sorted(progress.bytes_read for progress in seen)
    assert seen[0].bytes_read < size / 2
    assert seen[-1].bytes_read == seen[-1].total_bytes == size
    assert (seen[-1].documents, seen[-1].tokens) == (100, open_corpus(tmp_path / "corpus").manifest.tokens)


def test_a_foreign_partial_folder_is_not_touched(tmp_path):
    (tmp_path / "c.partial").mkdir()
    text = write_text(tmp_path / "c.partial" / "a.txt", 20)
    with pytest.raises(DataError, match=r"c\.partial is needed for the build but holds a\.txt; move it or choose"):
        build([text], tmp_path / "c")
    build([text], tmp_path / "d")
    (tmp_path / "d").rename(tmp_path / "c")
    build([text], tmp_path / "c")  # already exists
    assert text.is_file()


def test_symbolic_links_are_followed(tmp_path):
    text = write_text(tmp_path / "a.txt", 20)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    build([text], tmp_path / "link")
    assert (tmp_path / "elsewhere" / "manifest.json").is_file()
    with pytest.raises(DataError, match="is a mount point"):
        build([text], Path("/proc"))


def test_a_file_name_that_is_not_utf8_is_accepted(tmp_path):
    text = write_text(tmp_path / "a.txt", 20)
    (tmp_path / "texts").mkdir()
    text.rename(os.fsdecode(os.fsencode(tmp_path / "texts") + b"/caf\xe9.txt"))
    build([tmp_path / "texts"], tmp_path / "c")
    assert build([tmp_path / "texts"], tmp_path / "c").manifest.documents == 20  # recognized again


@pytest.mark.parametrize("cut", ["packed", "paper"])
def test_the_end_is_held_out_if_no_document_is(tmp_path, cut):
    text = tmp_path / "a.txt"
    text.write_text("\n".join("abcd efgh " * 20 for _ in range(50)))
    everything = build(text, tmp_path / "all", cut=cut, heldout=0)
    corpus = build(text, tmp_path / "corpus", cut=cut, heldout=0.005)
    assert verify_corpus(corpus.path) == []
    train, heldout = corpus.shards("train"), corpus.shards("heldout")
    assert np.array_equal(np.concatenate(train + heldout), np.concatenate(everything.shards("train")))
    assert 1 <= len(heldout[-1]) <= len(train[-1]) / 10
