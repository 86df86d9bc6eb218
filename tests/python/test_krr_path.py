"""test_krr_path.py - gram.krr_path against fits without a row, and as scikit-learn's RidgeCV"""

import gram
import numpy as np
import pytest
from drawing import close, draw

RIDGES = [1e-3, 0.1, 3.0]


def left_out(k, y, ridge, weights, intercept):
    """The residual of each row by a fit to the other rows."""
    n = len(y)
    residuals = np.empty(y.shape)
    for i in range(n):
        rest = np.arange(n) != i
        a = k[np.ix_(rest, rest)] + ridge * np.diag(1 / weights[rest])
        if intercept == "fitted":
            a = np.block([[a, np.ones((n - 1, 1))], [np.ones((1, n - 1)), np.zeros((1, 1))]])
            solution = np.linalg.solve(a, np.vstack([y[rest], np.zeros((1, y.shape[1]))]))
            alpha, b = solution[:-1], solution[-1]
        else:
            b = y[rest].mean(axis=0) if intercept == "mean" else 0.0
            alpha = np.linalg.solve(a, y[rest] - b)
        residuals[i] = y[i] - b - k[i, rest] @ alpha
    return residuals


@pytest.mark.parametrize("method", ["auto", "eigh", "cholesky"])
@pytest.mark.parametrize("intercept", ["none", "mean", "fitted"])
def test_residuals_are_those_of_fits_without_the_row(method, intercept, dtype):
    k = gram.kernel(draw(30, 3, dtype=dtype), bandwidth=2.0)
    y, weights = draw(30, 2, dtype=dtype, seed=1) + 5, np.linspace(0.5, 2, 30).astype(dtype)
    error, spread = np.empty((3, 2), dtype), np.empty((3, 2), dtype)
    loo = gram.krr_path(k, y, RIDGES, weights=weights, intercept=intercept, method=method,
                        error=error, spread=spread)
    assert loo.shape == (3, 30, 2) and loo.dtype == dtype
    for t, ridge in enumerate(RIDGES):
        expected = left_out(*(a.astype(float) for a in (k, y)), ridge, weights.astype(float),
                            intercept)
        np.testing.assert_allclose(loo[t], expected, rtol=2e-5 if dtype == np.float32 else 1e-9,
                                   atol=1e-5 if dtype == np.float32 else 1e-9)
        mean = (weights[:, None] * expected**2).sum(0) / weights.sum()
        np.testing.assert_allclose(error[t], mean, rtol=1e-4)
    assert (spread > 0).all()


def test_one_target_and_the_fit_to_all_rows():
    k, y = gram.kernel(draw(20, 2)), draw(20, 1, seed=2)[:, 0]
    alpha, offset, error = np.empty((3, 20)), np.empty(3), np.empty(3)
    loo = gram.krr_path(k, y, RIDGES, intercept="fitted", alpha=alpha, offset=offset, error=error)
    assert loo.shape == (3, 20)
    for t, ridge in enumerate(RIDGES):
        np.testing.assert_allclose((k + ridge * np.eye(20)) @ alpha[t] + offset[t], y, rtol=1e-8)
        np.testing.assert_allclose(alpha[t].sum(), 0, atol=1e-10)
    np.testing.assert_allclose(error, (loo**2).mean(1))


def test_a_linear_kernel_is_ridge_regression():
    RidgeCV = pytest.importorskip("sklearn.linear_model").RidgeCV
    x, y = draw(50, 6), draw(50, 1, seed=3)[:, 0]
    model = RidgeCV(RIDGES, fit_intercept=False, store_cv_results=True).fit(x, y)
    loo = gram.krr_path(x @ x.T, y, RIDGES)
    np.testing.assert_allclose((loo**2).T, model.cv_results_, rtol=1e-8)


def test_what_is_refused():
    k, y = np.eye(4), np.ones((4, 1))
    with pytest.raises(ValueError, match=r"y\[2, 0\] of item 0 is nan"):
        gram.krr_path(k, np.array([1, 1, np.nan, 1])[:, None], RIDGES)
    with pytest.raises(ValueError, match=r"ridges\[1\] is -1"):
        gram.krr_path(k, y, [1, -1])
    with pytest.raises(TypeError, match="ridges is 3"):
        gram.krr_path(k, y, 3)
    with pytest.raises(ValueError, match="intercept"):
        gram.krr_path(k, y, RIDGES, intercept="no")
    with pytest.raises(gram.LinAlgError, match="not positive definite for 1 of 2 ridges"):
        gram.krr_path(np.ones((4, 4)), y, [0, 1])
    info = np.zeros((), np.int32)
    loo = gram.krr_path(np.ones((4, 4)), y, [0, 1], info=info)
    assert info == 1 and np.isnan(loo[0]).all() and np.isfinite(loo[1]).all()
    close(gram.krr_path(np.eye(1), np.ones((1, 1)), [1])[0], np.ones((1, 1)), np.float64, 4)
