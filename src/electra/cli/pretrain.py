"""`electra pretrain`: pre-train a model on a corpus."""

import os
from typing import Annotated

from typer import Option, echo

from electra.cli.options import Overrides, Preset, Quiet
from electra.cli.outcome import show_outcome

EXAMPLES = (
    "electra pretrain quick data=corpus out=runs/quick train.hours=1.0",
    "electra pretrain tiny data=corpus out=runs/mlm objective.name=mlm train.steps=500",
)


def pretrain(
    preset: Preset,
    overrides: Overrides = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the complete config and exit.")] = False,
    quiet: Quiet = False,
) -> None:
    """Pre-train a model on a corpus. Run the same command again to resume."""
    from electra.config.load import dump_config, load_config
    from electra.data.storage import fetch_config
    from electra.training.run import check_moved

    config = load_config(fetch_config(preset), overrides or [])
    check_moved(preset, overrides or [], config.out)
    if dry_run:
        from electra.recipes.pretrain import check

        echo(dump_config(check(config)))
        return
    from electra.recipes.pretrain import pretrain as run
    from electra.training.progress import LiveLine

    with LiveLine(quiet) as line:
        run(config, [line])
    if os.environ.get("RANK", "0") == "0":  # only the first worker prints
        assert config.out is not None
        show_outcome(config.out)
