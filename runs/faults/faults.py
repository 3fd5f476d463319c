"""The faults: each disturbs one case and returns its verdict; `@fault` adds one to the campaign."""

import errno
import os
import random
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faults import hostile
from faults.case import Case
from faults.commands import Command
from faults.damage import DAMAGES, deleted, remove
from faults.process import Outcome, allocated, at_operation, limit
from faults.verdicts import REFUSED, STOPPED, Finding, Judged, check_outcome

LOGS = {"config.toml", "metrics.jsonl", "samples.jsonl", "results.json", "result.json", "environment.json", "README.md"}
CHECKSUMS = "checksums.json"
FAILURES = (errno.ENOSPC, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES, errno.EROFS, errno.EMFILE)


@dataclass(frozen=True)
class Fault:
    """A fault: its name, the commands that it suits and how it disturbs a case."""

    name: str
    suits: Callable[[Command], bool]
    judge: Callable[[Case], Judged]


FAULTS: list[Fault] = []


def fault(
    name: str, suits: Callable[[Command], bool] = lambda command: True, into: list[Fault] = FAULTS
) -> Callable[..., None]:
    """Add a function to a list of faults."""
    return lambda judge: into.append(Fault(name, suits, judge))


def _writes(command: Command) -> bool:
    return bool(command.writes)


def _reads(command: Command) -> bool:
    return bool(command.reads)


def _reads_users_files(command: Command) -> bool:
    return any(_of_user(name) for name in command.reads)


def _of_user(name: str) -> bool:
    return name.startswith("data/")


def _reads_model(command: Command) -> bool:
    return any(name in ("run", "hf") or name.startswith("tuned/") for name in command.reads)


def _operation(case: Case) -> int:
    number = case.chance.randint(1, max(1, case.reference.operations))
    case.note(f"at operation {number} of {case.reference.operations}")
    return number


def _signalled(case: Case, number: signal.Signals) -> Outcome:
    """Send a signal to the command, at an operation on its files or at any moment."""
    if case.chance.random() < 0.7:
        return case.run(at_operation(_operation(case), lambda: os.kill(os.getpid(), number)))
    moment = case.chance.random() * case.reference.seconds
    case.note(f"after {moment:.3f} seconds")
    running = case.start()
    if not running.ended_within(moment):
        running.send(number)
    return running.wait()


@fault("SIGKILL")
def killed(case: Case) -> Judged:
    """Kill the command; the repetition resumes it."""
    return case.judge(_signalled(case, signal.SIGKILL), codes=(-signal.SIGKILL,))


@fault("SIGTERM")
def terminated(case: Case) -> Judged:
    """Ask the command to stop, as a scheduler does."""
    return case.judge(_signalled(case, signal.SIGTERM), codes=STOPPED)


@fault("SIGINT")
def interrupted(case: Case) -> Judged:
    """Stop the command as Ctrl-C does."""
    return case.judge(_signalled(case, signal.SIGINT), codes=STOPPED)


@fault("SIGKILL, then damage", _writes)
def left_damaged(case: Case) -> Judged:
    """Kill the command and damage a file that it left behind: it resumes, or refuses until the rest is removed."""
    check_outcome(_signalled(case, signal.SIGKILL), case.argv, codes=(-signal.SIGKILL,))
    left = case.leftovers()
    if not left:
        case.repeat("after the repetition")
        return Judged("identical", "nothing was left behind")
    path = case.chance.choice(left)
    _damage(case, path)
    outcome = case.run()
    check_outcome(outcome, case.argv)
    if outcome.status == 0:
        name = str(path.relative_to(case.folder))
        unread = (
            path.name in LOGS or "checkpoints" in path.parts
        )  # an older checkpoint than the one that is resumed from
        case.check(outcome, "after the repetition", but=name if unread else "")
        return Judged("identical", "")
    case.clear()
    case.repeat("in a new folder")
    return Judged("refused", outcome.stderr.strip()[-200:])


@fault("file size", _writes)
def file_too_large(case: Case) -> Judged:
    """Let writes fail beyond a file size, as a full disk or a quota does."""
    most = int(10 ** case.chance.uniform(0, 5)) - 1
    case.note(f"{most} bytes")
    return case.judge(case.run(lambda: limit(resource.RLIMIT_FSIZE, most)))


@fault("failing operation")
def operation_fails(case: Case) -> Judged:
    """Let one operation on a file fail, as on a full or broken disk."""
    number = case.chance.choice(FAILURES)
    case.note(errno.errorcode[number])

    def fail() -> None:
        raise OSError(number, os.strerror(number), "a file")

    return case.judge(case.run(at_operation(_operation(case), fail, ("open", "os.mkdir", "os.rename"))))


def _fill_output() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


@fault("full output")
def output_full(case: Case) -> Judged:
    """Let nothing be written to standard output, as if it went to a file on a full disk."""
    return case.judge(case.run(_fill_output))


