"""Build corpora: documents to token sequences on disk."""
