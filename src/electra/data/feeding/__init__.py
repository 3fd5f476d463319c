"""Load batches from corpora, as a function of seed and step."""
