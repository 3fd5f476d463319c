"""A tag for every word: chunks, entities, parts of speech."""
