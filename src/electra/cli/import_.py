"""`electra import`: convert a Hugging Face model to a run folder."""

from typing import Annotated

from typer import Argument, Option, echo

EXAMPLES = (
    "electra import hf/small --out runs/imported",
    "electra import google/electra-small-discriminator --out runs/google",
)


def import_(
    source: Annotated[str, Argument(metavar="SOURCE", help="ELECTRA, BERT or ModernBERT folder, or hub name.")],
    out: Annotated[str, Option(metavar="DIR", help="Folder to write; must not exist yet.")],
    generator: Annotated[
        str | None,
        Option(metavar="SOURCE", help="Generator folder or hub name.  [default: SOURCE/generator if it exists]"),
    ] = None,
) -> None:
    """Convert a Hugging Face model to a run folder. Training can start from it."""
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
    echo(f"{out}: {kind}{' and generator' if model.generator else ''}, reads back with equal logits")
