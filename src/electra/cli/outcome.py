"""How `electra train` and `electra pretrain` end: what was learned, where the model is, what to do next."""

from pathlib import Path
from shlex import quote

from typer import echo


def counted(number: int, what: str) -> str:
    """Return a number with its noun: 1 run, 2 runs."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def show_outcome(out: str | Path) -> None:
    """Print the verdict on a run and the next command: its use only if it has learned something."""
    from electra.config.load import load_config
    from electra.config.objectives import Detecting
    from electra.data.storage import inside, local_path
    from electra.model.sentences import MODULES
    from electra.recipes.verdict import verdict

    folder = local_path(out)
    run, found = quote(str(out)), verdict(folder)
    if found:
        echo(f"{out}: {found.sentence}")
    echo(f"{out}: the model is in {inside(out, 'model')}")
    if found and found.learned == "nothing":
        echo(f"Next: electra report {run} --out report.html")
    elif (folder / "model" / MODULES).is_file():
        echo(f"Next: electra finetune similarity data=PAIRS.csv model={run} out=runs/tuned")
    elif isinstance(load_config(folder).objective, Detecting):
        echo(f'Next: electra detect {run} "a sentence with a wrong word in it"')
    else:
        echo(f"Next: electra finetune table data=TABLE.csv model={run} out=runs/tuned")
