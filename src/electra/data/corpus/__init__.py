"""Documents to sequences of ids on disk."""
