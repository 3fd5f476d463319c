"""Extractive question answering: the answer is a stretch of a given text, or there is none."""
