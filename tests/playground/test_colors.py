from itertools import pairwise

import numpy as np
import pytest

from electra.playground.colors import BLACK, KINDS, WHITE, contrast, ink, shade

PROBABILITIES = np.linspace(0, 1, 101)


def test_likelier_tokens_are_darker_so_that_the_order_is_visible_without_hue():
    lightness = [contrast(shade(probability), BLACK) for probability in PROBABILITIES]
    assert all(later < earlier for earlier, later in pairwise(lightness))


def test_text_is_readable_on_every_shade():
    for background in map(shade, PROBABILITIES):
        assert contrast(ink(background), background) >= 4.5
    assert all(contrast(BLACK, background) >= 4.5 for background in KINDS)


def test_contrast_follows_the_guidelines():
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast((119, 119, 119), WHITE) == pytest.approx(4.48, abs=0.01)  # the gray that just fails
