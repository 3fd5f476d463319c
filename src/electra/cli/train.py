"""`electra train`: from text to a model, in the hours there are."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from electra.cli.options import Heldout, Quiet
from electra.data.settings import Building

EXAMPLES = (
    "electra train my_texts/ --hours 1 --out runs/mine",
    "electra train wiki/*.txt.xz --hours 12 --out runs/wiki --set objective.mask_fraction=0.25 --dry-run",
)


def train(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="Files, folders, globs, addresses, or a dataset of the hub."),
    ],
    hours: Annotated[float, typer.Option(metavar="H", help="Wall-clock time for everything, such as 0.5 or 12.")],
    out: Annotated[Path, typer.Option("--out", metavar="RUN", help="The folder of the run.")],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A config key to set in spite of the plan; may be repeated."),
    ] = None,
    heldout: Heldout = Building.heldout,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, write nothing.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on text: vocabulary, corpus, a plan for the machine and the time, pre-training.

    Run it again to go on where it stopped. RUN/model is a Hugging Face folder.
    """
    from electra.cli.progress import LiveLine
    from electra.recipes.plan import make_plan
    from electra.recipes.train import check_out, describe
    from electra.recipes.train import train as run

    if dry_run:
        check_out(out.expanduser(), sources)
        for line in describe(make_plan(sources, hours=hours, overrides=overrides or [])):
            typer.echo(line)
        return
    with LiveLine(quiet) as live:
        folder = run(
            sources,
            hours=hours,
            out=out,
            overrides=overrides or [],
            heldout=heldout,
            listeners=[live],
            say=typer.echo,
        )
    typer.echo(f"{folder}: trained; the model is in {folder / 'model'}")
    typer.echo(f'Next: electra detect {quote(str(folder))} "a sentence with a wrong word in it"')
