"""`electra config`: print a config, the origin of its values, or the difference from another."""

from typing import Annotated, Any

from typer import BadParameter, Option, echo

from electra.cli.options import Json, Overrides, Preset
from electra.data.files import to_json

EXAMPLES = ("electra config small train.steps=100_000", "electra config small --diff base")


def config(
    preset: Preset,
    overrides: Overrides = None,
    explain: Annotated[bool, Option("--explain", help="Show the origin and the meaning of each key.")] = False,
    diff: Annotated[str | None, Option(metavar="OTHER", help="Show only keys that differ from OTHER.")] = None,
    as_json: Json = False,
) -> None:
    """Print a complete, validated pre-training config as TOML. For fine-tuning: electra finetune ... --dry-run."""
    from electra.config import load
    from electra.config.schema import PretrainConfig
    from electra.data.storage import fetch_config

    settings = load.gather(PretrainConfig, fetch_config(preset), overrides or [])
    chosen = load.validate(PretrainConfig, settings)
    if explain and diff:
        raise BadParameter("--explain and --diff cannot be combined")
    found: dict[str, Any]
    if diff:
        found = load.difference(chosen, load.load_config(fetch_config(diff)))
        lines = [f"{key} = {to_json(here)}  # {diff}: {to_json(there)}" for key, (here, there) in found.items()]
    elif explain:
        rows = load.explain(chosen, settings)
        found = {key: {"value": s.value, "origin": s.origin, "help": text} for key, (s, text) in rows.items()}
        width = max(len(s.origin) for s, _ in rows.values())
        lines = [f"{f'{key} = {to_json(s.value)}':<52} # {s.origin:<{width}} {text}" for key, (s, text) in rows.items()]
    else:
        found, lines = chosen.model_dump(), [load.dump_config(chosen).removesuffix("\n")]
    for line in [to_json(found)] if as_json else lines:
        echo(line)
