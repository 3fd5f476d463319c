"""`electra glue`: fine-tune a model on a suite of tasks."""

import statistics
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from typer import Option, echo

from electra.cli.options import Json, Model, OnCluster, Quiet, Together, TuningOverrides
from electra.data.files import to_json

if TYPE_CHECKING:
    from electra.recipes.glue import Plan, Suite

EXAMPLES = (
    "electra glue runs/small --data glue --out runs/suite seeds=5",
    "electra glue runs/small --data glue --data squad-1.1 --out runs/suite qnli.train_file=train_part.tsv",
)


def glue(
    model: Model,
    data: Annotated[list[str], Option(metavar="DIR", help="Folder with the data of the tasks; repeatable.")],
    out: Annotated[str, Option(metavar="RUN", help="Folder for the runs of all tasks.")],
    overrides: TuningOverrides = None,
    task: Annotated[list[str] | None, Option("--task", metavar="TASK", help="Run only this task; repeatable.")] = None,
    together: Together = 1,
    cluster: OnCluster = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Read the data, print the plan and exit.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fine-tune a model on GLUE and compare with published scores.

    Runs every task whose data is found: GLUE, SQuAD and chunking. KEY=VALUE sets a key of all tasks, TASK.KEY=VALUE
    of one. RUN/submission.zip is ready for GLUE's server.
    """
    from electra.recipes.glue import glue as run
    from electra.recipes.glue import plan_suite
    from electra.training.progress import LiveLine

    if dry_run:
        plan = plan_suite(model, data, out, overrides or [], task or [])
        if as_json:
            tasks = {
                name: {"config": task.config.model_dump(), "train": task.train, "dev": task.dev}
                for name, task in plan.tasks.items()
            }
            echo(to_json({"tasks": tasks, "skipped": plan.skipped}))
            return
        _print(_planned(plan), plan.skipped)
        return
    with LiveLine(quiet) as line:
        suite = run(model, data, out, overrides or [], task or [], [line], together, cluster)
    if as_json:
        echo(to_json(asdict(suite)))
        return
    _print(_table(suite), suite.skipped)
    for name, status in suite.submission.items():
        echo(f"submission, {name}: {status}")


def _planned(plan: "Plan") -> list[list[str]]:
    """Return a row for each task that was found: its data and main settings."""
    rows = [["task", "data", "train", "dev", "epochs", "rate", "seeds"]]
    for name, task in plan.tasks.items():
        config = task.config
        rates = ", ".join(f"{rate:g}" for rate in config.learning_rates or [config.learning_rate or 0.0])
        what = [f"{task.train:,}", f"{task.dev:,}", f"{config.epochs:g}", rates, str(config.seeds)]
        rows.append([name, config.data or "", *what])
    return rows


def _table(suite: "Suite") -> list[list[str]]:
    """Return a row for each score, ours next to the published ones, and the mean over the common tasks or GLUE's."""
    from electra.recipes.glue import AVERAGED

    models = list(dict.fromkeys(model for score in suite.scores for model in score.published))
    rows = [["task", "metric", "score", "std", "seeds", "protocol", *models, ""]]
    for score in suite.scores:
        known = [f"{score.published[model]:.1f}" if model in score.published else "-" for model in models]
        ours = [f"{score.score:.1f}", f"{score.std:.1f}" if score.seeds > 1 else "-", str(score.seeds)]
        rows.append([score.task, score.metric, *ours, score.protocol, *known, score.notes])
    averaged = (score for score in suite.scores if score.task in AVERAGED)
    common = [score for score in averaged if score.published.keys() == {*models}]
    if len(common) > 1:
        means = [statistics.fmean(score.published[model] for score in common) for model in models]
        ours = [f"{statistics.fmean(score.score for score in common):.1f}", "", ""]
        rows.append(["mean", f"of {len(common)}", *ours, "", *(f"{mean:.1f}" for mean in means), ""])
    return rows


def _print(rows: list[list[str]], skipped: dict[str, str]) -> None:
    """Print rows in aligned columns, and why tasks were skipped."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for name, reason in skipped.items():
        echo(f"skipped {name}: {reason}")
