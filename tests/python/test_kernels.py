"""test_kernels.py - gram.kernels: the options by name against formulas, derivatives and GPyTorch"""

import gram
import numpy as np
import pytest


def sphere(n, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 4))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def arc_cosine(order, u):
    t = np.arccos(np.clip(u, -1, 1))
    return [
        np.pi - t,
        np.sin(t) + (np.pi - t) * np.cos(t),
        3 * np.sin(t) * np.cos(t) + (np.pi - t) * (1 + 2 * np.cos(t) ** 2),
    ][order] / np.pi


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine(order):
    x, y = sphere(7), sphere(5, 1)
    y[0], y[1] = x[0], -x[1]
    options = gram.kernels.arc_cosine(order)
    # acos is as steep as the square root where points coincide.
    np.testing.assert_allclose(gram.kernel(x, y, **options), arc_cosine(order, x @ y.T), atol=1e-7)
    diagonal = gram.kernel(x.astype(np.float32), **options).diagonal()
    np.testing.assert_allclose(diagonal, [1, 1, 3][order], atol=2e-3)
    grads = gram.kernel_vjp(x, **options, grad=np.ones((7, 7)), wrt="x")
    assert np.isfinite(grads).all()


def test_arc_cosine_is_the_mean_of_random_units():
    x = sphere(3)
    units = np.maximum(x @ np.random.default_rng(2).normal(size=(4, 400_000)), 0)
    sample = 2 * units @ units.T / units.shape[1]
    np.testing.assert_allclose(gram.kernel(x, **gram.kernels.arc_cosine(1)), sample, atol=0.02)


@pytest.mark.parametrize("depth", [1, 3, 5, 10])
def test_ntk(depth):
    x, y = sphere(6), sphere(5, 1)
    u = k = x @ y.T
    for _ in range(depth):
        k = k * arc_cosine(0, u) + arc_cosine(1, u)
        u = arc_cosine(1, u)
    options = gram.kernels.ntk(depth)
    np.testing.assert_allclose(gram.kernel(x, y, **options), k, atol=1e-7)
    np.testing.assert_allclose(gram.kernel(x, **options).diagonal(), depth + 1, atol=1e-6)
    grad = np.ones((6, 5))
    if depth > 3:
        with pytest.raises(NotImplementedError, match="more than 32 intermediate values"):
            gram.kernel_vjp(x, y, **options, grad=grad)
        return
    got = gram.kernel_vjp(x, y, **options, grad=grad)
    h = 1e-5
    for at in ((0, 0), (3, 2)):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * h
            ends.append(gram.kernel(moved, y, **options).sum())
        assert got[at] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-5)


def test_periodic_and_mixtures():
    x, y = np.linspace(0, 3, 7)[:, None], np.linspace(-1, 2, 5)[:, None]
    d = np.abs(x - y.T)
    expected = np.exp(-2 * np.sin(np.pi * d / 0.7) ** 2 / 1.3**2 - d**2 / (2 * 2.1**2))
    got = gram.kernel(x, y, **gram.kernels.periodic_rbf(0.7, 1.3, 2.1))
    np.testing.assert_allclose(got, expected, atol=1e-13)
    mixture = [1.0, 0.5, 0.2], [0.3, 1.1, 0.0], [0.1, 0.4, 0.9]
    terms = [
        w * np.exp(-2 * np.pi**2 * v**2 * d**2) * np.cos(2 * np.pi * m * d)
        for w, m, v in zip(*mixture, strict=True)
    ]
    got = gram.kernel(x, y, **gram.kernels.spectral_mixture(*mixture))
    np.testing.assert_allclose(got, sum(terms), atol=1e-13)
    most = gram.kernels.spectral_mixture(*[np.linspace(0.1, 2, 16)] * 3)
    assert np.isfinite(gram.kernel(x, y, **most)).all()
    v = np.ones((5, 2))
    product = gram.kernel_matmul(x, y, v=v, **most)
    np.testing.assert_allclose(product, gram.kernel(x, y, **most) @ v, atol=1e-11)


