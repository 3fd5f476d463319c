"""A campaign against commands with planted defects; prints the verdicts of each command as JSON."""

import json
import sys
from pathlib import Path
from typing import Annotated

import faults.page  # noqa: F401, once, before the first fork
from faults import campaign, process
from faults.commands import COMMANDS, Command
from faults.faults import FAULTS
from faults.reference import build_reference
from typer import Option

from electra.cli.commands import app
from electra.data.files import write_atomically
from electra.errors import DataError

CASES = 60
KINDS = {"SIGKILL", "damaged input", "failing operation"}  # enough for the plants
Out = Annotated[Path, Option()]
GOOD = "good\n" * 200


@app.command()
def source(out: Out) -> None:
    write_atomically(out, GOOD)


@app.command()
def honest(out: Out) -> None:
    """Check what is read, write atomically."""
    path = Path("source.txt")
    if not path.is_file() or path.read_bytes() != GOOD.encode():
        raise DataError("source.txt is damaged; write it again")
    write_atomically(out, GOOD)


@app.command()
def torn(out: Out) -> None:
    """Trust whatever an interrupted command left behind."""
    if not out.exists():
        for number in range(20):
            with out.open("a") as stream:
                stream.write(f"{number}\n")


@app.command()
def trusting(out: Out) -> None:
    """Publish what was read without a check."""
    write_atomically(out, Path("source.txt").read_text(errors="replace") if Path("source.txt").is_file() else "")


@app.command()
def crashing(out: Out) -> None:
    """Assume that every file is as expected."""
    if Path("source.txt").read_bytes() != GOOD.encode():
        raise ZeroDivisionError("what is this?")
    write_atomically(out, GOOD)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    process.LIMIT = 2.0
    FAULTS[:] = [fault for fault in FAULTS if fault.name in KINDS]
    reads = ("source.txt",)
    COMMANDS[:] = [Command("source", "source --out source.txt", (), reads)]
    names = "honest torn trusting crashing".split()
    COMMANDS.extend(Command(name, f"{name} --out {name}.txt", reads, (f"{name}.txt",)) for name in names)
    new = [len(list(campaign.campaign(range(CASES), folder))) for _ in range(2)]
    found = campaign.read_cases(folder)
    reference = build_reference(folder / "reference")
    some = next(case for case in found if case.command == "trusting" and case.verdict == "finding")
    again = campaign.run_case(some.seed, reference, folder)
    verdicts = {name: sorted({case.verdict for case in found if case.command == name}) for name in names}
    print(json.dumps({"new": new, "again": [some.detail, again.detail], "verdicts": verdicts}))
