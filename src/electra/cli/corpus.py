"""`electra corpus`: build, show or verify a corpus."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, echo

from electra.cli.options import TEXTS, Column, Documents, Format, Heldout, Invalid, Json, OnCluster
from electra.cli.outcome import counted
from electra.data.files import to_json
from electra.data.settings import Building, Cleaning, Controls, Cut, Duplicates, Reading, Unicode
from electra.errors import DataError

if TYPE_CHECKING:
    from electra.data.corpus.build import Progress
    from electra.data.corpus.shards import Manifest

EXAMPLES = (
    "electra corpus wiki/*.txt.xz --tokenizer vocab.txt --length 128 --out corpus",
    "electra corpus corpus --show 3",
)

REPETITION = "Drop documents in which more than this share of five-word runs is repeated."
CUTS = "Where sequences begin: at sentences; packed: where the last one ended; paper: as in the original code."
FEWER_UNKNOWN = "a larger vocabulary of this text has fewer, one with --model bpe none: electra vocab"
DOCUMENTS = {"blank": "between blank lines", "line": "one per line", "file": "one per file", "record": "one per record"}


def corpus(
    sources: Annotated[list[str], Argument(metavar="TEXT", help=f"{TEXTS}; with --show or --verify, a corpus.")],
    tokenizer: Annotated[str | None, Option(metavar="DIR|vocab.txt|NAME", help="Tokenizer to use.")] = None,
    length: Annotated[int | None, Option(help="Tokens per sequence.")] = None,
    out: Annotated[str | None, Option(metavar="DIR", help="Corpus folder to write.")] = None,
    cut: Annotated[Cut, Option(help=CUTS)] = Building.cut,
    workers: Annotated[
        int | None, Option(min=0, max=256, help="Worker processes.  [default: one per core, none for a short text]")
    ] = None,
    cluster: OnCluster = None,
    seed: Annotated[int, Option(help="Random seed of --cut paper.")] = Building.seed,
    heldout: Heldout = Building.heldout,
    documents: Documents = Reading.documents,
    column: Column = Reading.column,
    format: Format = Reading.format,
    invalid: Invalid = Reading.invalid,
    unicode: Annotated[Unicode, Option(help="Unicode normalization.")] = Cleaning.unicode,
    controls: Annotated[Controls, Option(help="Keep or drop control characters.")] = Cleaning.controls,
    duplicates: Annotated[Duplicates, Option(help="Drop exact or near duplicates.")] = Cleaning.duplicates,
    min_characters: Annotated[int, Option(help="Drop shorter documents.")] = Cleaning.min_characters,
    max_characters: Annotated[int | None, Option(help="Drop longer documents.")] = Cleaning.max_characters,
    max_repetition: Annotated[float | None, Option(help=REPETITION)] = Cleaning.max_repetition,
    show: Annotated[int | None, Option(metavar="N", min=1, help="Print N sequences of a corpus as text.")] = None,
    verify: Annotated[bool, Option("--verify", help="Check a corpus against its manifest.")] = False,
    as_json: Json = False,
) -> None:
    """Build a corpus of token sequences from text. Run the same command again to resume an interrupted build."""
    if show is not None or verify:
        if tokenizer or length or out:
            raise DataError("--show and --verify look at a finished corpus; drop --tokenizer, --length and --out")
        _look(sources, show, verify, as_json)
        return
    if tokenizer is None or length is None or out is None:
        raise DataError("to build a corpus, give --tokenizer, --length and --out")
    from electra.data.corpus.build import build_corpus
    from electra.data.corpus.unfinished import check_place

    reading = Reading(documents, column, format, invalid)
    cleaning = Cleaning(unicode, controls, duplicates, min_characters, max_characters, max_repetition)
    building = Building(length, cut, seed, heldout, reading, cleaning)
    existed = check_place(out)
    with _bar() as progress:
        built = build_corpus(
            sources, tokenizer, out=out, workers=workers, cluster=cluster, progress=progress, **vars(building)
        )
    echo(to_json(asdict(built.manifest)) if as_json else _summary(out, built.manifest))
    if existed and not as_json:
        echo("  already built from files with the same names and sizes; nothing was done")


def _look(corpora: list[str], show: int | None, verify: bool, as_json: bool) -> None:
    from electra.data.corpus.shards import open_corpus
    from electra.data.corpus.show import show_sequences
    from electra.data.corpus.verify import verify_corpus

    if len(corpora) != 1:
        raise DataError(f"--show and --verify take one corpus; found {len(corpora)}")
    if verify and show:
        raise DataError("--show and --verify cannot be combined")
    path = corpora[0]
    if show:
        shown = show_sequences(open_corpus(path), show)
        echo(to_json(shown, ensure_ascii=False) if as_json else "\n\n".join(shown))
        return
    problems = verify_corpus(path)
    if as_json:
        echo(to_json({"problems": problems}))
    if problems:
        raise DataError(f"{path} is damaged: {'; '.join(problems)}; delete it and build it again")
    if not as_json:
        echo(f"{path} matches its manifest")


@contextmanager
def _bar() -> Iterator[Callable[["Progress"], None]]:
    """Show a progress bar on standard error if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    text = TextColumn("{task.fields[counts]}")
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(), text)
    with Bar(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=None, counts="")

        def update(progress: "Progress") -> None:
            counts = f"{progress.documents:,} documents, {progress.tokens / 1e6:,.1f} M tokens"
            bar.update(task, completed=progress.bytes_read, total=progress.total_bytes, counts=counts)

        yield update


def _kept(share: float) -> str:
    if share > 1:
        return f"  kept      all tokens; {share - 1:.1%} are repeated, so that sequences begin at sentences"
    return f"  kept      {share:.1%} of the tokens in the kept documents"


def _summary(path: str, manifest: "Manifest") -> str:
    from electra.data.tokens.vocab import MOST_UNKNOWN

    report: dict[str, Any] = manifest.report
    heldout = manifest.splits["heldout"]
    lines = [
        f"{path}: {manifest.tokens:,} tokens of {manifest.documents:,} documents "
        f"in {counted(manifest.sequences, 'sequence')} of {manifest.length} ({manifest.cut})",
        f"  read      {report['documents_read']:,} documents, {report['characters_read']:,} characters; documents: "
        + ", ".join(f"{DOCUMENTS[kind]} ({counted(n, 'source')})" for kind, n in report["sources_by_document"].items())
        + (f"; text in the column {', '.join(columns)}" if (columns := report.get("columns")) else ""),
        _kept(manifest.tokens / report["tokens_read"]),
        f"  held out  {counted(sum(shard.documents for shard in heldout), 'document')}, "
        f"{counted(sum(shard.sequences for shard in heldout), 'sequence')}",
    ]
    for reason, dropped in report["dropped"].items():
        lines.append(f"  dropped   {dropped['documents']:,} documents, {dropped['characters']:,} characters: {reason}")
        lines += [f"            such as: {example}" for example in dropped["examples"]]
    if unknown := report.get("unknown_tokens", 0) / max(1, report["tokens_read"]):
        hint = f"; {FEWER_UNKNOWN}" if unknown > MOST_UNKNOWN else ""
        lines.append(f"  unknown   {unknown:.2%} of the tokens are not in the vocabulary{hint}")
    if report["invalid_places"]:
        lines.append(f"  invalid   {report['invalid_places']:,} places were not valid UTF-8")
    if report["ignored_files"]:
        count, example = len(report["ignored_files"]), report["ignored_files"][0]
        lines.append(f"  skipped   {count} files that are not text or were already read, such as {example}")
    return "\n".join(lines)
