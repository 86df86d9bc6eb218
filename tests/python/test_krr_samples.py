"""test_krr_samples.py - gram.krr_samples against the exact process, and what it refuses"""

import gram
import numpy as np
import pytest

KERNEL = {"kernel": "matern52", "bandwidth": 1.5}


def points(n=60, m=5, dtype=np.float64):
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(n, 2)).astype(dtype), rng.normal(size=(m, 2)).astype(dtype)
    return x, np.sin(x[:, 0]).astype(dtype), z


def truth(x, y, z, noise, **kernel):
    x, y, z = x.astype(float), y.astype(float), z.astype(float)
    inverse = np.linalg.inv(gram.kernel(x, **kernel) + np.diag(noise))
    cross = gram.kernel(z, x, **kernel)
    return cross @ inverse @ y, gram.kernel(z, **kernel) - cross @ inverse @ cross.T


@pytest.mark.parametrize(("prior", "method"), [("joint", "cholesky"), ("features", "cg")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mean_and_covariance(prior, method, dtype):
    x, y, z = points(dtype=dtype)
    weights, told, count = np.linspace(1, 3, len(x)).astype(dtype), {}, 1500
    given = {"ridge": 0.2, "row_weights": weights, "prior": prior, "method": method}
    f = gram.krr_samples(x, y, z=z, count=count, features=64, report=told, **given, **KERNEL)
    assert f.shape == (5, count) and f.dtype == dtype
    assert told["reached"] and told["method"] == method and told["prior"] == prior
    assert (told["floor"] > 0) == (prior == "joint") and told["residual"] <= 1e-3
    mean, cov = truth(x, y, z, 0.2 / weights, **KERNEL)
    rest = f.astype(float) - mean[:, None]
    assert (np.abs(rest.mean(axis=1)) <= 5.5 * np.sqrt(np.diag(cov) / count)).all()
    products = rest[:, None] * rest[None]
    assert (np.abs(products.mean(axis=2) - cov) <= 5.5 * products.std(axis=2) / count**0.5).all()


def test_seeds_and_functions():
    x, y, z = points()
    given = {"ridge": 0.1, "count": 3, "prior": "features", **KERNEL}
    f = gram.krr_samples(x, y, z=z, seed=5, **given)
    assert (gram.krr_samples(x, y, z=z, seed=5, **given) == f).all()
    assert (gram.krr_samples(x, y, z=z, seed=6, **given) != f).all()
    out = np.empty((2, 3))
    assert gram.krr_samples(x, y, z=z[:2], seed=5, out=out, **given) is out
    np.testing.assert_allclose(out, f[:2], atol=1e-9)


def test_what_is_refused():
    x, y, z = points()
    with pytest.raises(TypeError, match="needs the argument 'z'"):
        gram.krr_samples(x, y, ridge=1.0)
    with pytest.raises(TypeError, match="needs the argument 'ridge'"):
        gram.krr_samples(x, y, z=z)
    with pytest.raises(ValueError, match=r"^gram\.krr_samples: count is -1"):
        gram.krr_samples(x, y, z=z, ridge=1.0, count=-1)
    with pytest.raises(ValueError, match="ridge is 0"):
        gram.krr_samples(x, y, z=z, ridge=0)
    with pytest.raises(ValueError, match="y is 59 by 1, expected 60"):
        gram.krr_samples(x, y[1:], z=z, ridge=1)
    with pytest.raises(ValueError, match=r"row_weights\[0\] is 0"):
        gram.krr_samples(x, y, z=z, ridge=1, row_weights=np.zeros(60))
    with pytest.raises(ValueError, match="prior"):
        gram.krr_samples(x, y, z=z, ridge=1, prior="none")
    with pytest.raises(NotImplementedError, match="no random Fourier features"):
        gram.krr_samples(x, y, "linear", z=z, ridge=1, prior="features")
    with pytest.raises(gram.LinAlgError, match="products are used up"):
        gram.krr_samples(x, y, z=z, ridge=1e-6, method="cg", rank=0, products=4, **KERNEL)
