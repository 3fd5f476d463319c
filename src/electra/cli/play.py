"""`electra play`: try out a model in the browser."""

from typing import Annotated

from typer import Option, echo

from electra.cli.options import AnyModel
from electra.data.reading.hub import EMBEDDED
from electra.playground import PORT

EXAMPLES = ("electra play", "electra play runs/mrpc --port 8000 --no-browser")


def play(
    model: AnyModel = EMBEDDED,
    port: Annotated[int, Option(min=1, max=65_535, help="Port to serve the page on, at 127.0.0.1.")] = PORT,
    no_browser: Annotated[bool, Option("--no-browser", help="Do not open a browser.")] = False,
) -> None:
    """Try out a model in the browser. Find replaced tokens, fool the discriminator, or query a fine-tuned model."""
    from rich.console import Console

    with Console(stderr=True).status("loading the model and the page") as status:
        from electra.playground.play import play as serve

        def ready(address: str) -> None:
            status.stop()
            echo(f"{address}  (Ctrl+C to stop)")

        serve(model, port, not no_browser, ready)
