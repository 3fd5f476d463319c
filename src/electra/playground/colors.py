"""Colors of the page, which can be read without telling hues apart."""

import numpy as np

Color = tuple[int, int, int]

# From paper white over amber to dark brown: each is darker than the last, so the order is visible without hue.
STOPS: tuple[Color, ...] = ((255, 253, 247), (253, 190, 90), (128, 38, 6))
KINDS: tuple[Color, ...] = (  # pale; each mark also shows its name
    *((190, 220, 245), (253, 217, 160), (195, 232, 205)),
    *((240, 200, 225), (246, 240, 160), (212, 206, 240)),
)
BLACK: Color = (0, 0, 0)
WHITE: Color = (255, 255, 255)


def css(color: Color) -> str:
    """Return a color as CSS."""
    return f"rgb({color[0]}, {color[1]}, {color[2]})"


def shade(probability: float) -> Color:
    """Return the background color of a probability."""
    places = np.linspace(0, 1, len(STOPS))
    red, green, blue = (round(float(np.interp(probability, places, channel))) for channel in zip(*STOPS, strict=True))
    return red, green, blue


def ink(background: Color) -> Color:
    """Return black or white, whichever is more readable: the contrast is at least 4.5 on any background."""
    return max(BLACK, WHITE, key=lambda color: contrast(color, background))


def contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio of two colors, from 1 to 21 (Web Content Accessibility Guidelines)."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def gradient() -> str:
    """Return the full scale as a CSS gradient."""
    return f"linear-gradient(to right, {', '.join(map(css, STOPS))})"


def _luminance(color: Color) -> float:
    shares = (channel / 255 for channel in color)
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))
