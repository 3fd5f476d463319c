"""`electra pretrain`: train a generator and a discriminator on a corpus."""

from typing import Annotated

import typer

from electra.cli.options import Overrides, Preset


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Examples:\n\n  electra pretrain quick data=corpus out=runs/quick train.hours=1.0\n\n"
        "  electra pretrain tiny data=corpus out=runs/mlm objective.name=mlm train.steps=500"
    )(pretrain)


def pretrain(
    preset: Preset,
    overrides: Overrides = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the complete config, train nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Pre-train as a config says; run it again to go on where it stopped."""
    from electra.config.load import dump_config, load_config

    config = load_config(preset, overrides or [])
    if dry_run:
        typer.echo(dump_config(config))
        return
    from electra.cli.progress import LiveLine
    from electra.recipes.pretrain import pretrain as run

    with LiveLine(quiet) as line:
        folder = run(config, [line])
    typer.echo(f"{folder}: the model is in {folder / 'model'}")
