"""`electra demo`: train and test a tiny model on this machine."""

import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from typer import Option, echo

from electra.cli.colors import shade, shows_colors
from electra.cli.options import Quiet

if TYPE_CHECKING:
    from electra.recipes.demo import Demonstration
    from electra.recipes.replace import Judged

EXAMPLES = ("electra demo", "electra demo --minutes 10 --out runs/longer")


def demo(
    out: Annotated[Path, Option(metavar="RUN", help="Run folder to write.")] = Path("runs/demo"),
    minutes: Annotated[float, Option(min=0.1, max=10_000, help="Wall-clock time for the demo.")] = 4.0,
    quiet: Quiet = False,
) -> None:
    """Pre-train a tiny model on local documentation and test it. Nothing is downloaded."""
    from electra.recipes.demo import demo as run
    from electra.training.progress import LiveLine

    with LiveLine(quiet) as live:
        shown = run(out, minutes=minutes, say=echo, listeners=[live])
    _print(shown)


def _print(shown: "Demonstration") -> None:
    echo("\nHeld-out sentences with some tokens replaced at random, and what the discriminator finds.")
    colored = shows_colors()
    echo(
        "Replaced tokens are underlined; the redder a token, the likelier it looks replaced.\n"
        if colored
        else "[new was:old 0.90] is a replaced token with its probability; word(0.60) is a false alarm.\n"
    )
    for sentence in shown.sentences:
        if colored:
            _print_colored(sentence)
        else:
            spelled = " ".join(map(_spell, sentence))
            echo(f"  {re.sub(r'(?<=[A-Za-z]) ##', '', spelled)}\n")  # join pieces of unmarked words
    echo(f"detection   AUC {shown.auc:.2f} on {shown.judged} sentences (chance: 0.50)")
    echo("probe       Was this word replaced? Accuracy of a linear probe on frozen features, held-out documents:")
    echo(f"            {shown.trained_accuracy:.1%} pre-trained, {shown.untrained_accuracy:.1%} untrained")
    echo(f"            ({shown.fitted:,} examples to fit, {shown.tested:,} to test; chance: 50%)")
    echo("\nIn longer runs a generator learns to propose plausible words, which are harder to detect.")
    echo(f'Next: electra detect {quote(str(shown.folder))} "return the name of the banana"')
    echo("      electra train my_texts/ --hours 1 --out runs/mine")


def _spell(judged: "Judged") -> str:
    if judged.replaced:
        return f"[{judged.token} was:{judged.original} {judged.probability:.2f}]"
    return f"{judged.token}({judged.probability:.2f})" if judged.probability >= 0.5 else judged.token


def _print_colored(sentence: "list[Judged]") -> None:
    """Print a sentence, each token shaded by its probability and underlined if replaced."""
    from rich.console import Console
    from rich.text import Text

    line = Text("  ")
    for judged in sentence:
        line.append("" if judged.token.startswith("##") else " ")
        line.append(judged.token.removeprefix("##"), f"{shade(judged.probability)}{' underline' * judged.replaced}")
    Console().print(line, "\n")
