"""What Ctrl-C and SIGTERM do to a command."""

import os
import signal
from types import FrameType

AGAIN = "stopped; run the same command again"


class Stop:
    """Raises KeyboardInterrupt on the first signal, so that a command cleans up, and ends the process on the next one.

    During an import it ends the process at once: libraries turn the exception into errors of their own.
    """

    signal: int | None = None

    def __init__(self) -> None:
        """Listen to the signals, except those that are ignored: a shell's background jobs ignore Ctrl-C."""
        self.heard = [
            number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN
        ]
        for number in self.heard:
            signal.signal(number, self)

    def close(self) -> None:
        """Leave the signals to the system, which ends the process without a word: everything is cleaned up."""
        for number in self.heard:
            signal.signal(number, signal.SIG_DFL)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.signal is None and not _importing(frame):
            self.signal = number
            raise KeyboardInterrupt
        os.write(2, f"electra: {AGAIN}\n".encode())
        os._exit(128 + number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__") != "importlib._bootstrap":
        frame = frame.f_back
    return frame is not None
