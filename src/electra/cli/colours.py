"""Tokens in a terminal, coloured by the probability that they were replaced."""


def shade(probability: float) -> str:
    """Give the style of a token, in the words of rich: the redder, the likelier it was replaced."""
    return f"on rgb({int(40 + 180 * probability)},{int(40 * (1 - probability))},40) white"