def test_those_of_gpytorch():
    torch = pytest.importorskip("torch", minversion="2.4")
    gpytorch = pytest.importorskip("gpytorch", minversion="1.14")
    x = torch.linspace(0, 3, 7, dtype=torch.float64)[:, None]
    rbf, periodic = gpytorch.kernels.RBFKernel(), gpytorch.kernels.PeriodicKernel()
    rbf.lengthscale, periodic.period_length, periodic.lengthscale = 2.1, 0.7, 1.3**2
    expected = (rbf * periodic).double()(x).to_dense().detach()
    # Its periodic kernel divides by the lengthscale, not by its square.
    got = gram.kernel(x, **gram.kernels.periodic_rbf(0.7, 1.3, 2.1))
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    theirs = gpytorch.kernels.SpectralMixtureKernel(num_mixtures=2).double()
    weights, means, scales = [1.0, 0.5], [0.3, 1.1], [0.1, 0.4]
    theirs.mixture_weights = torch.tensor(weights)
    theirs.mixture_means = torch.tensor(means).reshape(2, 1, 1)
    theirs.mixture_scales = torch.tensor(scales).reshape(2, 1, 1)
    got = gram.kernel(x, **gram.kernels.spectral_mixture(weights, means, scales))
    torch.testing.assert_close(got, theirs(x).to_dense().detach(), rtol=1e-6, atol=1e-6)


def test_what_is_refused():
    for f, args, why in (
        (gram.kernels.arc_cosine, (3,), "order is 3, expected a whole number from 0 to 2"),
        (gram.kernels.ntk, (0,), "depth is 0, expected a whole number from 1 to 10"),
        (gram.kernels.periodic_rbf, (0.0,), "period is 0.0, expected a finite number above 0"),
        (gram.kernels.spectral_mixture, ([1], [1, 2], [1]), "1 weights, 2 means and 1 scales"),
        (gram.kernels.spectral_mixture, ([1], ["1"], [1]), "a mean is '1', expected a finite"),
    ):
        with pytest.raises(ValueError, match=why):
            f(*args)


METRICS = (
    "cosine correlation canberra braycurtis hamming jaccard jensenshannon kullback-leibler "
    "hellinger chi2 nan-euclidean"
).split()


@pytest.mark.parametrize("metric", METRICS)
def test_kernels_of_a_metric(metric):
    x, y = (np.random.default_rng(s).random((n, 6)) for s, n in ((0, 9), (1, 7)))
    weights = np.arange(1.0, 7)
    options = {"metric": metric, "weights": weights}
    d = gram.cdist(x, y, **options)
    laplace = gram.kernel(x, y, "laplace", bandwidth=0.5, **options)
    np.testing.assert_allclose(laplace, np.exp(-d / 0.5), rtol=1e-12)
    gaussian = gram.kernel(x, y, "gaussian", **options)
    np.testing.assert_allclose(gaussian, np.exp(-(d**2) / 2), rtol=1e-12)
    of_power = gram.kernel(x, y, "distance", outer_power=3, **options)
    np.testing.assert_allclose(of_power, d**3, rtol=1e-12)
    formula = {"expression": "1 / (1 + c * s)", "parameters": {"c": 2}}
    np.testing.assert_allclose(gram.kernel(x, y, **formula, **options), 1 / (1 + 2 * d))
    v = np.random.default_rng(2).random((7, 3))
    product = gram.kernel_matmul(x, y, "laplace", v=v, bandwidth=0.5, **options)
    np.testing.assert_allclose(product, laplace @ v, rtol=1e-12)
    largest = gram.kernel_reduce(x, y, "laplace", what="argmax", bandwidth=0.5, **options)
    np.testing.assert_array_equal(largest, laplace.argmax(axis=1))


def test_kernels_of_weighted_norms():
    x, w = np.random.default_rng(0).random((9, 4)), np.array([2.0, 0, 1, 3])
    for p in (1, 1.5, 2):
        d = gram.cdist(x, p=p, weights=w)
        np.testing.assert_allclose(gram.kernel(x, p=p, weights=w), np.exp(-d), rtol=1e-12)
        total = gram.kernel(x, expression="s", of="sum", p=p, weights=w)
        np.testing.assert_allclose(total, d**p, atol=1e-12)
    d = gram.cdist(x, metric="seuclidean", weights=w + 1)
    values, vectors = gram.eigh_kernel(
        x, kernel="laplace", metric="seuclidean", weights=w + 1, count=2
    )
    np.testing.assert_allclose(np.exp(-d) @ vectors, vectors * values, atol=1e-9)


def test_metrics_where_they_mean_nothing():
    x = np.ones((3, 2))
    for words, options in {
        "p is given, but the metric cosine": {"metric": "cosine", "p": 1},
        "this kernel is not a function of a distance": {"kernel": "linear", "metric": "cosine"},
        "this expression is not": {"expression": "s", "of": "product", "metric": "chi2"},
        "expected NULL with metric": {"metric": "chi2", "lengths": np.ones(2)},
    }.items():
        with pytest.raises(ValueError, match=words):
            gram.kernel(x, **options)
    with pytest.raises(NotImplementedError, match="no derivative"):
        gram.kernel_vjp(x, grad=np.ones((3, 3)), metric="chi2")
