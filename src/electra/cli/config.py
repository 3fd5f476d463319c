"""`electra config`: show a config, where each value comes from, or how two differ."""

import json
from typing import Annotated

import typer

from electra.cli.options import Json, Overrides, Preset

EXAMPLES = (
    "electra config small train.steps=100_000",
    "electra config small --diff base",
)


def config(
    preset: Preset,
    overrides: Overrides = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say who set each key and what it means.")] = False,
    diff: Annotated[str | None, typer.Option(metavar="OTHER", help="Show only what differs from OTHER.")] = None,
    as_json: Json = False,
) -> None:
    """Print a complete, validated config of pre-training as TOML; electra finetune ... --dry-run prints its own."""
    from electra.config import load
    from electra.config.schema import PretrainConfig

    settings = load.gather(PretrainConfig, preset, overrides or [])
    chosen = load.validate(PretrainConfig, settings)
    if explain and diff:
        raise typer.BadParameter("--explain and --diff exclude each other")
    if diff:
        differences = load.difference(chosen, load.load_config(diff))
        if as_json:
            typer.echo(json.dumps(differences))
        for key, (here, there) in [] if as_json else differences.items():
            typer.echo(f"{key} = {json.dumps(here)}  # {diff}: {json.dumps(there)}")
    elif explain:
        rows = load.explain(chosen, settings)
        if as_json:
            typer.echo(
                json.dumps({k: {"value": s.value, "origin": s.origin, "help": text} for k, (s, text) in rows.items()})
            )
        for key, (setting, text) in [] if as_json else rows.items():
            typer.echo(f"{f'{key} = {json.dumps(setting.value)}':<52} # {setting.origin:<14} {text}")
    else:
        typer.echo(json.dumps(chosen.model_dump()) if as_json else load.dump_config(chosen), nl=as_json)
