import json
import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import electra
from electra.data import files
from electra.data.files import atomic_file, atomic_folder, exists, read_table, to_json, write_atomically
from electra.errors import CheckpointError, DataError


def test_a_file_is_written_atomically(tmp_path):
    write_atomically(tmp_path / "a", "one")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "a", "two \ud800")
    assert (tmp_path / "a").read_text() == "one"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_a_file_behind_a_symbolic_link_is_written_and_the_link_kept(tmp_path):
    (tmp_path / "link").symlink_to("real")
    for text in ("one", "two"):
        write_atomically(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == text


def test_what_a_killed_process_left_of_a_file_is_removed_after_a_day(tmp_path):
    left = [".a[1].0123abcd.partial"]
    kept = [
        ".a[1].89abcdef.partial",
        ".b.0123abcd.partial",
        ".a[1].partial",
        ".a[1].1234.partial",
        "a[1].0123abcd.partial",
    ]
    for name in (*left, *kept):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - 2 * files.ABANDONED,) * 2)
    (tmp_path / kept[0]).touch()  # another process may be writing it
    folder = tmp_path / ".a[1].00000000.partial"  # of `atomic_folder`, for a run with such a name
    folder.mkdir()
    os.utime(folder, (0, 0))
    write_atomically(tmp_path / "a[1]", "one")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a[1]", *kept, folder.name])


def test_writers_of_one_file_do_not_disturb_each_other_even_with_equal_process_numbers(tmp_path):
    with atomic_file(tmp_path / "a") as first:
        first.write("one")
        write_atomically(tmp_path / "a", "another")
        assert (tmp_path / "a").read_text() == "another"
        first.write(" two")
    assert (tmp_path / "a").read_text() == "one two"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_a_pipe_is_written_directly(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit((tmp_path / "pipe").read_text)
        write_atomically(tmp_path / "pipe", "through")
        assert read.result() == "through"
    assert (tmp_path / "pipe").is_fifo()


def test_a_pipe_that_nobody_reads_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="no process uses the other end of the pipe"):
        write_atomically(tmp_path / "pipe", "through")


def write_folder(out: Path, text: str, overwrite: bool = False) -> None:
    with atomic_folder(out, overwrite) as folder:
        (folder / "inner").mkdir()
        (folder / "inner/a").write_text(text)


def test_a_folder_is_written_atomically(tmp_path):
    write_folder(tmp_path / "out", "one")
    with pytest.raises(UnicodeEncodeError):
        write_folder(tmp_path / "out", "two \ud800", overwrite=True)
    assert (tmp_path / "out/inner/a").read_text() == "one"
    write_folder(tmp_path / "out", "three", overwrite=True)
    assert (tmp_path / "out/inner/a").read_text() == "three"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.lock", "out"]


def test_the_partial_folder_of_a_killed_process_is_discarded(tmp_path):
    (tmp_path / ".out.partial").mkdir()
    (tmp_path / ".out.partial" / "stale").touch()
    write_folder(tmp_path / "out", "one")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["inner"]


def test_a_folder_renamed_before_a_kill_is_restored(tmp_path):
    (tmp_path / ".out.old").mkdir()
    (tmp_path / ".out.old" / "kept").touch()
    with pytest.raises(ValueError, match="failed"), atomic_folder(tmp_path / "out", overwrite=True):
        raise ValueError("failed")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["kept"]


def test_a_folder_that_cannot_be_replaced_is_put_back(tmp_path, monkeypatch):
    write_folder(tmp_path / "out", "one")
    rename = os.rename

    def fail(source, target):
        if Path(source).name == ".out.partial":
            raise PermissionError("read-only")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(PermissionError):
        write_folder(tmp_path / "out", "two", overwrite=True)
    assert (tmp_path / "out/inner/a").read_text() == "one"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.lock", "out"]


def test_a_folder_behind_a_symbolic_link_is_written_and_the_link_kept(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "target")
    for _ in range(2):
        with atomic_folder(tmp_path / "out", overwrite=True) as folder:
            (folder / "inner").touch()
    assert (tmp_path / "out").is_symlink()
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["inner"]


@pytest.mark.parametrize("name", ["日" * 100, "~20 people came to dinner.", "a\0b"])
def test_a_text_is_not_an_existing_file(name):
    assert not exists(name)


def test_a_non_empty_folder_is_not_overwritten(tmp_path):
    write_folder(tmp_path / "out", "one")
    with pytest.raises(CheckpointError, match="out already exists; choose another --out or remove it"):
        write_folder(tmp_path / "out", "two")


def test_a_folder_is_written_by_one_writer_at_a_time(tmp_path):
    with atomic_folder(tmp_path / "out") as folder:
        (folder / "a").touch()
        with (
            pytest.raises(CheckpointError, match=r"another process is writing .*out; wait for it or choose another"),
            atomic_folder(tmp_path / "out"),
        ):
            pytest.fail("two writers at a time")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]


CONTEND = """
import sys, time
from pathlib import Path
from electra.data.files import atomic_folder
from electra.errors import CheckpointError

out, mark = Path(sys.argv[1], "out"), Path(sys.argv[1], "held")
times, end = 0, time.monotonic() + 4
while time.monotonic() < end:
    try:
        with atomic_folder(out, overwrite=True):
            mark.touch(exist_ok=False)
            times += 1
            mark.unlink()
    except CheckpointError:
        pass
print(times)
"""


def test_two_processes_never_hold_the_lock_together(tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", CONTEND, tmp_path], **pipes) for _ in range(6)]
    said = [process.communicate() for process in processes]
    assert [errors for _, errors in said] == [""] * 6
    assert sum(int(times) for times, _ in said) > 20


def test_the_lock_of_a_killed_process_is_released(tmp_path):
    code = f"""
from pathlib import Path
from electra.data.files import atomic_folder
with atomic_folder(Path({str(tmp_path / "out")!r})):
    print("held", flush=True)
    input()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline().strip() == b"held"
        with pytest.raises(CheckpointError, match="another process is writing"):
            write_folder(tmp_path / "out", "two")
        holder.kill()
    write_folder(tmp_path / "out", "two")


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000, f'{{"seed": {"1" * 5000}}}'], ids=range(4))
def test_a_file_that_holds_no_object_is_refused(tmp_path, content):
    (tmp_path / "task.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"task\.json is not a task: "):
        read_table(tmp_path / "task.json", "a task", CheckpointError)


@pytest.mark.parametrize("text", ["[" * 10**5 + "]" * 10**5, '{"a":' * 10**5, "\udcff", "[1]"], ids=range(4))
def test_a_table_that_cannot_be_read_is_a_one_line_error(text, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=r"config\.json is not a config: "):
        read_table(path, "a config", DataError)


def test_json_has_no_numbers_that_are_not_finite():
    found = {"a": [float("nan"), (1.5, float("inf"))], "b": -math.inf, "c": "NaN"}
    assert json.loads(to_json(found)) == {"a": [None, [1.5, None]], "b": None, "c": "NaN"}


def test_every_command_prints_json_with_the_function_for_it():
    folder = Path(electra.__file__).parent / "cli"
    assert [path.name for path in folder.glob("*.py") if "import json" in path.read_text()] == []
