"""What models are fine-tuned for: reading examples, heads' losses, predictions and scores. No training happens here."""
