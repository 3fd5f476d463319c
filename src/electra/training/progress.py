"""The progress of a run: on standard error, or below the cell of a notebook."""

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from html import escape
from importlib import import_module
from typing import Any, Self

from electra.training.run import Listener

SHOWN = {  # metric: its label and number format
    "generator_loss": ("generator", ".3f"),
    "discriminator_loss": ("discriminator", ".4f"),
    "mlm_loss": ("masked LM", ".3f"),
    "discriminator_accuracy": ("accuracy", ".3f"),
    "discriminator_auc": ("AUC", ".3f"),
    "tokens_per_second": ("tokens/s", ",.0f"),
    "peak_share": ("share of peak", ".1%"),
}


@contextmanager
def watched(listeners: Sequence[Listener] | None) -> Iterator[Sequence[Listener]]:
    """Yield the listeners; if there are none, not even `[]`, a progress line in a terminal or a notebook."""
    if listeners is not None or not (sys.stderr.isatty() or _in_notebook()):
        yield listeners or []
        return
    with LiveLine(quiet=False) as line:
        yield [line]


class LiveLine:
    """A listener that updates one line in a terminal or a notebook, or else prints a line every ten seconds."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.notebook = _in_notebook()
        self.live = self.notebook or sys.stderr.isatty()
        self.printed = 0.0
        self.span: dict[int | None, tuple[dict[str, Any], dict[str, Any]]] = {}  # first and last record, by seed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if self.live and not self.notebook and not self.quiet:
            sys.stderr.write("\n")

    def __call__(self, record: dict[str, Any]) -> None:
        """Show a record."""
        if "warning" in record:
            self._write(f"warning: {record['warning']}", keep=True)
        elif self.quiet:
            return
        elif "detected" in record:
            self._write(record["detected"], keep=True)
        elif any(name.startswith("heldout_") for name in record):
            self._write(f"{_place(record)} held out: {self._metrics(record, 'heldout_')}", keep=True)
        else:
            self._update(record, self._left(record))

    def _update(self, record: dict[str, Any], left: str) -> None:
        """Show a record of training, unless it follows the last line too soon."""
        if self.live or time.monotonic() - self.printed > 10:
            self.printed = time.monotonic()
            place, metrics = _place(record), self._metrics(record, "")
            text = f"{place}{left} {metrics}" if self.live else f"{place} {metrics}{left}"
            self._write(text, keep=not self.live, share=record["progress"])

    def _left(self, record: dict[str, Any]) -> str:
        """Return the time left, by the pace since the first record, so that startup does not count."""
        first, last = self.span.get(record.get("seed"), (record, record))
        if record["step"] <= last["step"]:  # the first record, or that of a new stage or task
            first = record
        self.span[record.get("seed")] = first, record
        if record["progress"] <= first["progress"]:
            return ""
        pace = (record["seconds"] - first["seconds"]) / (record["progress"] - first["progress"])
        return f" left {_duration(pace * (1 - record['progress']))}"

    def _metrics(self, record: dict[str, Any], prefix: str) -> str:
        shown = {name: SHOWN[name] for name in SHOWN if prefix + name in record}
        if not set(shown) - {"tokens_per_second"}:  # fine-tuning: its loss or scores
            names = [name.removeprefix(prefix) for name in record if name.startswith(prefix)] if prefix else ["loss"]
            shown = {name: (name, ".4f") for name in names} | shown
        return " · ".join(f"{label} {format(record[prefix + name], form)}" for name, (label, form) in shown.items())

    def _write(self, text: str, keep: bool, share: float = 0.0) -> None:
        if self.notebook:
            self._cell.write(text, keep, share)
            return
        if not keep:
            text = text[: shutil.get_terminal_size().columns - 1]  # a wrapped line cannot be overwritten
        print(f"\r\033[K{text}" if self.live else text, end="\n" if keep else "", file=sys.stderr, flush=True)

    @cached_property
    def _cell(self) -> "_Cell":
        return _Cell()


class _Cell:
    """The output of a notebook's cell: lines that stay, and below them a bar with the latest line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.latest = self.bar = ""
        self.handle: Any = import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)

    def write(self, text: str, keep: bool, share: float) -> None:
        """Add a line that stays, or replace the latest one and move the bar."""
        if keep:
            self.lines.append(text)
        else:
            self.latest, self.bar = text, f'<progress value="{share:.4f}"></progress> '
        plain = "\n".join([*self.lines, self.latest])
        rich = "\n".join([*map(escape, self.lines), self.bar + escape(self.latest)])
        self.handle.update({"text/plain": plain, "text/html": f"<pre>{rich}</pre>"}, raw=True)


def _in_notebook() -> bool:
    """Return whether a Jupyter kernel runs this code."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


def _place(record: dict[str, Any]) -> str:
    return (f"seed {record['seed']} " if "seed" in record else "") + f"step {record['step']:,}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
