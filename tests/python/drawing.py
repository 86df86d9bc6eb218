"""drawing.py - arrays of random numbers for the tests, and how near a result is to be"""

import numpy as np

EPS = {np.float32: 2.0**-23, np.float64: 2.0**-52}


def draw(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(got, expected, dtype, terms):
    """Within some terms of rounding of the largest entry."""
    assert got.dtype == dtype and got.shape == expected.shape
    bound = 32 * terms * EPS[dtype] * max(1, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(got, expected, rtol=0, atol=bound)
