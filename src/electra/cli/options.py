"""The arguments and options that several commands share."""

from typing import Annotated

import typer

from electra.data import settings

MODEL = "A run, a Hugging Face folder or a hub name"
TEXTS = (
    "Files, folders, globs, - for standard input, addresses such as s3://…, or a dataset of the hub: "
    "OWNER/NAME[:CONFIG[:SPLIT]]"
)

Preset = Annotated[str, typer.Argument(metavar="PRESET|FILE", help="A preset's name or a config file (TOML).")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Config keys to set, such as train.steps=1000."),
]
TuningOverrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Config keys to set, such as batch_size=16."),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help=f"{MODEL}.")]
AnyModel = Annotated[
    str | None, typer.Argument(metavar="MODEL", help=f"{MODEL}; the model that comes with electra when not given.")
]
TunedModel = Annotated[
    str, typer.Argument(metavar="RUN", help="A run of electra finetune, or a fine-tuned Hugging Face folder.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]

Cased = Annotated[bool, typer.Option("--uncased/--cased", help="Lower-case the text, or keep its case.")]
Documents = Annotated[settings.Documents, typer.Option(help="What a document is.")]
Column = Annotated[str | None, typer.Option(help="The column that holds the text.")]
Format = Annotated[settings.Format | None, typer.Option(help="Of all sources, whatever their names.")]
Heldout = Annotated[float, typer.Option(help="Fraction of the documents to hold out.")]
Invalid = Annotated[settings.Invalid, typer.Option(help="What to do with bytes that are no UTF-8.")]
