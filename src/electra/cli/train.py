"""`electra train`: train a model on text within a time budget."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from typer import Argument, Option, echo

from electra.cli.options import Cased, Heldout, Quiet
from electra.data.settings import Building, Vocabulary

EXAMPLES = (
    "electra train my_texts/ --hours 1 --out runs/mine",
    "electra train wiki/*.txt.xz --hours 12 --out runs/wiki --set objective.mask_fraction=0.25 --dry-run",
)


def train(
    sources: Annotated[list[str], Argument(metavar="TEXT", help="Files, folders, globs, URLs, or a hub dataset.")],
    hours: Annotated[float, Option(metavar="H", help="Wall-clock time for the entire run, such as 0.5 or 12.")],
    out: Annotated[str, Option(metavar="RUN", help="Run folder to write.")],
    overrides: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Config key to set, overriding the plan; repeatable."),
    ] = None,
    heldout: Heldout = Building.heldout,
    lowercase: Cased = Vocabulary.lowercase,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the plan and exit.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on text within a time budget.

    Trains a vocabulary, builds a corpus, plans for the machine and the time, and pre-trains. Run the same command again
    to resume. RUN/model is a Hugging Face folder.
    """
    from electra.cli.progress import LiveLine
    from electra.data.storage import inside, local_path
    from electra.recipes.plan import describe
    from electra.recipes.train import planned
    from electra.recipes.train import train as run

    chosen: dict[str, Any] = {"hours": hours, "overrides": overrides or [], "heldout": heldout, "lowercase": lowercase}
    if dry_run:
        plan, _ = planned(sources, out=local_path(out), **chosen)
        echo("\n".join(describe(plan)))
        return
    with LiveLine(quiet) as live:
        folder = run(sources, out=out, listeners=[live], say=echo, **chosen)
    echo(f"{out}: trained; the model is in {inside(out, 'model')}")
    echo(f"Next: {_next(folder, quote(out))}")


def _next(folder: Path, name: str) -> str:
    """Return a command that uses the model."""
    from electra.config.load import load_config
    from electra.config.objectives import Detecting

    if isinstance(load_config(folder).objective, Detecting):
        return f'electra detect {name} "a sentence with a wrong word in it"'
    return f"electra finetune table data=TABLE.csv model={name} out=runs/tuned"
