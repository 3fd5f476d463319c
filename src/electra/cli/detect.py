"""`electra detect`: which tokens of a text look replaced?"""

import json
import sys
from typing import Annotated

import typer

from electra.cli.colours import shade, shows_colours
from electra.cli.options import AnyModel, Json
from electra.data.files import exists

EXAMPLES = (
    'electra detect "I think that you are write."',
    "electra detect runs/small --json < letter.txt",
)


def detect(
    model: AnyModel = None,
    text: Annotated[str | None, typer.Argument(help="The text; - or nothing for standard input.")] = None,
    as_json: Json = False,
) -> None:
    """Give each token's probability of being replaced.

    A single argument is a text, for the model that comes with electra, if it has a space and is no folder, or is -;
    else it is a model. At a terminal, where no other text comes, a single word is a text too.
    """
    from electra.errors import DataError
    from electra.model.pretrained import EMBEDDED, load

    if model and text is None and _is_text(model):
        model, text = None, model
    if text is None and sys.stdin.isatty():
        raise DataError("no text: give it as an argument or on standard input")
    if text in (None, "-"):
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as problem:
            raise DataError(f"standard input is not valid UTF-8 at byte {problem.start}") from None
    detections = load(model or EMBEDDED).detect(text)
    if as_json:
        tokens = [
            {"token": token, "probability": probability, "start": start, "end": end}
            for token, probability, (start, end) in detections
        ]
        typer.echo(json.dumps({"text": text, "tokens": tokens}))
    elif shows_colours():
        from rich.console import Console
        from rich.text import Text

        coloured = Text(text)
        for _, probability, (start, end) in detections:
            coloured.stylize(shade(probability), start, end)
        Console().print(coloured)
    else:
        for token, probability, (start, end) in detections:
            typer.echo(f"{probability:.4f}\t{start}-{end}\t{token}")


def _is_text(argument: str) -> bool:
    """Tell a text from a model: names of the hub have a slash and no space, and folders that are not so are there."""
    if argument == "-":
        return True
    worded = " " in argument.strip() or ("/" not in argument and sys.stdin.isatty())
    return worded and not exists(argument)
