"""`electra vocab`: train a vocabulary on text."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from electra.cli.options import Json
from electra.data.settings import Accents, Documents, Format, Invalid, Pieces, Reading, Vocabulary

if TYPE_CHECKING:
    from electra.data.tokens.vocab import Report

EXAMPLES = """Examples:

  electra vocab wiki/*.txt.xz --size 30522 --out tokenizer

  electra vocab aozora.txt --model unigram --size 32000 --out tokenizer"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(vocab)


def vocab(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help="Files, folders, globs, - for standard input, addresses such as s3://…, or a dataset of the hub: "
            "OWNER/NAME[:CONFIG[:SPLIT]].",
        ),
    ],
    size: Annotated[int, typer.Option(help="Pieces of the vocabulary, special tokens included.")],
    out: Annotated[str, typer.Option(metavar="DIR", help="Where the tokenizer goes.")],
    model: Annotated[
        Pieces,
        typer.Option(help="wordpiece is BERT's; unigram suits scripts without spaces; bpe merges bytes."),
    ] = Vocabulary.model,
    lowercase: Annotated[
        bool, typer.Option("--uncased/--cased", help="Lower-case the text, or keep its case.")
    ] = Vocabulary.lowercase,
    accents: Annotated[
        Accents, typer.Option(help="auto strips with --uncased, except from Hangul and kana.")
    ] = Vocabulary.accents,
    max_characters: Annotated[
        int, typer.Option(help="Of longer text an even sample is used.")
    ] = Vocabulary.max_characters,
    documents: Annotated[Documents, typer.Option(help="What a document is.")] = Reading.documents,
    column: Annotated[str | None, typer.Option(help="The column that holds the text.")] = Reading.column,
    format: Annotated[Format | None, typer.Option(help="Of all sources, whatever their names.")] = Reading.format,
    invalid: Annotated[Invalid, typer.Option(help="What to do with bytes that are no UTF-8.")] = Reading.invalid,
    as_json: Json = False,
) -> None:
    """Train a vocabulary on text and write a tokenizer that Hugging Face reads."""
    from rich.console import Console

    from electra.data.tokens.vocab import read_report, train_vocab

    with Console(stderr=True).status(f"training a {model} vocabulary of {size:,} pieces"):
        train_vocab(
            sources,
            size=size,
            out=out,
            model=model,
            lowercase=lowercase,
            accents=accents,
            max_characters=max_characters,
            reading=Reading(documents, column, format, invalid),
        )
    report = read_report(out)
    typer.echo(json.dumps(asdict(report), ensure_ascii=False) if as_json else _summary(out, report))


def _summary(path: str, report: "Report") -> str:
    case = "uncased" if report.lowercase else "cased"
    accents = "accents stripped" if report.strip_accents else "accents kept"
    fertility = report.fertility
    lines = [
        f"{path}: {report.size:,} pieces ({report.model}, {case}, {accents})",
        f"  read      {report.characters:,} characters, trained on {report.sampled_characters:,}",
        f"  fertility {fertility.tokens_per_word:.2f} tokens a word, {fertility.tokens_per_character:.3f} a character, "
        f"{fertility.unknown:.3%} unknown",
        f"  example   {' '.join(report.example)}",
    ]
    if report.size < report.requested_size:
        lines.append(f"  too small the text has no more pieces; {report.requested_size:,} were asked for")
    return "\n".join(lines)
