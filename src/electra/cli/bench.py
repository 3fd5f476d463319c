"""`electra bench`: time one training step, beside the same step made of Hugging Face's modules."""

import json
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from electra.recipes.bench import Bench, Row

BATCHES = {"cpu": [8], "cuda": [128, 1024]}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Examples:\n\n  electra bench\n\n  electra bench --size tiny --batch 32 --seconds 10 --json")(
        bench
    )


def bench(
    size: Annotated[str, typer.Option(help="A preset's name.")] = "small",
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Sequences in a step; may be given again.  [default: by device]")
    ] = None,
    length: Annotated[int | None, typer.Option(min=8, help="Tokens in a sequence.  [default: the preset's]")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Time for the repetitions, for each batch size.")] = 40.0,
    against: Annotated[
        Literal["hf", "none"] | None,
        typer.Option(help="What to compare with.  [default: hf where transformers is installed]"),
    ] = None,
    device: Annotated[Literal["auto", "cuda", "cpu"], typer.Option(help="Where to run.")] = "auto",
    profile: Annotated[bool, typer.Option("--profile", help="Also say what the time of our step goes into.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a row instead of a table.")] = False,
) -> None:
    """Time one joint step of pre-training on random ids."""
    from electra.config.load import load_config
    from electra.recipes.bench import bench as measure
    from electra.training.processes import joined

    length = length or load_config(size).train.length
    against = against or ("hf" if find_spec("transformers") else "none")
    found: list[Bench] = []
    with joined(device) as processes:
        for sequences in batch or BATCHES[processes.device.type]:
            measured = measure(
                size,
                sequences,
                length,
                seconds=seconds,
                against=against,
                device=processes.device,
                profiled=profile,
                say=lambda line: typer.echo(line, err=True),
            )
            found.append(measured)
    if as_json:
        for measured in found:
            for row in measured.rows:
                parts = (
                    {"parts": [asdict(part) for part in measured.parts]} if row.variant == "electra" and profile else {}
                )
                typer.echo(json.dumps(asdict(row) | parts))
        return
    _print_table([row for measured in found for row in measured.rows])
    for measured in found:
        _print_parts(measured)


def _print_parts(measured: "Bench") -> None:
    if measured.parts:
        row = measured.rows[0]
        typer.echo(
            f"\n{row.size} {row.batch} x {row.seq}, one step\n{'part':<18}{'ms':>10}{'share':>8}{'launches':>10}"
        )
    for part in measured.parts:
        typer.echo(f"{part.part:<18}{part.ms:>10.2f}{part.share:>8.1%}{part.launches:>10.0f}")


def _print_table(rows: "list[Row]") -> None:
    typer.echo(rows[0].device)
    columns = ("variant", "size", "batch x seq", "ms", "middle half", "tokens/s", "MFU", "GiB", "first step", "ratio")
    typer.echo("{:<12}{:<12}{:>12}{:>10}{:>19}{:>12}{:>8}{:>8}{:>12}{:>8}".format(*columns))
    for row in rows:
        mfu = "-" if row.mfu is None else f"{row.mfu:.1%}"
        memory = "-" if row.memory_gib is None else f"{row.memory_gib:.1f}"
        typer.echo(
            f"{row.variant:<12}{row.size:<12}{f'{row.batch} x {row.seq}':>12}{row.ms:>10.1f}"
            f"{f'{row.ms_low:.1f} - {row.ms_high:.1f}':>19}{row.tokens_s:>12,.0f}{mfu:>8}{memory:>8}"
            f"{row.first_step_s:>10.1f} s{row.ratio:>7.2f}x"
        )
