"""Tokenizers and the training of vocabularies."""
