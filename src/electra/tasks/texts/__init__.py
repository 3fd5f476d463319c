"""Classification and regression of one text or a pair of texts."""

from electra.tasks.base import Family
from electra.tasks.texts import glue
from electra.tasks.texts.task import serve

FAMILY = Family(glue.TASKS, glue.GlueTask, serve)
