"""`electra flops`: count the cost of a run, or print the published totals."""

from dataclasses import asdict
from typing import Annotated

from typer import Argument, BadParameter, Option, echo

from electra.cli.options import PRESETS, Json, Overrides
from electra.data.files import to_json

EXAMPLES = ("electra flops small train.steps=100_000", "electra flops --table")


def flops(
    preset: Annotated[str | None, Argument(metavar="PRESET|FILE", help=PRESETS)] = None,
    overrides: Overrides = None,
    table: Annotated[bool, Option("--table", help="Print the 13 totals that the authors publish.")] = False,
    as_json: Json = False,
) -> None:
    """Count the parameters and FLOPs of a pre-training run."""
    if table == (preset is not None):
        raise BadParameter("give either a preset or config file, or --table")
    if preset is None:
        from electra.recipes.paper_flops import PAPER_DEFECTS, published_totals

        totals = published_totals()
        lines = [f"{name:<14} {total:.6e}" for name, total in totals.items()]
        lines += ["", "Known errors of the original formula, reproduced so that the totals agree:"]
        lines += [f"- {defect}" for defect in PAPER_DEFECTS]
        echo(to_json(totals) if as_json else "\n".join(lines))
        return
    from electra.config.load import load_config
    from electra.data.storage import fetch_config
    from electra.recipes.corpora import Corpora
    from electra.recipes.flops import flops as count

    config = load_config(fetch_config(preset), overrides or [])
    if "data" in (override.partition("=")[0].strip() for override in overrides or []):  # not the corpus of a run
        config = Corpora(config).fit(config)
    cost = count(config)
    lines = [f"{name + ' parameters':<26} {number:>16,}" for name, number in cost.parameters.items()]
    lines.append(f"{'tokens':<26} {cost.tokens:>16,}")
    lines.append(f"{'forward FLOPs':<26} {cost.forward_flops:>16.4e}  per sequence")
    lines.append(f"{'train FLOPs':<26} {cost.train_flops:>16.4e}")
    echo(to_json(asdict(cost)) if as_json else "\n".join(lines))
