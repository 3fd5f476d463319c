"""`electra play`: a page in the browser to play with a model."""

from typing import Annotated

import typer

from electra.cli.options import AnyModel
from electra.playground import PORT

EXAMPLES = (
    "electra play",
    "electra play runs/mrpc --port 8000 --no-browser",
)


def play(
    model: AnyModel = None,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65_535, help="Port of 127.0.0.1 to serve the page on.")
    ] = PORT,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page in a browser.")] = False,
) -> None:
    """Serve a page to see replaced tokens, to fool the discriminator, or to ask a fine-tuned model."""
    from electra.model.pretrained import EMBEDDED
    from electra.playground.play import play as serve

    def ready(address: str) -> None:
        typer.echo(f"{address}  (Ctrl+C ends it)")

    serve(model or EMBEDDED, port, not no_browser, ready)
