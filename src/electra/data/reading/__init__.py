"""Whatever a person has, to documents."""
