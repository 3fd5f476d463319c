"""What the page of `electra play` shows, as one more command, so that its functions face the same faults."""

import random
from pathlib import Path

from typer import echo

from electra.cli.commands import app
from electra.errors import DataError
from electra.playground import fooling, forms, tokens
from electra.playground.play import load_playable
from electra.recipes.evaluate import Tuned


@app.command(hidden=True)
def page(model: str, text: Path) -> None:
    """Print the page of a model for a text: the form's answer, or the colored tokens and a round of fooling."""
    if not text.is_file():
        raise DataError(f"{text} is not a file; what is typed into the page would be in it")
    playable, given = load_playable(model), text.read_text(encoding="utf-8", errors="replace")
    if isinstance(playable, Tuned):
        echo(forms.answer(playable, [given] * len(playable.task.fields)))
        return
    echo(tokens.colored(tokens.detect(playable, given)))
    places = fooling.pick_places(playable, given, random.Random(0))
    echo(fooling.show_verdict(fooling.play_round(playable, given, places)))
