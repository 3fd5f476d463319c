"""`electra import`: a Hugging Face model as a folder to train on from."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = (
    "electra import hf/small --out runs/imported",
    "electra import google/electra-small-discriminator --out runs/google",
)


def import_(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="An ELECTRA or BERT folder, or a hub name.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write; it must not exist yet.")],
    generator: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="The generator's folder or hub name; SOURCE/generator is found by itself."),
    ] = None,
) -> None:
    """Take in a Hugging Face model: config.toml and model/, as a run has them."""
    from electra.model.networks import Discriminator, EnergyModel, MaskedLM, TaskNetwork
    from electra.recipes.convert import import_model

    model = import_model(source, out, generator)
    kinds = {
        Discriminator: "discriminator",
        EnergyModel: "energy model",
        MaskedLM: "masked LM",
        TaskNetwork: "fine-tuned model",
    }
    kind = kinds.get(type(model.network), "bare encoder (no head)")
    typer.echo(f"{out}: {kind}{' and generator' if model.generator else ''}, read back, logits equal")
