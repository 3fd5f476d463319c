"""Time our training step and encoding, and compare with the modules of `transformers`."""
