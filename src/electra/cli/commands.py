"""The commands as one typer app."""

from importlib import import_module
from typing import Annotated

import typer

COMMANDS = (  # in the order of the help; each is a module of this package with a function of the same name
    *"demo train vocab corpus pretrain detect play finetune evaluate predict glue".split(),
    *"report import_ export config flops bench".split(),
)


def _examples(*commands: str) -> str:
    """Return the examples of a help text; the backspace keeps click from wrapping them."""
    return "\b\nExamples:" + "".join(f"\n  {command}" for command in commands)


app = typer.Typer(
    name="electra",
    help="Pre-train text encoders by replaced token detection (ELECTRA), and use them.",
    epilog=_examples("electra demo", "electra train my_texts/ --hours 1 --out runs/mine"),
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        from electra import __version__

        typer.echo(f"electra {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback on errors.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _name in COMMANDS:
    _module = import_module(f"electra.cli.{_name}")
    app.command(_name.rstrip("_"), epilog=_examples(*_module.EXAMPLES))(getattr(_module, _name))
