"""The fault campaign: commands × faults, each case with a verdict."""
