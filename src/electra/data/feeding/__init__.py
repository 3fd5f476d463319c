"""Sequences on disk to batches, as a function of seed and step."""
