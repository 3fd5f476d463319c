"""`electra evaluate`: score a fine-tuned model."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

from typer import Option, echo

from electra.cli.options import Json, TunedModel, TuningOverrides
from electra.data.files import atomic_folder, to_json

EXAMPLES = (
    "electra evaluate runs/mnli task=ax data=glue --split test --out predictions",
    "electra evaluate runs/mine task=blimp data=blimp",
)
MOST_IN_A_LINE = 6  # scores


def evaluate(
    run: TunedModel,
    overrides: TuningOverrides = None,
    split: Annotated[Literal["train", "dev", "test"], Option(help="Split to score.")] = "dev",
    out: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="Also write predictions, submission files and plots (confusion, calibration) to DIR."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a fine-tuned model on a split of its task. KEY=VALUE changes settings of the task, such as data=DIR.

    Minimal pairs (task=blimp data=DIR) take any pre-trained model; the score is how often the acceptable sentence is
    preferred.
    """
    from electra.recipes.evaluate import evaluate as score
    from electra.recipes.results import describe_scores

    with atomic_folder(out) if out else nullcontext() as folder:  # fail before scoring if the folder cannot be written
        found = score(run, overrides or [], split)
        if folder:
            lines = (to_json(prediction, ensure_ascii=False) + "\n" for prediction in found.predictions)
            for name, text in {"predictions.jsonl": "".join(lines), **found.files}.items():
                (folder / name).write_text(text, encoding="utf-8")
    if as_json:
        shown = ("task", "split", "source", "metrics", "baseline", "notes")
        echo(to_json({name: getattr(found, name) for name in shown}))
        return
    for what, count in found.notes.items():
        echo(f"{found.source}: {count:,} {what}")
    scores = describe_scores(found.metrics, found.baseline)
    first = f"{found.task}, {found.source}, {len(found.predictions):,} examples: "
    apart = " · " if len(scores) <= MOST_IN_A_LINE else "\n  "
    echo(first + (apart.join(scores) or "no labels, so no score"))
