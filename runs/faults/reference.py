"""The reference: every command once, undisturbed."""

import json
import mmap
from dataclasses import dataclass
from pathlib import Path

from faults.commands import COMMANDS, Command, write_data
from faults.process import counting, run
from faults.verdicts import Published, check_outcome, published

WORLD, MEASURED, OUTPUT = "world", "measured.json", "output"


@dataclass(frozen=True)
class Measured:
    """An undisturbed command: its seconds, its operations on files and what it published."""

    seconds: float
    operations: int
    published: Published


def build_reference(folder: Path) -> dict[str, Measured]:
    """Run every command once in `folder`/world, or read what an earlier call measured."""
    world, stored, output = folder / WORLD, folder / MEASURED, folder / OUTPUT
    if not stored.is_file():
        write_data(world)
        output.mkdir(exist_ok=True)
        measured = {}
        for command in COMMANDS:
            seconds, operations, stdout = _run(command, world, world)
            measured[command.name] = {"seconds": seconds, "operations": operations}
            (output / command.name).write_text(stdout, encoding="utf-8")
        stored.write_text(json.dumps(measured, indent=1), encoding="utf-8")
    found = json.loads(stored.read_text(encoding="utf-8"))
    return {
        command.name: Measured(
            **found[command.name],
            published=published(world, command.writes, (output / command.name).read_text(encoding="utf-8")),
        )
        for command in COMMANDS
    }


def measure(command: Command, world: Path, here: Path) -> Measured:
    """Run a command once in a folder."""
    seconds, operations, stdout = _run(command, world, here)
    return Measured(seconds, operations, published(here, command.writes, stdout))


def _run(command: Command, world: Path, here: Path) -> tuple[float, int, str]:
    argv = command.argv(world, here)
    with mmap.mmap(-1, 8) as shared, memoryview(shared).cast("Q") as counter:
        outcome = run(argv, here, counting(counter))
        check_outcome(outcome, argv, codes=())
        return outcome.seconds, counter[0], outcome.stdout
