"""`electra finetune`: fine-tune a model on a task."""

from shlex import quote
from typing import TYPE_CHECKING, Annotated

from typer import Option, echo

from electra.cli.options import Json, Quiet, Together, TuningOverrides, TuningPreset
from electra.data.files import to_json

if TYPE_CHECKING:
    from electra.recipes.tuning import Tuning

EXAMPLES = (
    "electra finetune glue task=mrpc model=runs/small data=glue out=runs/mrpc seeds=5",
    "electra finetune table data=pairs.csv model=google/electra-small-discriminator out=runs/pairs --dry-run",
)


def finetune(
    preset: TuningPreset,
    overrides: TuningOverrides = None,
    together: Together = 1,
    dry_run: Annotated[bool, Option("--dry-run", help="Read the data, print the plan and exit.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fine-tune a model on a task. seeds=N trains with several seeds. Run the same command again to resume."""
    from electra.config.load import dump_config, load_finetune_config
    from electra.data.storage import fetch_config, local_path
    from electra.training.run import check_moved

    config = load_finetune_config(fetch_config(preset), overrides or [])
    check_moved(preset, overrides or [], config.out)
    if dry_run:
        from electra.recipes.tuning import prepare
        from electra.training.run import check_place

        tuning = prepare(config)
        if config.out:
            check_place(local_path(config.out))
        if as_json:
            echo(to_json({"config": tuning.config.model_dump(), "plan": _plan(tuning)}))
            return
        echo(dump_config(tuning.config))
        for plan_line in _plan(tuning):
            echo(f"# {plan_line}")
        return
    from electra.recipes.finetune import finetune as run
    from electra.recipes.results import describe, swept
    from electra.training.progress import LiveLine

    with LiveLine(quiet) as line:
        results = run(config, [line], together)
    if as_json:
        echo(to_json(results))
        return
    for split, notes in results["notes"].items():
        for what, count in notes.items():
            echo(f"{split}: {count:,} {what}")
    if "sweep" in results:
        echo("learning rates: " + " · ".join(f"{rate} {medians}" for rate, medians in swept(results)))
    echo(describe(results))
    echo(f"{config.out}: wrote results.json and model/ (seed {results['kept']}, {config.keep})")
    echo(f"Next: electra predict {quote(str(config.out))} FILE --out predictions.jsonl")


def _plan(tuning: "Tuning") -> list[str]:
    config, layers = tuning.config, tuning.start.encoder.config.layers
    heights = {"embeddings": 0, "top layer": layers, "head": layers + 1}
    lines = tuning.task.detected()
    lines.append(f"{tuning.steps:,} steps, batch size {tuning.batch_size}, warmup {tuning.warmup_steps:,} steps")
    for rate in config.learning_rates or [config.learning_rate or 0.0]:
        rates = ", ".join(f"{name} {rate * tuning.rate(height):.4g}" for name, height in heights.items())
        lines.append(f"learning rates: {rates}")
    for split, part in (("train", tuning.train), ("dev", tuning.dev)):
        notes = "".join(f", {count:,} {what}" for what, count in part.notes.items())
        lines.append(f"{split}: {len(part.examples):,} examples, {len(part.features):,} inputs{notes}")
    return lines
