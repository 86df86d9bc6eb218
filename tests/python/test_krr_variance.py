"""test_krr_variance.py - gram.krr_variance against a factorisation by NumPy, and what it refuses"""

import gram
import numpy as np
import pytest

KERNEL = {"kernel": "matern52", "bandwidth": 1.5}


def points(n=120, m=30, dtype=np.float64):
    rng = np.random.default_rng(11)
    return rng.normal(size=(n, 3)).astype(dtype), rng.normal(size=(m, 3)).astype(dtype)


def truth(x, z, ridge, **kernel):
    x, z = x.astype(float), z.astype(float)
    k = gram.kernel(x, **kernel) + ridge * np.eye(len(x))
    cross = gram.kernel(x, z, **kernel)
    own = np.diag(gram.kernel(z, **kernel))
    return own - np.einsum("ij,ij->j", cross, np.linalg.solve(k, cross))


@pytest.mark.parametrize("method", ["auto", "cholesky", "cg"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_truth_is_within_the_bound(method, dtype):
    x, z = points(dtype=dtype)
    bound, told = np.empty(30, dtype), {}
    v = gram.krr_variance(x, z, ridge=0.01, method=method, bound=bound, report=told, **KERNEL)
    assert v.shape == (30,) and v.dtype == dtype
    assert (np.abs(v - truth(x, z, 0.01, **KERNEL)) <= bound).all()
    assert told["reached"] and told["end"] == "reached" and told["bound"] <= 1e-4
    assert told["method"] == ("cg" if method == "cg" else "cholesky") and told["seconds"] >= 0


def test_weights_lengths_and_outputs():
    x, z = points()
    w = np.random.default_rng(0).uniform(0.5, 2, 120)
    kernel = KERNEL | {"lengths": np.array([1.0, 2.0, 0.5])}
    out = np.empty(60)[::2]
    v = gram.krr_variance(x[::-1], z, ridge=0.1, row_weights=w[::-1], out=out, **kernel)
    assert v is out
    np.testing.assert_allclose(v, truth(x, z, 0.1 / w, **kernel), atol=1e-8)
    wide = gram.krr_variance(x.astype(np.float32), z.astype(np.float32), ridge=0.1,
                             out=np.empty(30), **KERNEL)  # fmt: skip
    np.testing.assert_allclose(wide, truth(x, z, 0.1, **KERNEL), atol=1e-6)


def test_many_points_and_limits():
    x, z = points(m=700)
    told = {}
    v = gram.krr_variance(x, z, ridge=1e-3, method="cg", rank=0, products=4, report=told, **KERNEL)
    assert not told["reached"] and told["end"] == "products" and told["products"] <= 12
    assert (v >= truth(x, z, 1e-3, **KERNEL) - 1e-12).all()
    with pytest.raises(gram.LinAlgError, match=r"^gram\.krr_variance: .*products are used up"):
        gram.krr_variance(x, z, ridge=1e-3, method="cg", rank=0, products=4, **KERNEL)


def test_what_is_refused():
    x, z = points()
    with pytest.raises(TypeError, match="needs the argument 'ridge'"):
        gram.krr_variance(x, z)
    with pytest.raises(ValueError, match="ridge is 0, expected a finite number above 0"):
        gram.krr_variance(x, z, ridge=0)
    with pytest.raises(ValueError, match=r"z\[0, 0\] is nan"):
        gram.krr_variance(x, z * np.nan, ridge=1)
    with pytest.raises(ValueError, match=r"row_weights\[0\] is 0"):
        gram.krr_variance(x, z, ridge=1, row_weights=np.zeros(120))
    with pytest.raises(ValueError, match="method is 'centres', expected one of auto"):
        gram.krr_variance(x, z, ridge=1, method="centres")
    with pytest.raises(ValueError, match="2 dimensions and 2 columns, expected 2 and 3"):
        gram.krr_variance(x, z[:, :2], ridge=1)
    with pytest.raises(TypeError, match="report is 3"):
        gram.krr_variance(x, z, ridge=1, report=3)
