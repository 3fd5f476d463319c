"""`electra bench`: time a training step or the encoding of texts, and compare with Hugging Face's modules."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, BadParameter, Option, echo

from electra.data.files import to_json

if TYPE_CHECKING:
    from electra.recipes.bench.timing import Bench, Row

BATCHES = {
    "pretrain": {"cpu": [8], "mps": [32], "cuda": [128, 1024]},
    "encode": {"cpu": [8], "mps": [32], "cuda": [64]},
}
USUAL_BATCH = [32]  # of sentence-transformers, for trained models

EXAMPLES = (
    "electra bench --size tiny --batch 32 --seconds 10 --json",
    "electra bench encode --model runs/vectors --model onnx/vectors --text sentences.txt",
)


def bench(
    work: Annotated[
        Literal["pretrain", "encode"], Argument(help="Time a joint step on random ids, or encoding texts.")
    ] = "pretrain",
    size: Annotated[str, Option(help="Preset name.")] = "small",
    model: Annotated[
        list[str] | None,
        Option(
            "--model",
            metavar="MODEL",
            help="For encode: trained model or ONNX folder to time instead of a preset; repeatable.",
        ),
    ] = None,
    batch: Annotated[
        list[int] | None,
        Option(
            min=1,
            max=2**20,
            help="Batch size (for encode, of Hugging Face's variants); repeatable.  [default: by device]",
        ),
    ] = None,
    length: Annotated[
        int | None, Option(min=8, max=65_536, help="Tokens per sequence; for encode, maximum.  [default: the preset's]")
    ] = None,
    text: Annotated[
        Path | None, Option(exists=True, dir_okay=False, help="File with a text per line.  [default: generated]")
    ] = None,
    seconds: Annotated[float, Option(min=0, max=86_400, help="Seconds to measure each batch size.")] = 40.0,
    against: Annotated[
        Literal["hf", "none"] | None,
        Option(help="What to compare with.  [default: hf if transformers is installed and has such a step]"),
    ] = None,
    device: Annotated[Literal["auto", "cuda", "mps", "cpu"], Option(help="Device to run on.")] = "auto",
    profile: Annotated[bool, Option("--profile", help="Also time each part of our step.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per row.")] = False,
) -> None:
    """Time a pre-training step or the encoding of texts."""
    from electra.config.load import load_config
    from electra.training.processes import joined

    measure = partial(_choose(work, profile, text, model), seconds=seconds, say=partial(echo, err=True))
    against = against or _usual(work, size)
    length = length or load_config(size).train.length
    with joined(device) as processes:
        batches = batch or (USUAL_BATCH if model else BATCHES[work][processes.device.type])
        found = [measure(model or size, rows, length, against=against, device=processes.device) for rows in batches]
    if as_json:
        _print_json(found, profile)
        return
    _print_table([row for measured in found for row in measured.rows])
    for measured in found:
        _print_parts(measured)


def _usual(work: str, size: str) -> Literal["hf", "none"]:
    """Return what the work is compared with by default."""
    from electra.config.load import load_config
    from electra.recipes.bench.huggingface import comparable

    possible = work == "encode" or comparable(load_config(size).objective)
    return "hf" if possible and find_spec("transformers") else "none"


def _choose(work: str, profiled: bool, text: Path | None, models: list[str] | None) -> "Callable[..., Bench]":
    """Return the function that measures the work; refuse options of the other kind of work."""
    from electra.data.reading.records import read_lines
    from electra.recipes.bench.encode import bench_encode
    from electra.recipes.bench.step import bench_step

    if work == "pretrain":
        if text:
            raise BadParameter("only for encode; the pre-training step reads random ids", param_hint="--text")
        if models:
            raise BadParameter("only for encode; the pre-training step needs no trained model", param_hint="--model")
        return partial(bench_step, profiled=profiled)
    if profiled:
        raise BadParameter("only for pretrain; encode cannot be profiled", param_hint="--profile")
    lines = list(read_lines(str(text))) if text else None
    return partial(bench_encode, texts=lines and [line for line in lines if line.strip()])


def _print_json(found: "list[Bench]", profiled: bool) -> None:
    for measured in found:
        profile = {"parts": [asdict(part) for part in measured.parts], "operations": measured.operations}
        for row in measured.rows:
            echo(to_json(asdict(row) | (profile if profiled and row.variant == "electra" else {})))


def _print_parts(measured: "Bench") -> None:
    if measured.parts:
        row = measured.rows[0]
        echo(f"\n{row.size} {row.batch} x {row.seq}, one step\n{'part':<18}{'ms':>10}{'share':>8}{'launches':>10}")
    for part in measured.parts:
        echo(f"{part.part:<18}{part.ms:>10.2f}{part.share:>8.1%}{part.launches:>10.0f}")
    for operation, implementation in measured.operations.items():
        echo(f"{operation:<18}{implementation:>10}")


def _print_table(rows: "list[Row]") -> None:
    echo(rows[0].device)
    names = max(11, *(len(row.variant) for row in rows)) + 1
    columns = "variant,size,batch x seq,ms,middle half,tokens/s,MFU,GiB,first step,ratio,middle half".split(",")
    echo(f"{{:<{names}}}{{:<12}}{{:>12}}{{:>10}}{{:>19}}{{:>12}}{{:>8}}{{:>8}}{{:>12}}{{:>8}}{{:>17}}".format(*columns))
    for row in rows:
        mfu = "-" if row.mfu is None else f"{row.mfu:.1%}"
        memory = "-" if row.memory_gib is None else f"{row.memory_gib:.1f}"
        echo(
            f"{row.variant:<{names}}{row.size:<12}{f'{row.batch} x {row.seq}':>12}{row.ms:>10.1f}"
            f"{f'{row.ms_low:.1f} - {row.ms_high:.1f}':>19}{row.tokens_s:>12,.0f}{mfu:>8}{memory:>8}"
            f"{row.first_step_s:>10.1f} s{row.ratio:>7.2f}x{f'{row.ratio_low:.2f} - {row.ratio_high:.2f}':>17}"
        )
