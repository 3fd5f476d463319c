"""`electra demo`: the whole of it, small, on this machine."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Examples:\n\n  electra demo\n\n  electra demo --out runs/first")(demo)


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="RUN", help="Where to write the model.")] = Path("runs/demo"),
) -> None:
    """Show what there is, end to end."""
    from electra.recipes.demo import demo as run

    run(out, typer.echo)
