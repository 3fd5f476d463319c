"""Sentence vectors: texts of similar meaning get similar vectors."""

from electra.tasks.base import Family
from electra.tasks.similarity.task import SimilarityTask, serve

FAMILY = Family(("similarity",), SimilarityTask, serve)
