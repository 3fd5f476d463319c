"""Timing our training step and our encoding, beside the same made of modules of `transformers`."""
