"""`electra export`: a model as a plain Hugging Face folder."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from electra.cli.options import Model

EXAMPLES = (
    "electra export runs/small --out hf/small",
    "electra export runs/small --out hf/half --precision bf16",
)


def export(
    model: Model,
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
