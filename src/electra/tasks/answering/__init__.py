"""Extractive question answering: the answer is a span of a given text, or there is none."""

from electra.tasks.answering.files import DATASETS, DatasetAnswering
from electra.tasks.answering.task import serve
from electra.tasks.base import Family

FAMILY = Family(DATASETS, DatasetAnswering, serve)
