"""Judge a case: compare what a command published with the reference, and find what no command may do."""

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from faults.process import TIMED_OUT, Outcome

Verdict = Literal["unharmed", "identical", "refused", "finding"]
VERDICTS: tuple[Verdict, ...] = ("unharmed", "identical", "refused", "finding")
REFUSED = 2
STOPPED = (REFUSED, 130, 143)  # exit codes after SIGINT and SIGTERM
TIMINGS = {"seconds", "tokens_per_second", "ending", "latest_update"}  # keys that differ between runs
SEALED = {"sha256", "content"}  # a file with a checksum of its content, of which timings are a part
WARNING = "warning"  # a record of metrics.jsonl that tells what happened to a run, such as a damaged checkpoint
PREFIX = "electra: "
Published = dict[str, bytes]


class Finding(Exception):
    """A command did what no fault excuses."""


@dataclass(frozen=True)
class Judged:
    """The verdict of a case, and what led to it."""

    verdict: Verdict
    detail: str


def published(folder: Path, names: Sequence[str], stdout: str, but: str = "") -> Published:
    """Return the files that a command published except one, without timings; if it writes none, its output."""
    if not names:
        return {"standard output": stdout.encode()}
    paths = [path for name in names for path in [folder / name, *sorted((folder / name).rglob("*"))] if path.is_file()]
    hidden = [path for path in paths if any(part.startswith(".") for part in path.relative_to(folder).parts)]
    shown = [path for path in paths if path not in hidden and not _superseded(path.parent)]
    return {name: _without_timings(path) for path in shown if (name := str(path.relative_to(folder))) != but}


def _superseded(folder: Path) -> bool:
    """Return whether a folder is a checkpoint and has a newer one beside it; a run that was stopped has others."""
    steps = folder.parent.glob("step-*") if folder.parent.name == "checkpoints" else ()
    return folder != max(steps, default=folder)


def _without_timings(path: Path) -> bytes:
    content = path.read_bytes()
    if zipfile.is_zipfile(path):  # stores when its files were written
        with zipfile.ZipFile(path) as archive:
            return b"".join(name.encode() + archive.read(name) for name in archive.namelist())
    if path.suffix not in (".json", ".jsonl"):
        return content
    try:
        if path.suffix == ".json":
            return json.dumps(_timeless(json.loads(content, parse_constant=_refuse))).encode()
        records = [_timeless(json.loads(line, parse_constant=_refuse)) for line in content.splitlines()]
        return "\n".join(json.dumps(record) for record in records if WARNING not in record).encode()
    except (ValueError, RecursionError) as problem:
        raise Finding(f"invalid JSON in {path.name}: {problem}") from None


def _timeless(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == SEALED:
        return _timeless(value["content"])
    if isinstance(value, dict):
        return {key: _timeless(part) for key, part in value.items() if key not in TIMINGS}
    return [_timeless(part) for part in value] if isinstance(value, list) else value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def check_outcome(outcome: Outcome, argv: Sequence[str], codes: Sequence[int] = (REFUSED,)) -> None:
    """Raise a finding unless a command succeeded, or refused with one line and one of the codes."""
    if outcome.status == TIMED_OUT:
        raise Finding("hangs")
    if "Traceback (most recent call last)" in outcome.stderr:
        raise Finding(f"traceback: {_last_line(outcome.stderr)}")
    if "this is a bug" in outcome.stderr or outcome.status == 1:
        raise Finding(f"a bug: {_last_line(outcome.stderr)}")
    if outcome.status == 0:
        if "--json" in argv:
            _check_json(outcome.stdout)
        return
    if outcome.status not in codes:
        raise Finding(f"exit code {outcome.status}: {_last_line(outcome.stderr)}")
    if outcome.status < 0:
        return
    messages = [line for line in outcome.stderr.splitlines() if line.startswith(PREFIX)]
    if len(messages) != 1 or not messages[0].removeprefix(PREFIX).strip(" :"):
        raise Finding(f"{len(messages)} messages: {_last_line(outcome.stderr)}")


def _check_json(text: str) -> None:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as problem:
        raise Finding(f"invalid JSON on standard output: {problem}") from None


def check_equal(found: Published, expected: Published, when: str, but: str = "") -> None:
    """Raise a finding that names the first file that differs, except for one file."""
    for name in sorted((found.keys() | expected.keys()) - {but}):
        if found.get(name) != expected.get(name):
            kind = "is missing" if name not in found else "is new" if name not in expected else "differs"
            raise Finding(f"{when}: {name} {kind}")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines() or ["no message"]
    return [*lines[-1:], *(line for line in lines if line.startswith(PREFIX))][-1][:300]
