"""`electra evaluate`: score a fine-tuned model."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from electra.cli.options import Json, Overrides


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog="Examples:\n\n  electra evaluate runs/mrpc\n\n"
        "  electra evaluate runs/mnli task=ax data=glue --split test --out predictions"
    )(evaluate)


def evaluate(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run of electra finetune, or a fine-tuned Hugging Face folder.")
    ],
    overrides: Overrides = None,
    split: Annotated[str, typer.Option(metavar="SPLIT", help="Which split: train, dev or test.")] = "dev",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Also write predictions, a benchmark's own files and pictures of the mistakes."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a model on a split of its task; KEY=VALUE changes the task's settings, such as data=DIR."""
    if split not in ("train", "dev", "test"):
        raise typer.BadParameter(f"--split {split}: choose train, dev or test")
    from electra.recipes.convert import written_beside
    from electra.recipes.evaluate import evaluate as score
    from electra.recipes.results import percent

    with written_beside(out) if out else nullcontext() as folder:  # a folder that cannot be had is told at once
        found = score(run, overrides or [], split)  # type: ignore[arg-type]
        if folder:
            lines = (json.dumps(prediction, ensure_ascii=False) + "\n" for prediction in found.predictions)
            for name, text in {"predictions.jsonl": "".join(lines), **found.files}.items():
                (folder / name).write_text(text, encoding="utf-8")
    if as_json:
        typer.echo(json.dumps({"task": found.task, "split": split, "metrics": found.metrics, "notes": found.notes}))
        return
    for what, count in found.notes.items():
        typer.echo(f"{split}: {count:,} {what}")
    scores = " · ".join(f"{name} {percent(name, value)}" for name, value in found.metrics.items())
    typer.echo(f"{found.task}, {split}, {len(found.predictions):,} examples: {scores or 'no labels, no score'}")
