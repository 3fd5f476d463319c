"""The command line: one file per command, each a thin layer over one function.

Until signals are handled, Ctrl-C prints a traceback: this file, `stop.py` and `electra/__init__.py` import nothing that
Python has not imported at its start.
"""

import sys

from electra.cli.stop import Stop


def main() -> None:
    """Run the command line; exit with 0 on success, 2 on a user's error, 1 on a bug, 128 + number after a signal."""
    stop = Stop()
    from electra.cli.run import run

    sys.exit(run(stop))
