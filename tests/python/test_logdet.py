"""test_logdet.py - gram.kernel_logdet against numpy.linalg.slogdet, and what it refuses"""

import gram
import numpy as np
import pytest

OPTIONS = {"kernel": "gaussian", "bandwidth": 1.5, "regularization": 0.1}


def points(n=90, dtype=np.float64):
    return np.random.default_rng(3).normal(size=(n, 3)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_truth_is_near(dtype):
    x = points(dtype=dtype)
    report = {}
    value, error = gram.kernel_logdet(x, probes=40, report=report, **OPTIONS)
    exact = np.linalg.slogdet(gram.kernel(x.astype(np.float64), **OPTIONS))[1]
    assert abs(value - exact) <= 3 * error < 0.3 * abs(exact)
    assert 1 < report["steps"] <= 100 and report["residual"] < 0.01
    assert report["products"] >= 40


def test_strides_and_seeds():
    x = points()
    first = gram.kernel_logdet(x, **OPTIONS)
    assert gram.kernel_logdet(np.asfortranarray(x), **OPTIONS) == first
    assert gram.kernel_logdet(x, seed=1, **OPTIONS)[0] != first[0]
    assert gram.kernel_logdet(x[:0], **OPTIONS)[0] == 0


def test_one_probe_states_no_error():
    assert gram.kernel_logdet(points(), probes=1, **OPTIONS)[1] == np.inf


@pytest.mark.parametrize("rank", [0, None, 20])
def test_gradients_by_the_sides(rank):
    x = points(300)
    left, right = np.empty((300, 64)), np.empty((300, 64), order="F")
    options = OPTIONS | {"regularization": 3.0}
    report = {}
    gram.kernel_logdet(x, probes=64, rank=rank, left=left, right=right, report=report, **options)
    assert report["rank"] == (150 if rank is None else rank)
    k = gram.kernel(x, **options)
    if rank == 0:
        np.testing.assert_allclose(k @ right, left, atol=1e-4)
    inverse = np.linalg.inv(k)
    lengths = np.full(3, OPTIONS["bandwidth"])
    del options["bandwidth"]
    exact = gram.kernel_vjp(x, wrt="lengths", grad=inverse, lengths=lengths, **options)
    found = gram.kernel_matmul_vjp(x, v=right, grad=left, wrt="lengths", lengths=lengths, **options)
    np.testing.assert_allclose(found / 64, exact, rtol=0.2)
    assert abs((left * right).sum() / 64 / np.trace(inverse) - 1) < 0.02


def test_a_tolerance_saves_products():
    x = points(400)
    few, many = {}, {}
    value, error = gram.kernel_logdet(x, report=many, **OPTIONS)
    other = gram.kernel_logdet(x, tolerance=1e-3, report=few, **OPTIONS)[0]
    assert few["products"] < many["products"] and abs(value - other) < 0.1 * error
    assert 1e-5 < few["residual"] < 1e-3 and many["residual"] < 1e-6


def test_what_is_refused():
    x = points()
    with pytest.raises(gram.LinAlgError, match="not positive definite"):
        gram.kernel_logdet(x, kernel="gaussian", regularization=-2.0)
    with pytest.raises(ValueError, match="steps is -1, expected 0"):
        gram.kernel_logdet(x, steps=-1)
    with pytest.raises(ValueError, match="x has 3 dimensions"):
        gram.kernel_logdet(x[None])
    with pytest.raises(ValueError, match="rank is -1, expected 0 or more"):
        gram.kernel_logdet(x, rank=-1)
    with pytest.raises(ValueError, match="right is 90 by 3, expected 90 by 32"):
        gram.kernel_logdet(x, right=np.empty((90, 3)))
    with pytest.raises(TypeError, match="report is 3, expected a dict"):
        gram.kernel_logdet(x, report=3)
