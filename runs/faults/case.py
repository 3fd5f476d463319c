"""One case: a folder with the inputs of a command, in which the command can be run and repeated."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from faults.commands import Command
from faults.damage import remove
from faults.process import Before, Outcome, Running, nothing, start
from faults.reference import Measured
from faults.verdicts import REFUSED, Judged, Published, check_equal, check_outcome, published


class Case:
    """A command in a folder of its own, with the random numbers of its seed."""

    def __init__(self, command: Command, reference: Measured, world: Path, folder: Path, chance: random.Random) -> None:
        self.command, self.reference, self.world, self.folder, self.chance = command, reference, world, folder, chance
        self.argv = command.argv(world, folder)
        self.log: list[str] = []  # what was done, for people
        self.outcomes: list[Outcome] = []
        self.clear()

    def clear(self) -> None:
        """Start again: only the inputs, undamaged."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.restore()

    def restore(self) -> None:
        """Undo changes of the inputs; outputs stay as they are."""
        self.argv = self.command.argv(self.world, self.folder)
        for name in self.command.reads:
            source, copy = self.world / name, self.folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            remove(copy)
            shutil.copytree(source, copy) if source.is_dir() else shutil.copyfile(source, copy)

    def note(self, what: str) -> None:
        """Record what was done."""
        self.log.append(what)

    def start(self, before: Before = nothing) -> Running:
        """Start the command."""
        return start(self.argv, self.folder, before, self.outcomes.append)

    def run(self, before: Before = nothing) -> Outcome:
        """Run the command."""
        return self.start(before).wait()

    def published(self, outcome: Outcome, but: str = "") -> Published:
        """Return what the command published, except for one file."""
        return published(self.folder, self.command.writes, outcome.stdout, but)

    def files(self, *names: str) -> list[Path]:
        """Return the files below some names, hidden ones included; locks hold nothing."""
        paths = [path for name in names for path in [self.folder / name, *sorted((self.folder / name).rglob("*"))]]
        return [path for path in paths if path.is_file() and not path.name.endswith(".lock")]

    def inputs(self) -> list[Path]:
        """Return the files that the command reads."""
        return self.files(*self.command.reads)

    def leftovers(self) -> list[Path]:
        """Return the files that an unfinished command left behind."""
        hidden = [path.name for name in self.command.writes for path in self.folder.glob(f".{Path(name).name}*")]
        partial = [f"{name}.partial" for name in self.command.writes]
        return self.files(*self.command.writes, *partial, *hidden)

    def judge(self, outcome: Outcome, codes: Sequence[int] = (REFUSED,)) -> Judged:
        """Judge a disturbed command: it succeeded or refused, and its undisturbed repetition gives the reference."""
        check_outcome(outcome, self.argv, codes)
        if outcome.status == 0:
            self.check(outcome, "silently")
            return Judged("unharmed", "")
        self.restore()
        self.repeat("after the repetition")
        return Judged("identical" if outcome.status < 0 else "refused", outcome.stderr.strip()[-200:])

    def repeat(self, when: str) -> None:
        """Run the command undisturbed: the result has to be that of the reference."""
        outcome = self.run()
        check_outcome(outcome, self.argv, codes=[REFUSED] if self.command.once else [])
        self.check(outcome, when)

    def check(self, outcome: Outcome, when: str, but: str = "") -> None:
        """Compare what a command published, except for one file, with the reference."""
        check_equal(self.published(outcome, but), self.reference.published, when, but)

    def judge_input(self, outcome: Outcome, strict: bool) -> Judged:
        """Judge a command with changed inputs.

        A strict one has to refuse them or to give the reference; else the same inputs have to give the same bytes.
        """
        if outcome.status != 0 or strict:
            return self.judge(outcome)
        check_outcome(outcome, self.argv)
        first = self.published(outcome)
        if first == self.reference.published:
            return Judged("unharmed", "")
        again = self.run_again()
        check_outcome(again, self.argv)
        check_equal(self.published(again), first, "with the same inputs")
        return Judged("identical", "other inputs, the same bytes twice")

    def run_again(self) -> Outcome:
        """Run the command with its present inputs and without its outputs."""
        inputs = [self.folder / name for name in self.command.reads]
        for path in sorted(self.folder.rglob("*")):
            if not any(path.is_relative_to(place) or place.is_relative_to(path) for place in inputs):
                remove(path)
        return self.run()
