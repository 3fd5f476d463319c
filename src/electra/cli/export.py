"""`electra export`: write a model as a Hugging Face folder."""

from typing import Annotated, Literal

from typer import Option, echo

from electra.cli.options import Model

EXAMPLES = ("electra export runs/small --out hf/small", "electra export runs/small --out hf/half --precision bf16")


def export(
    model: Model,
    out: Annotated[str, Option(metavar="DIR", help="Folder to write; must not exist yet.")],
    precision: Annotated[
        Literal["float32", "bf16"], Option(help="Precision of the stored weights; bf16 halves the size.")
    ] = "float32",
) -> None:
    """Export a model as a Hugging Face folder. The folder is read back and checked."""
    from electra.recipes.convert import export as run

    run(model, out, precision)
    rounded = "" if precision == "float32" else f" (of the weights rounded to {precision})"
    echo(f"{out}: exported, reads back with equal logits{rounded}")
