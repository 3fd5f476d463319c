"""Arguments and options shared by several commands."""

from typing import Annotated

import typer

from electra.data import settings

MODEL = "Run folder, Hugging Face folder or hub name"
TEXTS = "Files, folders, globs, - for standard input, URLs such as s3://…, or a hub dataset OWNER/NAME[:CONFIG[:SPLIT]]"

Preset = Annotated[str, typer.Argument(metavar="PRESET|FILE", help="Preset name or config file (TOML).")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Config keys to set, such as train.steps=1000.")
]
TuningOverrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Config keys to set, such as batch_size=16.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help=f"{MODEL}.")]
AnyModel = Annotated[
    str | None, typer.Argument(metavar="MODEL", help=f"{MODEL}.  [default: the model shipped with electra]")
]
TunedModel = Annotated[
    str, typer.Argument(metavar="RUN", help="Run folder of electra finetune, or fine-tuned Hugging Face folder.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not show progress.")]

Cased = Annotated[bool, typer.Option("--uncased/--cased", help="Lowercase the text or keep its case.")]
Documents = Annotated[settings.Documents, typer.Option(help="How documents are separated.")]
Column = Annotated[str | None, typer.Option(help="Column that holds the text.  [default: detected]")]
Format = Annotated[settings.Format | None, typer.Option(help="Format of all sources.  [default: by file name]")]
Heldout = Annotated[float, typer.Option(help="Fraction of documents to hold out.")]
Invalid = Annotated[settings.Invalid, typer.Option(help="What to do with invalid UTF-8.")]
