"""The arguments and options that several commands share."""

from typing import Annotated

import typer

Preset = Annotated[str, typer.Argument(metavar="PRESET|FILE", help="A preset's name or a config file (TOML).")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Config keys to set, such as train.steps=1000."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
