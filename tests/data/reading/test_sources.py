import bz2
import errno
import gzip
import io
import lzma
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
import pytest

from electra.data import files
from electra.data.reading.sources import Source, find_sources, read_chunks
from electra.errors import DataError


def zstandard(data: bytes) -> bytes:
    packed = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(data)
    return packed.getvalue().to_pybytes()


PACKERS = {"": lambda data: data, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstandard}


def names(*sources: str | Path) -> list[tuple[str, str]]:
    return [(Path(source.name).name, source.format) for source in find_sources(sources)[0]]


def read(source: Source) -> bytes:
    return b"".join(read_chunks(source))


@pytest.mark.parametrize("suffix", PACKERS)
def test_compression_is_undone(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACKERS[suffix](b"some text " * 1000))
    [source] = find_sources([path])[0]
    assert source.format == "text"
    assert read(source) == b"some text " * 1000


@pytest.mark.parametrize("suffix", [suffix for suffix in PACKERS if suffix])
def test_concatenated_compressed_files_are_read_to_the_end(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACKERS[suffix](b"one ") + PACKERS[suffix](b"two"))
    assert read(find_sources([path])[0][0]) == b"one two"


@pytest.mark.parametrize("suffix", [suffix for suffix in PACKERS if suffix])
def test_a_truncated_compressed_file_is_refused(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACKERS[suffix](bytes(range(256)) * 1000)[:-20])
    with pytest.raises(DataError, match=r"cannot read .*a\.txt"):
        read(find_sources([path])[0][0])


def test_standard_input_is_read_and_decompressed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"hello"))))
    assert read(find_sources(["-"])[0][0]) == b"hello"


def test_a_closed_standard_input_is_a_one_line_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input is closed"):
        read(Source("-", "text"))


def test_a_pipe_that_nobody_writes_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"no process uses the other end of the pipe .*pipe; start one, or give a file"):
        read(find_sources([tmp_path / "pipe"])[0][0])


def test_a_pipe_is_read_while_it_is_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as writer:
        writer.submit((tmp_path / "pipe").write_bytes, b"through " * 100_000)
        assert read(find_sources([tmp_path / "pipe"])[0][0]) == b"through " * 100_000


def test_an_open_pipe_is_read_by_its_number():
    """As in `electra vocab <(zcat a.gz)`."""
    out, into = os.pipe()
    os.write(into, b"through")
    os.close(into)
    assert read(find_sources([f"/dev/fd/{out}"])[0][0]) == b"through"
    os.close(out)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_is_refused(device):
    with pytest.raises(DataError, match=f"{device} is a device, not a text; give a file, a folder, or -"):
        find_sources([device])


@pytest.mark.parametrize(
    ("stored", "expected"), [(b"BZh is how bzip2 begins", b"BZh is how bzip2 begins"), (bz2.compress(b""), b"")]
)
def test_text_that_begins_with_bzh_is_not_taken_for_bzip2(tmp_path, stored, expected):
    (tmp_path / "a.txt").write_bytes(stored)
    assert read(Source(str(tmp_path / "a.txt"), "text")) == expected


