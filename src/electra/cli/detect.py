"""`electra detect`: find the tokens of a text that look replaced."""

import sys
from typing import Annotated

from typer import Argument, echo

from electra.cli.colors import shade, shows_colors
from electra.cli.options import AnyModel, Json
from electra.data.files import exists, to_json
from electra.data.reading.hub import EMBEDDED
from electra.errors import DataError

EXAMPLES = ('electra detect "I think that you are write."', "electra detect runs/small --json < letter.txt")


def detect(
    model: AnyModel = EMBEDDED,
    text: Annotated[str | None, Argument(help="Text, or - for standard input.  [default: -]")] = None,
    as_json: Json = False,
) -> None:
    """Print each token's probability of being replaced.

    With one argument, the packaged model reads it as text if it is - or contains a space; at a terminal, also if it is
    a word without a slash. An existing path or any other argument names a model.
    """
    from electra.data.reading.decode import refuse_binary
    from electra.model.pretrained import load

    if text is None and model != EMBEDDED and _is_text(model):
        model, text = EMBEDDED, model
    if text is None and sys.stdin.isatty():
        raise DataError("no text; give it as an argument or on standard input")
    if text in (None, "-"):
        start = sys.stdin.buffer.read(1 << 16)
        refuse_binary(start, "standard input")  # before reading all of it: a device never ends
        try:
            text = (start + sys.stdin.buffer.read()).decode()
        except UnicodeDecodeError as problem:
            raise DataError(f"standard input is not valid UTF-8 at byte {problem.start}") from None
    detections = load(model).detect(text)
    if as_json:
        tokens = [
            {"token": token, "probability": probability, "start": start, "end": end}
            for token, probability, (start, end) in detections
        ]
        echo(to_json({"text": text, "tokens": tokens}, ensure_ascii=False))
    elif shows_colors():
        from rich.console import Console
        from rich.text import Text

        colored = Text(text)
        for _, probability, (start, end) in detections:
            colored.stylize(shade(probability), start, end)
        Console().print(colored)
    else:
        for token, probability, (start, end) in detections:
            echo(f"{probability:.4f}\t{start}-{end}\t{token}")


def _is_text(argument: str) -> bool:
    """Return whether an argument is text: model names have a slash and no space, or else exist as a path."""
    if argument == "-":
        return True
    worded = " " in argument.strip() or ("/" not in argument and sys.stdin.isatty())
    return worded and not exists(argument)
