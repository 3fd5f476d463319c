"""`electra report`: runs as one page to look at."""

import json
from pathlib import Path
from typing import Annotated

import typer

from electra.cli.options import Json

EXAMPLES = (
    "electra report runs/small --out report.html",
    "electra report runs/small runs/base runs/suite --json",
)


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs of pre-training and fine-tuning, or folders of them.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The page; report.html unless --json is given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained page: curves, warnings explained, sample sentences, scores, configs, cost."""
    from electra.recipes.report.page import report as write

    page = out if out or as_json else Path("report.html")
    data = write(runs, page)
    if as_json:
        typer.echo(json.dumps(data))
        return
    kinds = {warning["meaning"] or warning["text"] for run in data["runs"] for warning in run["warnings"]}
    typer.echo(f"{page}: runs {len(data['runs'])}, kinds of warnings {len(kinds)}")
