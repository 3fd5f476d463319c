"""Text to token ids, and how a vocabulary is trained."""
