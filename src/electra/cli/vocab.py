"""`electra vocab`: train a vocabulary on text."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, echo

from electra.cli.options import TEXTS, Cased, Column, Documents, Format, Invalid, Json, OnCluster
from electra.data.files import to_json
from electra.data.settings import Accents, Model, Reading, Vocabulary

if TYPE_CHECKING:
    from electra.data.tokens.vocab import Report

EXAMPLES = (
    "electra vocab wiki/*.txt.xz --size 30522 --out tokenizer",
    "electra vocab aozora.txt --model unigram --size 32000 --out tokenizer",
)

MODELS = (
    "Kind of vocabulary: wordpiece as in BERT, unigram for scripts without spaces, bpe on bytes, or auto: "
    "wordpiece unless it would leave too much of the text unknown, then unigram."
)
ACCENTS = "Keep or strip accents; auto strips them with --uncased if they are rare in the text, as in English."
SAMPLE = "Train on an even sample of at most this many characters."


def vocab(
    sources: Annotated[list[str], Argument(metavar="TEXT", help=f"{TEXTS}.")],
    size: Annotated[int, Option(help="Pieces, with special tokens; about one per 2,000 bytes.")],
    out: Annotated[str, Option(metavar="DIR", help="Tokenizer folder to write; replaces an earlier one.")],
    model: Annotated[Model, Option(help=MODELS)] = Vocabulary.model,
    lowercase: Cased = Vocabulary.lowercase,
    accents: Annotated[Accents, Option(help=ACCENTS)] = Vocabulary.accents,
    max_characters: Annotated[int, Option(help=SAMPLE)] = Vocabulary.max_characters,
    documents: Documents = Reading.documents,
    column: Column = Reading.column,
    format: Format = Reading.format,
    invalid: Invalid = Reading.invalid,
    cluster: OnCluster = None,
    as_json: Json = False,
) -> None:
    """Train a vocabulary on text. The output is a tokenizer folder that Hugging Face loads."""
    from rich.console import Console

    from electra.data.tokens.vocab import read_report, train_vocab

    reading = Reading(documents, column, format, invalid)
    wanted = Vocabulary(size, model, lowercase, accents, max_characters, reading)
    with Console(stderr=True).status(f"training a vocabulary of {size:,} pieces"):
        train_vocab(sources, out=out, cluster=cluster, **vars(wanted))
    report = read_report(out)
    echo(to_json(asdict(report), ensure_ascii=False) if as_json else _summary(out, report))


def _summary(path: str, report: "Report") -> str:
    from electra.data.tokens.vocab import MOST_UNKNOWN

    fertility = report.fertility
    lines = [
        f"{path}: {report.size:,} pieces ({report.kind})",
        f"  read      {report.characters:,} characters, trained on {report.sampled_characters:,}",
        f"  fertility {fertility.tokens_per_word:.2f} tokens per word, {fertility.tokens_per_character:.3f} per "
        f"character, {fertility.unknown:.3%} unknown",
        f"  example   {' '.join(report.example)}",
    ]
    if (unknown := fertility.unknown_characters) > MOST_UNKNOWN:
        larger = "increase --size or " if report.size == report.requested_size else ""
        lines.append(f"  unknown   {unknown:.1%} of the characters; {larger}use --model bpe")
    if report.size < report.requested_size:
        lines.append(f"  too small the text yields no more pieces; requested were {report.requested_size:,}")
    return "\n".join(lines)
