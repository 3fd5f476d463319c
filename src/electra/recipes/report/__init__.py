"""The report of runs: one page to look at, made of what their folders hold."""
