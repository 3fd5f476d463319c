"""`electra export`: write a model as a Hugging Face folder, or for onnxruntime."""

from typing import Annotated, Literal

from typer import Option, echo

from electra.cli.options import Model

EXAMPLES = (
    "electra export runs/small --out hf/small",
    "electra export runs/reviews --format onnx --int8 --out onnx/reviews",
)


def export(
    model: Model,
    out: Annotated[str, Option(metavar="DIR", help="Folder to write; must not exist yet.")],
    precision: Annotated[
        Literal["float32", "bf16"], Option(help="Precision of the stored weights; bf16 halves the size.")
    ] = "float32",
    format: Annotated[
        Literal["huggingface", "onnx"], Option(help="For transformers, or as a graph for onnxruntime and optimum.")
    ] = "huggingface",
    int8: Annotated[bool, Option("--int8", help="With onnx: 8-bit matrices, smaller and faster on a CPU.")] = False,
) -> None:
    """Export a model as a Hugging Face folder. The folder is read back and checked."""
    from electra.recipes.convert import export as run

    checked: list[str] = []
    run(model, out, precision, format, int8, checked.append)
    echo(f"{out}: exported, {checked[0]}")
