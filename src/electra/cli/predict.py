"""`electra predict`: what a fine-tuned model says of new examples."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, TextIO

import typer

from electra.cli.options import Overrides
from electra.errors import DataError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Examples:\n\n  electra predict runs/mrpc pairs.csv --out predictions.jsonl\n\n"
        "  cat sentences.txt | electra predict runs/cola -"
    )(predict)


def predict(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run of electra finetune, or a fine-tuned Hugging Face folder.")
    ],
    source: Annotated[str, typer.Argument(metavar="FILE", help="A table, lines of text, or - for standard input.")],
    overrides: Overrides = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write; standard output when not given.")
    ] = None,
) -> None:
    """Predict every example of a file: one line of JSON each, in the same order."""
    from electra.recipes.predict import predict as run_over
    from electra.tasks.base import Notes

    notes = Notes()
    count = 0
    with _written_beside(out.expanduser()) if out else nullcontext(sys.stdout) as target:
        for prediction in run_over(run, source, overrides or [], notes):
            target.write(json.dumps(prediction, ensure_ascii=False) + "\n")
            count += 1
    for what, number in notes.counts.items():
        typer.echo(f"{number:,} {what}", err=True)
    if out:
        typer.echo(f"{out}: {count:,} predictions")


@contextmanager
def _written_beside(out: Path) -> Iterator[TextIO]:
    """Give a file that takes the place of `out` once it is whole, and goes away if it never is."""
    if out.is_dir():
        raise DataError(f"{out} is a folder; name a file, such as {out / 'predictions.jsonl'}")
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_name(f".{out.name}.{os.getpid()}.partial")  # another process may write there too
    try:
        with beside.open("w", encoding="utf-8") as file:
            yield file
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)