def test_a_folder_is_read_in_order_and_other_files_are_listed(tmp_path):
    for name in ("b.txt", "a/c.jsonl.gz", "a.csv", "photo.png", ".hidden.txt", "package.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    sources, ignored = find_sources([tmp_path])
    assert [source.format for source in sources] == ["jsonl", "csv", "text"]
    assert ignored == [str(tmp_path / "package.json"), str(tmp_path / "photo.png")]
    assert [source.format for source in find_sources([tmp_path / "package.json"])[0]] == ["jsonl"]  # if named


def test_a_glob_is_sorted(tmp_path):
    for name in ("b.txt", "a.txt", "c.tsv"):
        (tmp_path / name).write_text("x")
    assert names(tmp_path / "*.txt") == [("a.txt", "text"), ("b.txt", "text")]


def test_a_glob_includes_matching_folders(tmp_path):
    for name in ("b/deep/c.txt", "b/photo.png", "a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert names(tmp_path / "*") == [("a.txt", "text"), ("c.txt", "text")]
    assert find_sources([tmp_path / "*"])[1] == [str(tmp_path / "b" / "photo.png")]
    assert names(tmp_path / "**/*.txt") == [("a.txt", "text"), ("c.txt", "text")]


@pytest.mark.parametrize("pattern", ["*", "**"])
def test_a_glob_leaves_out_the_corpora_that_it_covers(tmp_path, tokenizer, pattern):
    (tmp_path / "a.text").write_text("a text")
    tokenizer.save(tmp_path / "corpus" / "tokenizer")
    for name in ("corpus/manifest.json", "corpus/train-00000.npy", "next.partial/settings.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "next.partial" / "corpus").mkdir()
    (tmp_path / "next.partial" / "groups").mkdir()
    assert names(tmp_path / pattern) == [("a.text", "text")]
    (tmp_path / "a.text").unlink()
    with pytest.raises(DataError, match=r"no text in .*\* \(corpora, tokenizers, models and runs are ignored\)"):
        find_sources([tmp_path / pattern])


def test_a_folder_that_cannot_be_opened_is_an_error(tmp_path, monkeypatch):
    for name in ("a/a.txt", "closed/b.txt", ".closed/c.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("x")
    scandir = os.scandir

    def refused(path):
        if Path(path).name.endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(PermissionError, match=r"Permission denied: .*/closed"):
        find_sources([tmp_path])
    (tmp_path / "closed").rename(tmp_path / ".more-closed")
    assert names(tmp_path) == [("a.txt", "text")]


def test_a_file_with_several_names_is_read_once(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to("a.txt")
    sources, ignored = find_sources([tmp_path, tmp_path / "a.txt", f"{tmp_path}/../{tmp_path.name}/a.txt"])
    assert [source.name for source in sources] == [str(tmp_path / "a.txt")]
    assert len(ignored) == 3
    assert ignored[0] == f"{tmp_path / 'link.txt'} (already read)"


def test_the_home_of_an_unknown_user_is_not_a_folder():
    for name in ("~nobody-of-this-name/x", "~nobody-of-this-name/*.txt"):
        with pytest.raises(DataError, match=r"no file .*~nobody-of-this-name"):
            find_sources([name])


def test_the_format_can_be_set(tmp_path):
    (tmp_path / "a.log").write_text("x")
    assert find_sources([tmp_path], "jsonl")[0][0].format == "jsonl"


def test_a_url_is_read_with_fsspec():
    import fsspec

    with fsspec.open("memory://texts/a.txt.gz", "wb") as stream:
        stream.write(gzip.compress(b"far away"))
    [source] = find_sources(["memory://texts/*.gz"])[0]
    assert (read(source), source.format, find_sources(["memory://texts"])[0]) == (b"far away", "text", [source])


def test_a_remote_folder_follows_the_same_rules_as_a_local_one(tmp_path, tokenizer):
    for name in ("b.txt", "a/c.jsonl", "photo.png", ".hidden.txt", ".git/d.txt", "package.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    tokenizer.save(tmp_path / "tokenizer")
    for format in (None, "text"):
        local, remote = find_sources([tmp_path], format), find_sources([f"file://{tmp_path}"], format)
        assert [f"file://{source.name}" for source in local[0]] == [source.name for source in remote[0]]
        assert [f"file://{name}" for name in local[1]] == remote[1]
    with pytest.raises(DataError, match=r"no text in the folder file://.* \(corpora, tokenizers, models and runs are"):
        find_sources([f"file://{tmp_path}/tokenizer"])


def test_an_empty_name_is_not_the_current_folder():
    with pytest.raises(DataError, match="the name of a text is empty; is a shell variable not set"):
        find_sources([""])


def test_links_to_folders_are_ignored_and_listed(tmp_path):
    for name in ("text", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("one")
    (tmp_path / "text" / "more").symlink_to(tmp_path / "elsewhere")
    sources, ignored = find_sources([tmp_path / "text"])
    assert [Path(source.name).name for source in sources] == ["a.txt"]
    assert ignored == [str(tmp_path / "text" / "more")]


def test_suffixes_of_compressed_files_may_be_upper_case(tmp_path):
    (tmp_path / "A.JSONL.GZ").write_bytes(b"")
    assert find_sources([tmp_path / "A.JSONL.GZ"])[0][0].format == "jsonl"


def test_a_name_with_one_slash_is_a_hub_dataset():
    assert find_sources(["owner/name:config:train"])[0] == [Source("owner/name:config:train", "dataset")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.txt", r"no file or folder nowhere\.txt"),
        ("texts/nowhere.txt", "no file or folder"),
        ("/nowhere/*.txt", r"no file matches /nowhere/\*\.txt"),
        ("memory://nowhere/*.txt", "no text at memory://nowhere"),
        ("odd://nowhere", "cannot read odd://nowhere"),
    ],
)
def test_a_missing_source_is_refused(name, message):
    with pytest.raises(DataError, match=message):
        find_sources([name])


def test_a_missing_package_is_named_with_the_extra_that_installs_it(tmp_path, monkeypatch):
    (tmp_path / "a.txt.zst").write_bytes(zstandard(b"text"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"needs a package .*pyarrow.*; run: pip install '\.\[text\]' in the"):
        read(find_sources([tmp_path])[0][0])


def test_a_folder_without_text_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no text in the folder .*looked for \.txt"):
        find_sources([tmp_path])


def test_no_source_at_all_is_refused():
    with pytest.raises(DataError, match="no text given"):
        find_sources([])


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that exists and cannot be read")
def test_a_file_that_cannot_be_read_is_refused():
    with pytest.raises(DataError, match="cannot read /proc/self/mem: Input/output error"):
        read(Source("/proc/self/mem", "text"))


def test_a_path_below_the_current_folder_is_never_a_hub_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"no file or folder \./nowhere"):
        find_sources(["./nowhere"])


def test_files_written_by_electra_are_not_read_as_text(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text("a text")
    (tmp_path / "vocab.txt").write_text("words that someone wrote about vocabularies")
    tokenizer.save(tmp_path / "made" / "tokenizer")
    run = tmp_path / "runs" / "one"
    for name in ("config.toml", "metrics.jsonl", "seeds/0/metrics.jsonl", "notes.txt"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("{}")
    assert names(tmp_path) == [("a.txt", "text"), ("vocab.txt", "text")]
    for place in ("made", "made/tokenizer", "runs", "runs/one"):
        with pytest.raises(DataError, match=r"no text in the folder .* \(corpora, tokenizers, models and runs are"):
            find_sources([tmp_path / place])


@pytest.mark.parametrize("format", [None, "text"])
def test_finished_and_unfinished_corpora_are_not_read_as_text_in_any_format(tmp_path, tokenizer, format):
    (tmp_path / "a.txt").write_text("a text")
    tokenizer.save(tmp_path / "corpus" / "tokenizer")
    for name in (
        "corpus/manifest.json",
        "corpus/train-00000.npy",
        "next.partial/settings.json",
        "next.partial/corpus/notes.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "next.partial" / "groups").mkdir()
    tokenizer.save(tmp_path / "tokenizer")
    (tmp_path / "tokenizer" / "notes.txt").write_text("about it")
    found = [Path(source.name).relative_to(tmp_path).as_posix() for source in find_sources([tmp_path], format)[0]]
    assert found == ["a.txt", "tokenizer/notes.txt"]
