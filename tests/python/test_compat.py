"""test_compat.py - gram.compat against scikit-learn, PyTorch and the formulas of kermac

SciPy's part is test_scipy_distances.py.
"""

import subprocess
import sys

import gram
import numpy as np
import pytest
from sklearn import metrics
from sklearn.metrics.pairwise import pairwise_kernels

from gram.compat import sklearn as ours

X, Y = (np.random.default_rng(s).standard_normal((n, 5)) for s, n in ((0, 30), (1, 20)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "metric", "cityblock manhattan l1 euclidean l2 sqeuclidean chebyshev minkowski hamming".split()
)
def test_distances_of_sklearn(metric, dtype):
    x, y = np.round(X, 1).astype(dtype), np.round(Y, 1).astype(dtype)
    options = {"p": 1.5} if metric == "minkowski" else {}
    for pair in ((x,), (x, y), (x.tolist(), y.tolist())):
        expected = metrics.pairwise_distances(*pair, metric=metric, **options)
        got = ours.pairwise_distances(*pair, metric=metric, **options)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-3)
        assert not len(pair) == 1 or not got.diagonal().any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "metric", "linear poly polynomial rbf laplacian sigmoid cosine additive_chi2".split()
)
def test_kernels_of_sklearn(metric, dtype):
    x, y = np.abs(X).astype(dtype), np.abs(Y).astype(dtype)
    for options in ({}, {"gamma": 0.3}, {"gamma": 0.3, "coef0": 0.5}):
        for pair in ((x,), (x, y)):
            expected = pairwise_kernels(*pair, metric=metric, filter_params=True, **options)
            got = ours.pairwise_kernels(*pair, metric=metric, filter_params=True, **options)
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=1e-4 if dtype is np.float32 else 1e-9)


SCIPYS = "seuclidean correlation canberra braycurtis jaccard".split()


@pytest.mark.filterwarnings("ignore:Data was converted to boolean")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("metric", [*SCIPYS, "cosine", "haversine", "nan_euclidean"])
def test_metrics_of_sklearn(metric, dtype, monkeypatch):
    x, y = (np.round(np.abs(a), 1).astype(dtype) for a in (X, Y))
    x[3] = 0 if metric == "cosine" else x[3]
    if metric == "haversine":
        x, y = x[:, :2], y[:, :2]
    if metric == "nan_euclidean":
        x[::3, 1], x[::4, 2], y[1, :], y[::2, 0] = np.nan, np.nan, np.nan, np.nan
    options = {"V": np.arange(1.0, 6)} if metric == "seuclidean" else {}
    for pair in ((x,), (x, y)):
        expected = metrics.pairwise_distances(*pair, metric=metric, **options)
        with monkeypatch.context() as m:
            m.setattr(ours._sklearn, "pairwise_distances", None)
            m.setattr(ours._scipy._scipy, "cdist", None)
            got = ours.pairwise_distances(*pair, metric=metric, **options)
            kept = ours.pairwise_distances(*pair, metric=metric, keep_float32=True, **options)
        assert got.dtype == (expected.dtype if metric != "haversine" else np.float64)
        assert kept.dtype == (np.float64 if metric == "jaccard" else dtype)
        tolerance = {"rtol": 1e-4, "atol": 3e-3} if dtype is np.float32 else {"atol": 1e-7}
        np.testing.assert_allclose(got, expected, **tolerance)
        np.testing.assert_allclose(kept, expected, **tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("metric", ["chi2", "additive_chi2"])
def test_chi2_of_sklearn(metric, dtype):
    x, y = (np.round(np.abs(a), 1).astype(dtype) for a in (X, Y))
    for pair in ((x,), (x, y)):
        expected = pairwise_kernels(*pair, metric=metric)
        got = ours.pairwise_kernels(*pair, metric=metric)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-5 if dtype is np.float32 else 1e-12)
    with pytest.raises(ValueError, match="X contains negative values"):
        ours.pairwise_kernels(X, metric=metric)
    with pytest.raises(ValueError, match="Y contains negative values"):
        ours.pairwise_kernels(x, -y, metric=metric)
    if metric == "chi2":  # scikit-learn's own error, and not the kernel without exp
        with pytest.raises((TypeError, ValueError)):
            ours.pairwise_kernels(x, metric=metric, gamma=None)


def test_arguments_of_sklearns_metrics():
    with pytest.raises(ValueError, match="'V' parameter is required"):
        ours.pairwise_distances(X, Y, metric="seuclidean")
    with pytest.raises(ValueError, match="2 dimensions"):
        ours.pairwise_distances(X, metric="haversine")
    with pytest.warns(UserWarning, match="converted to boolean"):
        ours.pairwise_distances(X, metric="jaccard")


def test_what_is_sklearns_goes_to_sklearn():
    import scipy.sparse

    np.testing.assert_allclose(
        ours.pairwise_distances(scipy.sparse.csr_matrix(X)), gram.cdist(X), atol=1e-6
    )
    np.testing.assert_allclose(
        ours.pairwise_distances(X, metric="cosine"), metrics.pairwise_distances(X, metric="cosine")
    )
    bad = X.copy()
    bad[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        ours.pairwise_distances(bad)
    with pytest.raises(ValueError):
        ours.pairwise_distances(X, Y[:, 1:])
    with pytest.raises(TypeError):
        ours.pairwise_kernels(X, metric="rbf", nonsense=1)


def test_importing_gram_loads_none_of_them():
    code = (
        "import sys, gram; "
        "assert not {'torch', 'scipy', 'sklearn', 'matplotlib', 'numpy'} & set(sys.modules); "
        "assert gram.compat.__name__ == 'gram.compat' and 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_sklearns_inputs_of_two_dtypes_and_kernels_without_a_bandwidth():
    x, y = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([[0.5, 1.0]], np.float32)
    for metric in ("cosine", "nan_euclidean"):
        got, want = (m.pairwise_distances(x, y, metric=metric) for m in (ours, metrics))
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12)
    both = (ours.pairwise_kernels, pairwise_kernels)
    for metric, gamma in (("rbf", {}), ("linear", {}), ("rbf", {"gamma": 0}),
                          ("laplacian", {"gamma": -1.0}), ("rbf", {"gamma": np.inf})):  # fmt: skip
        got, want = (kernels(x, y, metric, **gamma) for kernels in both)
        np.testing.assert_allclose(got, want, rtol=1e-6)
