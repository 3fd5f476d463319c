"""`electra demo`: the whole of it, small, on this machine."""

import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from electra.cli.colours import shade, shows_colours
from electra.cli.options import Quiet

if TYPE_CHECKING:
    from electra.recipes.demo import Demonstration
    from electra.recipes.replace import Judged

EXAMPLES = (
    "electra demo",
    "electra demo --minutes 10 --out runs/longer",
)


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="RUN", help="The folder of the run.")] = Path("runs/demo"),
    minutes: Annotated[float, typer.Option(min=0.1, help="Wall-clock time for everything.")] = 4.0,
    quiet: Quiet = False,
) -> None:
    """Pre-train a small model on the documentation that is on this machine, and try it; nothing is downloaded."""
    from electra.cli.progress import LiveLine
    from electra.recipes.demo import demo as run

    with LiveLine(quiet) as live:
        shown = run(out, minutes=minutes, say=typer.echo, listeners=[live])
    _print(shown)


def _print(shown: "Demonstration") -> None:
    typer.echo("\nSentences it has not seen, with some tokens replaced at random; the discriminator looks for them.")
    coloured = shows_colours()
    typer.echo(
        "Underlined is what was replaced; the redder a token, the likelier it seems so.\n"
        if coloured
        else "[new was:old 0.90] a replaced token, and how likely it seems so; word(0.60) an original one under "
        "suspicion.\n"
    )
    for sentence in shown.sentences:
        if coloured:
            _print_coloured(sentence)
        else:
            spelled = " ".join(map(_spell, sentence))
            typer.echo(f"  {re.sub(r'(?<=[A-Za-z]) ##', '', spelled)}\n")  # whole words where nothing is marked
    typer.echo(f"found       a replaced token seems likelier so than an original one: {shown.auc:.1%} of all pairs")
    typer.echo(f"            ({shown.judged} sentences; guessing gives 50 %)")
    typer.echo(
        "probe       has this word been exchanged for another? Linear, on its frozen features, in unseen documents:"
    )
    typer.echo(f"            {shown.trained_accuracy:.1%} right pre-trained, {shown.untrained_accuracy:.1%} untrained")
    typer.echo(f"            ({shown.fitted:,} examples to fit, {shown.tested:,} to test; guessing gives 50 %)")
    typer.echo(
        "\nWith hours instead of minutes a generator learns to propose words that fit, which are harder to find."
    )
    typer.echo(f'Next: electra detect {quote(str(shown.folder))} "return the name of the banana"')
    typer.echo("      electra train my_texts/ --hours 1 --out runs/mine")


def _spell(judged: "Judged") -> str:
    if judged.replaced:
        return f"[{judged.token} was:{judged.original} {judged.probability:.2f}]"
    return f"{judged.token}({judged.probability:.2f})" if judged.probability >= 0.5 else judged.token


def _print_coloured(sentence: "list[Judged]") -> None:
    """Shade each token by its probability; replaced ones are underlined."""
    from rich.console import Console
    from rich.text import Text

    line = Text("  ")
    for judged in sentence:
        line.append("" if judged.token.startswith("##") else " ")
        line.append(judged.token.removeprefix("##"), f"{shade(judged.probability)}{' underline' * judged.replaced}")
    Console().print(line, "\n")
