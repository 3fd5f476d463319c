"""A tag for every word: chunks, entities, parts of speech."""

from electra.tasks.base import Family
from electra.tasks.tagging import conll
from electra.tasks.tagging.task import serve

FAMILY = Family(conll.TASKS, conll.ConllTask, serve)
