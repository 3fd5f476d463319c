"""Multiple choice: which of several options continues or answers a context."""

from electra.tasks.base import Family
from electra.tasks.choice.task import ChoiceTask, serve

FAMILY = Family(("choice",), ChoiceTask, serve)
