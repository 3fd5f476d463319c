"""Arguments and options shared by several commands."""

from typing import Annotated

from typer import Argument, Option

from electra.config import preset_names
from electra.data import settings

EMBEDDED = "hub name, or embedded: the model shipped with electra"
TEXTS = "Files, folders, globs, - for standard input, URLs such as s3://…, or a hub dataset OWNER/NAME[:CONFIG[:SPLIT]]"

PRESETS, TUNING_PRESETS = (
    f"Config file (TOML) or preset: {', '.join(preset_names(command))}." for command in ("pretrain", "finetune")
)

Preset = Annotated[str, Argument(metavar="PRESET|FILE", help=PRESETS)]
TuningPreset = Annotated[str, Argument(metavar="PRESET|FILE", help=TUNING_PRESETS)]
Overrides = Annotated[
    list[str] | None, Argument(metavar="KEY=VALUE", help="Config keys to set, such as train.steps=1000.")
]
TuningOverrides = Annotated[
    list[str] | None, Argument(metavar="KEY=VALUE", help="Config keys to set, such as batch_size=16.")
]
Model = Annotated[str, Argument(metavar="MODEL", help=f"Run, Hugging Face folder, {EMBEDDED}.")]
AnyModel = Annotated[str, Argument(metavar="MODEL", help=f"Run, Hugging Face or ONNX folder, {EMBEDDED}.")]
TunedModel = Annotated[
    str, Argument(metavar="RUN", help="Run of electra finetune, fine-tuned Hugging Face or ONNX folder, or hub name.")
]
Json = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, Option("--quiet", help="Do not show progress.")]

OnCluster = Annotated[
    str | None, Option("--cluster", metavar="ADDRESS|auto", help="Ray cluster to run on.  [default: this machine]")
]
SEEDS = "Seeds to train at once; useful if one does not fill the GPU. In object storage, those of a task train in turn."
Together = Annotated[int, Option(min=1, max=100, help=SEEDS)]
Cased = Annotated[bool, Option("--uncased/--cased", help="Lowercase the text or keep its case.")]
Documents = Annotated[settings.Documents, Option(help="How documents are separated.")]
Column = Annotated[str | None, Option(help="Column that holds the text.  [default: detected]")]
Format = Annotated[settings.Format | None, Option(help="Format of all sources.  [default: by file name]")]
Heldout = Annotated[float, Option(help="Fraction of documents to hold out.")]
Invalid = Annotated[settings.Invalid, Option(help="What to do with invalid UTF-8.")]
