"""What is trained: one objective of the paper per file, each a module from a batch to a loss."""
