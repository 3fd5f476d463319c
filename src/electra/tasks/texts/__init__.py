"""Classes, labels and values of one text or of a pair; GLUE."""
