"""A report of runs as one HTML page, made from the files in their folders."""
