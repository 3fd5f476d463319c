"""`electra predict`: apply a fine-tuned model to new examples."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from electra.cli.options import OnCluster, TunedModel, TuningOverrides
from electra.data.files import atomic_file, read_first, to_json
from electra.errors import DataError

EXAMPLES = (
    "electra predict runs/mrpc pairs.csv --out predictions.jsonl",
    "cat sentences.txt | electra predict runs/cola -",
)


def predict(
    run: TunedModel,
    source: Annotated[str, Argument(metavar="FILE", help="Table, lines of text, or - for standard input.")],
    overrides: TuningOverrides = None,
    out: Annotated[Path | None, Option(metavar="FILE", help="File to write.  [default: standard output]")] = None,
    cluster: OnCluster = None,
) -> None:
    """Apply a fine-tuned model to the examples of a file. Writes one line of JSON per example, in the same order."""
    from electra.recipes.evaluate import predict as run_over
    from electra.tasks.base import Notes

    if out:
        out = _check_out(out.expanduser(), source)
    replaced = _fields(out) if out else None
    notes = Notes()
    count = 0
    with atomic_file(out) if out else nullcontext(sys.stdout) as target:
        for prediction in run_over(run, source, overrides or [], notes, cluster):
            if not count and replaced not in (None, prediction.keys() - {"id"}):
                raise DataError(f"{out} exists and does not hold such predictions; choose another --out")
            target.write(to_json(prediction, ensure_ascii=False) + "\n")
            count += 1
        if not count:
            raise DataError(f"{source} has no examples, so there is nothing to predict; add rows or lines to it")
    for what, number in notes.counts.items():
        echo(f"{number:,} {what}", err=True)
    if out:
        echo(f"{out}: {count:,} predictions")


def _check_out(out: Path, source: str) -> Path:
    """Refuse to overwrite a folder or the input; make the parent folder."""
    if out.is_dir():
        raise DataError(f"{out} is a folder; name a file, such as {out / 'predictions.jsonl'}")
    if out.exists() and Path(source).expanduser().exists() and out.samefile(Path(source).expanduser()):
        raise DataError(f"{out} is the input file; choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    return out


def _fields(out: Path) -> set[str] | None:
    """Return the fields of the predictions in a file, without the optional id; None if there is nothing to lose."""
    if not out.is_file() or not out.stat().st_size:
        return None
    found = read_first(out)
    if found is None:
        raise DataError(f"{out} exists and does not hold predictions; choose another --out")
    return found.keys() - {"id"}
