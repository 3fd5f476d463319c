"""`electra report`: write a report of runs as one page."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from electra.cli.options import Json
from electra.cli.outcome import counted
from electra.data.files import to_json

EXAMPLES = ("electra report runs/small --out report.html", "electra report runs/small runs/base runs/suite --json")


def report(
    runs: Annotated[list[str], Argument(metavar="RUN", help="Pre-training and fine-tuning runs, or folders of runs.")],
    out: Annotated[
        Path | None, Option(metavar="FILE", help="Page to write.  [default: report.html unless --json]")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a report of runs as one HTML page. Shows curves, warnings, samples, scores, configs and costs."""
    from electra.recipes.report.page import report as write

    page = out if out or as_json else Path("report.html")
    data = write(runs, page)
    kinds = {warning["meaning"] or warning["text"] for run in data["runs"] for warning in run["warnings"]}
    text = f"{page}: {counted(len(data['runs']), 'run')}, {counted(len(kinds), 'kind')} of warnings"
    echo(to_json(data) if as_json else text)
