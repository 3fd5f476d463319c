"""The reference: every command once, undisturbed."""

import json
import mmap
from dataclasses import dataclass
from pathlib import Path

from faults.commands import COMMANDS, write_data
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
            with mmap.mmap(-1, 8) as shared, memoryview(shared).cast("Q") as counter:
                outcome = run(command.argv, world, counting(counter))
                check_outcome(outcome, command.argv, codes=())
                measured[command.name] = {"seconds": outcome.seconds, "operations": counter[0]}
            (output / command.name).write_text(outcome.stdout, encoding="utf-8")
        stored.write_text(json.dumps(measured, indent=1), encoding="utf-8")
    found = json.loads(stored.read_text(encoding="utf-8"))
    return {
        command.name: Measured(
            **found[command.name],
            published=published(world, command.writes, (output / command.name).read_text(encoding="utf-8")),
        )
        for command in COMMANDS
    }
