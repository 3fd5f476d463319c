"""Folders in object storage: fetched into a bounded cache, written from working copies."""

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from electra.data.corpus.build import build_corpus
from electra.data.corpus.shards import open_corpus
from electra.data.corpus.verify import check_corpus, verify_corpus
from electra.data.storage import fetch_folder, list_files, local_path, upload, working_copy
from electra.data.tokens.tokenizer import load_tokenizer
from electra.data.tokens.vocab import train_vocab
from electra.errors import DataError, StorageError

TEXT = "".join(f"the chef ate the soup {'and then it was good ' * (number % 7)}.\n\n" for number in range(300))


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Return a function that moves to another machine, whose cache is empty."""
    fsspec.filesystem("memory").rm("/", recursive=True) if fsspec.filesystem("memory").ls("/") else None

    def move(name: str) -> None:
        monkeypatch.setenv("ELECTRA_CACHE", str(tmp_path / name))

    move("here")
    return move


def write(name: str, content: str | bytes) -> None:
    fsspec.filesystem("memory").pipe_file(name, content if isinstance(content, bytes) else content.encode())


def files(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("[!.]*.*")}


def test_a_corpus_is_built_on_two_machines_and_read_on_a_third(machine, tokenizer, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    settings = {"length": 16, "workers": 0, "shard_characters": 10_000}
    expected = build_corpus(tmp_path / "text.txt", tokenizer, out=tmp_path / "corpus", **settings)

    def lose(progress) -> None:
        if "train-00002.npy" in {name.rpartition("/")[2] for name in list_files("memory://b/corpus.partial")}:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        build_corpus(tmp_path / "text.txt", tokenizer, out="memory://b/corpus", progress=lose, **settings)
    with pytest.raises(StorageError, match="memory://b/corpus holds no files"):
        open_corpus("memory://b/corpus")
    machine("there")
    seen = []
    build_corpus(tmp_path / "text.txt", tokenizer, out="memory://b/corpus/", progress=seen.append, **settings)
    assert len(seen) == len(expected.manifest.splits["train"]) - 3  # only the groups that were not uploaded
    machine("elsewhere")
    built = open_corpus("memory://b/corpus")
    assert not list(built.path.glob("*.npy"))  # fetched when they are used
    assert np.array_equal(built.shards("train")[1], expected.shards("train")[1])
    check_corpus(built)
    assert verify_corpus("memory://b/corpus") == []
    assert files(built.path) == files(expected.path)
    assert not list_files("memory://b/corpus.partial")
    (built.path / "train-00000.npy").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"copy of memory://b/corpus was damaged: train-00000\.npy does not match"):
        check_corpus(built)
    check_corpus(open_corpus("memory://b/corpus"))  # fetched again
    again = build_corpus(tmp_path / "text.txt", tokenizer, out="memory://b/corpus", **settings)
    assert again.fingerprint == expected.fingerprint
    with pytest.raises(DataError, match="memory://b/corpus holds a corpus made with another length"):
        build_corpus(tmp_path / "text.txt", tokenizer, out="memory://b/corpus", **settings | {"length": 32})


def test_an_upload_that_stops_halfway_is_not_taken_for_a_folder_and_can_be_repeated(machine, monkeypatch, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    put, sent = MemoryFileSystem.put_file, []

    def fail(self, lpath, rpath, **options):
        sent.append(rpath.rpartition("/")[2])
        if sent[-1] == "checksums.json":
            raise ConnectionResetError("connection lost")
        put(self, lpath, rpath, **options)

    monkeypatch.setattr(MemoryFileSystem, "put_file", fail)
    with pytest.raises(StorageError, match="memory://b/words: connection lost"):
        train_vocab(tmp_path / "text.txt", size=60, out="memory://b/words")
    assert len(sent) == 5  # the checksums came last
    monkeypatch.setattr(MemoryFileSystem, "put_file", put)
    machine("there")
    trained = train_vocab(tmp_path / "text.txt", size=60, out="memory://b/words")
    assert load_tokenizer("memory://b/words").fingerprint == trained.fingerprint
    assert load_tokenizer("memory://b/words/tokenizer.json").fingerprint == trained.fingerprint


def test_the_storage_is_what_counts(machine):
    with working_copy("memory://b/run"):
        folder = local_path("memory://b/run")
        folder.mkdir(parents=True)
        for name in ("kept", "changed", "removed", ".hidden"):
            (folder / name).write_text("first")
        upload(folder / "kept")
        (folder / "changed").write_text("second")
        (folder / "removed").unlink()
    assert list_files("memory://b/run").keys() == {".electra", "kept", "changed"}
    (folder / "kept").write_text("not uploaded")
    (folder / "unknown").write_text("not uploaded")
    write("/b/run/new", "from another machine")
    with working_copy("memory://b/run"):
        assert {path.name: path.read_text() for path in folder.glob("[!.]*")} == {
            "kept": "first",
            "changed": "second",
            "new": "from another machine",
        }
    machine("there")
    with working_copy("memory://b/run", pushes=False):
        assert (local_path("memory://b/run") / "new").read_text() == "from another machine"
    with pytest.raises(StorageError, match="another machine writes memory://b/run too: it changed new"):  # noqa: SIM117
        with working_copy("memory://b/run"):
            write("/b/run/new", "at the same time")


def test_what_is_written_during_an_upload_is_uploaded_later(monkeypatch):
    """A checkpoint is uploaded in the background, while the run writes other files."""
    folder, put = local_path("memory://b/run"), MemoryFileSystem.put

    def write_too(self, *given):
        put(self, *given)
        (folder / "model").write_text("second")

    with working_copy("memory://b/run"):
        folder.mkdir(parents=True)
        (folder / "model").write_text("first")
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(MemoryFileSystem, "put", write_too)
            upload(folder)
    assert fsspec.filesystem("memory").cat("/b/run/model") == b"second"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("memory://b/photos", "memory://b/photos holds cat.jpg, but no files of electra; choose another out"),
        ("nowhere://b/run", "cannot use nowhere://b/run: Protocol not known: nowhere"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(address, problem, tmp_path):
    write("/b/photos/cat.jpg", b"a cat")
    with pytest.raises(StorageError, match=problem), working_copy(address):
        raise AssertionError


def test_the_cache_is_bounded(machine, monkeypatch):
    for name in ("old", "newer"):
        write(f"/b/{name}/a.bin", b"x" * 400)
    monkeypatch.setenv("ELECTRA_CACHE_GB", "1e-6")
    old, newer = (fetch_folder(f"memory://b/{name}", ["*.bin"]) for name in ("old", "newer"))
    fetch_folder("memory://b/old", ["*.bin"])  # used again
    write("/b/run/.electra", "")
    with working_copy("memory://b/run"):
        used = local_path("memory://b/run") / "used"
        used.parent.mkdir(parents=True)
        used.write_bytes(b"x" * 150)
        write("/b/third/a.bin", b"x" * 450)
        assert (fetch_folder("memory://b/third", ["*.bin"]) / "a.bin").stat().st_size == 450
        assert [(folder / "a.bin").exists() for folder in (old, newer)] == [True, False]
        assert used.exists()  # would be lost
    assert (fetch_folder("memory://b/newer", ["*.bin"]) / "a.bin").exists()
    write("/b/large/a.bin", b"x" * 1001)
    with pytest.raises(StorageError, match=r"large needs .* GB, but .* may hold .* GB; set ELECTRA_CACHE_GB"):
        fetch_folder("memory://b/large", ["*.bin"])
    monkeypatch.setenv("ELECTRA_CACHE_GB", "lots")
    with pytest.raises(StorageError, match="ELECTRA_CACHE_GB=lots is not a number"):
        fetch_folder("memory://b/large", ["*.bin"])


def test_the_cache_leaves_the_files_of_the_user_next_to_it(tmp_path, monkeypatch):
    mine = [tmp_path / "here" / name for name in ("thesis.txt", "electra/notes.txt", "read/book.txt", ".a.partial")]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 400)
    monkeypatch.setenv("ELECTRA_CACHE_GB", "1e-6")
    for name in ("first", "second"):
        write(f"/b/{name}/a.bin", b"x" * 400)
        fetch_folder(f"memory://b/{name}", ["*.bin"])
    assert all(path.exists() for path in mine)
    assert len([*tmp_path.rglob("a.bin")]) == 2  # the others do not count


def test_the_cache_is_below_the_home_folder_unless_a_place_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ELECTRA_CACHE")
    assert local_path("memory://b/run") == tmp_path / ".cache/electra/work/memory/b/run"
    monkeypatch.setenv("ELECTRA_CACHE", "~/disk")
    assert local_path("memory://b/run") == tmp_path / "disk/electra-cache/work/memory/b/run"