@fault("memory")
def out_of_memory(case: Case) -> Judged:
    """Allow the command little memory; some libraries end the process where they get none."""
    more = int(2 ** case.chance.uniform(16, 27))
    case.note(f"{more} bytes")
    outcome = case.run(lambda: limit(resource.RLIMIT_AS, allocated() + more))
    no_room_for_a_thread = 127  # glibc's
    return case.judge(outcome, codes=(REFUSED, -signal.SIGABRT, -signal.SIGSEGV, no_room_for_a_thread))


@fault("file handles")
def out_of_handles(case: Case) -> Judged:
    """Allow the command few open files."""
    more = case.chance.randint(0, 12)
    case.note(f"{more} handles")
    return case.judge(
        case.run(lambda: limit(resource.RLIMIT_NOFILE, len(list(Path("/proc/self/fd").iterdir())) + more))
    )


def _damage(case: Case, path: Path) -> None:
    damage = case.chance.choice(DAMAGES)
    case.note(f"{path.relative_to(case.folder)} {damage.__name__}")
    damage(path, case.chance)


@fault("damaged input", _reads)
def input_damaged(case: Case) -> Judged:
    """Damage a file that the command reads. What electra wrote has to be refused; a user's file has any content."""
    path = case.chance.choice(case.inputs())
    name = str(path.relative_to(case.folder))
    _damage(case, path)
    return case.judge_input(case.run(), strict=not _of_user(name) and path.name not in LOGS)


@fault("missing input", _reads)
def input_missing(case: Case) -> Judged:
    """Remove what the command reads."""
    path = case.folder / case.chance.choice(case.command.reads)
    case.note(f"{path.name} removed")
    remove(path)
    return case.judge_input(case.run(), strict=False)


@fault("hostile text", _reads_users_files)
def text_is_hostile(case: Case) -> Judged:
    """Replace a user's file by hostile content, or put that somewhere into it."""
    path = case.chance.choice([path for path in case.inputs() if _of_user(str(path.relative_to(case.folder)))])
    name, content = case.chance.choice(list(hostile.TEXTS.items()))
    before = path.read_bytes() if case.chance.random() < 0.4 else b""
    place = case.chance.randrange(len(before) + 1)
    case.note(f"{path.relative_to(case.folder)}: {name}" + (f" at byte {place}" if before else ""))
    path.write_bytes(before[:place] + content + before[place:])
    return case.judge_input(case.run(), strict=False)


@fault("hostile setting", lambda command: bool(command.keys))
def setting_is_hostile(case: Case) -> Judged:
    """Set a key to something else; nothing is trained."""
    for _ in range(case.chance.choice((1, 1, 2))):
        key, value = (
            case.chance.choice([*_keys(case.command.keys), *hostile.KEYS]),
            case.chance.choice(hostile.SETTINGS),
        )
        case.note(f"{key[:60]}={value[:60]}")
        case.argv = [*case.argv, f"{key}={value}".replace("\0", "")]
    if case.command.writes:
        case.argv.append("--dry-run")
    outcome = case.run()
    check_outcome(outcome, case.argv)
    case.restore()
    case.repeat("after the repetition")
    return Judged("refused" if outcome.status == REFUSED else "unharmed", outcome.stderr.strip()[-200:])


def _keys(schema: str) -> list[str]:
    from electra.config.finetune import FinetuneConfig
    from electra.config.keys import known_keys
    from electra.config.schema import PretrainConfig

    return sorted(known_keys(PretrainConfig if schema == "pretrain" else FinetuneConfig))


@fault("hostile model", _reads_model)
def model_is_hostile(case: Case) -> Judged:
    """Spoil a model folder in a way that its format allows, as its author may, so that no checksum tells."""
    known: dict[str, list[Callable[[Path, random.Random], None]]] = {
        ".json": [hostile.spoil_json],
        ".safetensors": [hostile.spoil_weights, hostile.spoil_index, hostile.spoil_pickle, deleted],
    }
    files = [path for path in case.inputs() if "model" in path.parts or "hf" in path.parts]
    path = case.chance.choice([path for path in files if path.suffix in known and path.name != CHECKSUMS])
    for listed in files:
        if listed.name == CHECKSUMS:
            listed.unlink()
    spoil = case.chance.choice(known[path.suffix])
    case.note(f"{path.relative_to(case.folder)} {spoil.__name__}")
    spoil(path, case.chance)
    return case.judge_input(case.run(), strict=False)


@fault("two processes", _writes)
def started_twice(case: Case) -> Judged:
    """Start the command twice in the same folder: one of them may refuse."""
    first = case.start()
    first.ended_within(case.chance.random() * case.reference.seconds)
    second = case.start()
    outcomes = [first.wait(), second.wait()]
    for outcome in outcomes:
        check_outcome(outcome, case.argv)
    if all(outcome.status for outcome in outcomes):
        raise Finding("both processes refused")
    case.repeat("after the repetition")
    return Judged("refused" if any(outcome.status for outcome in outcomes) else "unharmed", "")
