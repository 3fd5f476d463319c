"""One frozen config that is written next to every result."""
