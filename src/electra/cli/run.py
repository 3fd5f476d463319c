"""Run a command and show its error in one line."""

import os
import signal
import sys
import warnings
from io import TextIOWrapper

from electra.cli.stop import AGAIN, Stop
from electra.errors import ForeignText, Stopped, in_one_line, is_known

LONGEST_LINE = 600  # characters of an error
INTERRUPTED = 130  # typer's exit code for KeyboardInterrupt
UNREAD = 1  # and that for output that nobody reads any more, such as `head`


def run(stop: Stop) -> int:
    """Run the command of `sys.argv` and return its exit code."""
    try:
        stop.raises = True
        warnings.showwarning = _show_warning
        os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # our one-line error follows its retries
        for stream in (sys.stdout, sys.stderr):
            if os.name == "nt" and isinstance(stream, TextIOWrapper):
                stream.reconfigure(encoding="utf-8")  # cp1252 when redirected
        from electra.cli.commands import app  # takes a while

        status: int = app(standalone_mode=False) or 0
        if status == INTERRUPTED or stop.signal:  # also where Ctrl-C is how a command ends, such as `electra play`
            raise KeyboardInterrupt
        if sys.stdout:  # None if it is closed
            sys.stdout.flush()
        stop.close()
        return status
    except SystemExit:
        raise
    except BaseException as error:  # a few libraries have errors that are no `Exception`s
        stop.close()
        _forget_output()
        if isinstance(error, BrokenPipeError):
            return UNREAD
        return _show(_stopped(error, stop.signal))


def _forget_output() -> None:
    """Drop output that cannot be written: Python would try again at its end, and print an error of its own."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stopped(error: BaseException, number: int | None) -> BaseException:
    """Return `Stopped` if a signal arrived, which libraries may have turned into an error of their own."""
    if isinstance(error, Stopped) or (number is None and not isinstance(error, KeyboardInterrupt)):
        return error
    return Stopped(AGAIN, number or signal.SIGINT)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """Print one of our warnings in one line, and those of libraries as usual."""
    ours = issubclass(category, ForeignText)
    text = f"warning: {message}\n" if ours else warnings.formatwarning(message, category, filename, lineno, line)
    sys.stderr.write(text)


def _settings_hint(error: BaseException) -> str:
    """Return how settings are given, for an unknown option of a command that takes them."""
    context = getattr(error, "ctx", None)
    if not context or not getattr(error, "option_name", None) or getattr(error, "possibilities", None):
        return ""
    kinds = {parameter.name: parameter.param_type_name for parameter in context.command.params}
    hints = {
        "argument": "; settings are given as KEY=VALUE, without dashes",
        "option": "; set keys with --set KEY=VALUE",
    }
    return hints.get(kinds.get("overrides", ""), "")


def _show(error: BaseException) -> int:
    """Print an error in one line and return the exit code."""
    parsed = getattr(error, "format_message", None)  # of the parser: an unknown option, a missing argument
    code = 128 + error.signal if isinstance(error, Stopped) else 2 if parsed or is_known(error) else 1
    if "--debug" in sys.argv:
        import traceback

        traceback.print_exception(error)
        return code
    message = parsed().replace("Value error, ", "") + _settings_hint(error) if parsed else in_one_line(error)
    if code == 1:
        message = f"{type(error).__name__}: {message} (this is a bug; electra --debug ... shows the traceback)"
    line = " ".join(message.split())
    if len(line) > LONGEST_LINE:  # both ends remain: what was found, and what to do next
        line = f"{line[: LONGEST_LINE // 2]} … {line[-LONGEST_LINE // 2 :]}"
    print(f"electra: {line}", file=sys.stderr)
    return code
