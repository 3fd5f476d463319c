"""`electra export`: a model as a plain Hugging Face folder."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Examples:\n\n  electra export runs/small --out hf/small\n\n"
        "  electra export runs/small --out hf/half --precision bf16"
    )(export)


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run, a Hugging Face folder or a hub name.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write; it must not exist yet.")],
    precision: Annotated[
        Literal["float32", "bf16"], typer.Option(help="Of the stored weights; bf16 rounds them to half the size.")
    ] = "float32",
) -> None:
    """Write a folder that transformers' AutoModel and AutoTokenizer load, and check it."""
    from electra.recipes.convert import export as run

    run(model, out, precision)
    rounded = "" if precision == "float32" else f" to those of the weights rounded to {precision}"
    typer.echo(f"{out}: written and read back, logits equal{rounded}")
