"""The progress of a run on standard error."""

import shutil
import sys
import time
from typing import Any, Self

SHOWN = {  # metric: its label and number format
    "generator_loss": ("generator", ".3f"),
    "discriminator_loss": ("discriminator", ".4f"),
    "mlm_loss": ("masked LM", ".3f"),
    "discriminator_accuracy": ("accuracy", ".3f"),
    "discriminator_auc": ("AUC", ".3f"),
    "tokens_per_second": ("tokens/s", ",.0f"),
    "peak_share": ("share of peak", ".1%"),
}


class LiveLine:
    """A listener that updates one line in a terminal, or else prints a line every ten seconds."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.live = sys.stderr.isatty()
        self.printed = 0.0
        self.first: dict[int | None, dict[str, Any]] = {}  # first record of this process, by seed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if self.live and not self.quiet:
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
        elif self.live or time.monotonic() - self.printed > 10:
            self.printed = time.monotonic()
            place, left, metrics = _place(record), self._left(record), self._metrics(record, "")
            self._write(f"{place}{left} {metrics}" if self.live else f"{place} {metrics}{left}", keep=not self.live)

    def _left(self, record: dict[str, Any]) -> str:
        """Return the time left, by the pace since the first record, so that startup does not count."""
        first = self.first.get(record.get("seed"), record)
        if record["progress"] <= first["progress"]:  # first record, or a new stage
            self.first[record.get("seed")] = record
            return ""
        pace = (record["seconds"] - first["seconds"]) / (record["progress"] - first["progress"])
        return f" left {_duration(pace * (1 - record['progress']))}"

    def _metrics(self, record: dict[str, Any], prefix: str) -> str:
        shown = {name: SHOWN[name] for name in SHOWN if prefix + name in record}
        if not set(shown) - {"tokens_per_second"}:  # fine-tuning: its loss or scores
            names = [name.removeprefix(prefix) for name in record if name.startswith(prefix)] if prefix else ["loss"]
            shown = {name: (name, ".4f") for name in names} | shown
        return " · ".join(f"{label} {format(record[prefix + name], form)}" for name, (label, form) in shown.items())

    def _write(self, text: str, keep: bool) -> None:
        if not keep:
            text = text[: shutil.get_terminal_size().columns - 1]  # a wrapped line cannot be overwritten
        print(f"\r\033[K{text}" if self.live else text, end="\n" if keep else "", file=sys.stderr, flush=True)


def _place(record: dict[str, Any]) -> str:
    return (f"seed {record['seed']} " if "seed" in record else "") + f"step {record['step']:,}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
