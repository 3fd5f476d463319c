"""The command line: one file per command, each a thin layer over one function."""

import os
import signal
import sys
import traceback
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated

import typer

from electra.errors import NO_ROOM, ElectraError

COMMANDS = (  # in the order of the help; each is a module of this package with a function of the same name
    *"demo train vocab corpus pretrain detect play finetune evaluate predict glue".split(),
    *"report import_ export config flops bench".split(),
)
LONGEST_LINE = 600  # characters of an error
INTERRUPTED = 130  # typer's exit code for Ctrl-C


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


def main() -> None:
    """Run the command line; exit with 0 on success, 2 on a user's error, 1 on a bug."""
    debug = "--debug" in sys.argv
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # our one-line error follows its retries
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as on Ctrl-C
    for stream in (sys.stdout, sys.stderr):
        if os.name == "nt" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # cp1252 when redirected
    try:
        status = app(standalone_mode=False) or 0
        if status == INTERRUPTED:
            raise ElectraError("stopped; run the same command again")
        sys.exit(status)
    except (ElectraError, OSError, typer.Abort) as error:
        _fail(error, debug, exit_code=2)
    except Exception as error:
        usage = hasattr(error, "format_message")  # raised by the parser: unknown option, missing argument
        _fail(error, debug, exit_code=2 if usage else 1)


def _fail(error: Exception, debug: bool, exit_code: int) -> None:
    if debug:
        traceback.print_exception(error)
        sys.exit(exit_code)
    message = error.format_message().replace("Value error, ", "") if hasattr(error, "format_message") else str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        message += "; make room and run the same command again"
    if exit_code == 1:
        message = f"{type(error).__name__}: {message} (this is a bug; electra --debug ... shows the traceback)"
    line = " ".join(message.split())
    if len(line) > LONGEST_LINE:  # both ends remain: what was found, and what to do next
        line = f"{line[: LONGEST_LINE // 2]} … {line[-LONGEST_LINE // 2 :]}"
    typer.echo(f"electra: {line}", err=True)
    sys.exit(exit_code)
