from fractions import Fraction

import numpy as np
import pytest
import torch

from electra.model.kernels.attention import UNSEEN, Drop, numbers


@pytest.mark.parametrize("size", [16, 32, 64, 80, 128])
def test_scaling_an_unseen_score_is_exact(size):
    """A fused multiply-add subtracts a rounded product from an exact one: any difference becomes an exponent of 2."""
    _, bits, _ = numbers(torch.empty(1, 1, 3 * size), heads=1, drop=Drop(0.1))
    unseen, scale = np.float32(UNSEEN.value), np.float32(bits)
    assert Fraction(float(unseen * scale)) == Fraction(float(unseen)) * Fraction(float(scale))
