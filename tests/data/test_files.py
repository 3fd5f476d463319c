import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from electra.data.files import atomic_folder, exists, write_atomically
from electra.errors import CheckpointError


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    write_atomically(tmp_path / "a", "one")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "a", "two \ud800")
    assert (tmp_path / "a").read_text() == "one"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_what_a_link_leads_to_is_written_and_the_link_stays(tmp_path):
    (tmp_path / "link").symlink_to("real")
    for text in ("one", "two"):
        write_atomically(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == text


def test_text_goes_straight_into_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit((tmp_path / "pipe").read_text)
        write_atomically(tmp_path / "pipe", "through")
        assert read.result() == "through"
    assert (tmp_path / "pipe").is_fifo()


def write_folder(out: Path, text: str, overwrite: bool = False) -> None:
    with atomic_folder(out, overwrite) as folder:
        (folder / "inner").mkdir()
        (folder / "inner/a").write_text(text)


def test_a_folder_takes_its_place_when_it_is_whole(tmp_path):
    write_folder(tmp_path / "out", "one")
    with pytest.raises(UnicodeEncodeError):
        write_folder(tmp_path / "out", "two \ud800", overwrite=True)
    assert (tmp_path / "out/inner/a").read_text() == "one"
    write_folder(tmp_path / "out", "three", overwrite=True)
    assert (tmp_path / "out/inner/a").read_text() == "three"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.lock", "out"]


def test_what_a_kill_left_is_not_taken_for_a_part_of_it(tmp_path):
    (tmp_path / ".out.partial").mkdir()
    (tmp_path / ".out.partial" / "stale").touch()
    write_folder(tmp_path / "out", "one")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["inner"]


def test_what_was_there_before_a_kill_comes_back(tmp_path):
    (tmp_path / ".out.old").mkdir()  # renamed, and nothing took its place
    (tmp_path / ".out.old" / "dear").touch()
    with pytest.raises(ValueError, match="no luck"), atomic_folder(tmp_path / "out", overwrite=True):
        raise ValueError("no luck")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["dear"]


def test_a_link_leads_to_what_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "there")
    for _ in range(2):
        with atomic_folder(tmp_path / "out", overwrite=True) as folder:
            (folder / "inner").touch()
    assert (tmp_path / "out").is_symlink()
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["inner"]


@pytest.mark.parametrize("name", ["日" * 100, "~20 people came to dinner.", "a\0b"])
def test_a_text_is_no_file(name):
    assert not exists(name)


def test_a_folder_that_holds_something_is_refused(tmp_path):
    write_folder(tmp_path / "out", "one")
    with pytest.raises(CheckpointError, match="out exists already; choose another --out or remove it"):
        write_folder(tmp_path / "out", "two")


def test_a_folder_is_written_by_one_process_alone(tmp_path):
    with atomic_folder(tmp_path / "out") as folder:
        (folder / "a").touch()
        with (
            pytest.raises(CheckpointError, match=r"another process is writing .*out; wait for it, or choose another"),
            atomic_folder(tmp_path / "out"),
        ):
            pytest.fail("two at a time")
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


def test_no_two_processes_ever_hold_a_folder_together(tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", CONTEND, tmp_path], **pipes) for _ in range(6)]
    said = [process.communicate() for process in processes]
    assert [errors for _, errors in said] == [""] * 6
    assert sum(int(times) for times, _ in said) > 20


def test_a_killed_process_holds_nothing(tmp_path):
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
