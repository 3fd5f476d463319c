"""What Ctrl-C and SIGTERM do to a command."""

import _signal as signal  # type: ignore[import-not-found] # of which `signal` is made, without the time for its imports
import os

TYPE_CHECKING = False  # without importing `typing`
if TYPE_CHECKING:
    from types import FrameType

IMPORT = {"importlib._bootstrap", "_frozen_importlib"}  # a module with two names: the first after `import importlib`
AGAIN = "stopped; run the same command again"


class Stop:
    """Ends the process on a signal; once it `raises`, the first raises KeyboardInterrupt, so that a command cleans up.

    During an import it ends the process at once: libraries turn the exception into errors of their own.
    """

    signal: int | None = None
    raises = False

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

    def __call__(self, number: int, frame: "FrameType | None") -> None:
        """Handle a signal."""
        if self.raises and self.signal is None and not _importing(frame):
            self.signal = number
            raise KeyboardInterrupt
        os.write(2, f"electra: {AGAIN}\n".encode())
        os._exit(128 + number)


def _importing(frame: "FrameType | None") -> bool:
    while frame is not None and frame.f_globals.get("__name__") not in IMPORT:
        frame = frame.f_back
    return frame is not None
