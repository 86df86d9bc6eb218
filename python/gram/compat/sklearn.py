"""pairwise_distances and pairwise_kernels of sklearn.metrics.

Computed by libgram: the metrics cityblock, manhattan, l1, euclidean, l2, sqeuclidean, chebyshev,
minkowski, seuclidean, cosine, correlation, canberra, braycurtis, hamming, jaccard, haversine and
nan_euclidean, and the kernels linear, poly, polynomial, rbf, laplacian, sigmoid,
cosine, chi2 and additive_chi2, of dense real numbers.  Everything else goes to scikit-learn:
sparse matrices, callables, precomputed ones, further arguments.  The precision is scikit-learn's:
float32 stays float32 in kernels (but laplacian) and in Euclidean, cosine and nan_euclidean
distances, other distances are float64.  keep_float32=True keeps float32 in all distances.

>>> from gram.compat.sklearn import pairwise_kernels
>>> pairwise_kernels([[0.0], [1.0]], metric="laplacian", gamma=2.0).round(3).tolist()
[[1.0, 0.135], [0.135, 1.0]]
"""

import warnings

import numpy as np
from sklearn import metrics as _sklearn
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics.pairwise import check_pairwise_arrays

import gram
from gram.compat import scipy as _scipy

__all__ = ["pairwise_distances", "pairwise_kernels"]

_DISTANCES = {
    "cityblock": "cityblock",
    "manhattan": "cityblock",
    "l1": "cityblock",
    "euclidean": "euclidean",
    "l2": "euclidean",
    "sqeuclidean": "sqeuclidean",
    "chebyshev": "chebyshev",
    "minkowski": "minkowski",
    "hamming": "hamming",
    "seuclidean": "seuclidean",
    "correlation": "correlation",
    "canberra": "canberra",
    "braycurtis": "braycurtis",
    "jaccard": "jaccard",
}
# Metrics of scikit-learn's own, by the names of gram.cdist.
_OWN = {"cosine": "cosine", "haversine": "haversine", "nan_euclidean": "nan-euclidean"}
# The options of metrics that are SciPy's; the others have none.
_OPTIONS = {
    "minkowski": {"p", "w"},
    "seuclidean": {"V"},
    "correlation": {"w"},
    "canberra": {"w"},
    "braycurtis": {"w"},
    "hamming": {"w"},
    "chebyshev": {"w"},
    "sqeuclidean": {"w"},
}
# From so many columns on, sums of float32 show in the digits that scikit-learn has.
_LONG = 4096
_KERNELS = {"linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"} | {
    "chi2",
    "additive_chi2",
}
_TAKES = {
    "poly": {"degree", "gamma", "coef0"},
    "polynomial": {"degree", "gamma", "coef0"},
    "rbf": {"gamma"},
    "chi2": {"gamma"},
    "laplacian": {"gamma"},
    "sigmoid": {"gamma", "coef0"},
}


def _dense(*arrays):
    return not any(hasattr(a, "tocsr") for a in arrays)


def _euclidean(x, y, keep_float32):
    """Long rows of float32 are summed in float64, as scikit-learn does it."""
    if x.dtype != np.float32 or keep_float32 or x.shape[1] < _LONG:
        return gram.cdist(x, y)
    x, y = (None if a is None else a.astype(np.float64) for a in (x, y))
    return gram.cdist(x, y).astype(np.float32)


def _own_distances(metric, X, Y, ensure_all_finite, keep_float32):
    """The metrics that scikit-learn has itself."""
    finite = "allow-nan" if metric == "nan_euclidean" else ensure_all_finite
    keeps = metric != "haversine" or keep_float32
    dtype = {} if keeps else {"dtype": np.float64}
    x, y = check_pairwise_arrays(X, Y, ensure_all_finite=finite, **dtype)
    if metric == "haversine" and x.shape[1] != 2:
        raise ValueError("Haversine distance only valid in 2 dimensions")
    same = y is x
    out = gram.cdist(x, None if same else y, metric=_OWN[metric])
    if metric == "cosine":  # a row of zeros is as far from all others as an orthogonal one
        out[~x.any(axis=1)] = 1
        out[:, ~y.any(axis=1)] = 1
        if same:
            np.fill_diagonal(out, 0)
    return out


def _scipys_distances(metric, X, Y, ensure_all_finite, keep_float32, options):
    """The metrics that scikit-learn takes from SciPy, or computes in float64 as SciPy does."""
    dtype = {"dtype": np.float64}
    if metric == "jaccard":
        dtype = {"dtype": bool}
        if any(getattr(a, "dtype", None) != bool for a in (X, Y) if a is not None):
            warnings.warn(
                "Data was converted to boolean for metric jaccard",
                DataConversionWarning,
                stacklevel=3,
            )
    elif keep_float32:
        dtype = {}
    x, y = check_pairwise_arrays(X, Y, ensure_all_finite=ensure_all_finite, **dtype)
    if metric == "seuclidean" and options.get("V") is None:
        if y is not x:
            raise ValueError(
                "The 'V' parameter is required for the seuclidean metric when Y is passed."
            )
        options = {"V": np.var(x, axis=0, ddof=1)}
    if y is x:
        return _scipy._square(x, _DISTANCES[metric], keep_float32, options)
    return _scipy.cdist(x, y, _DISTANCES[metric], keep_float32=keep_float32, **options)


def pairwise_distances(
    X,
    Y=None,
    metric="euclidean",
    *,
    n_jobs=None,
    ensure_all_finite=True,
    keep_float32=False,
    **kwds,
):
    """sklearn.metrics.pairwise_distances.  libgram has threads of its own: n_jobs is not needed.

    X (m, k) and Y (n, k) give (m, n); dtypes are those of the module's description.  Raises
    ValueError as scikit-learn does.

    >>> pairwise_distances([[0.0, 0.0]], [[3.0, 4.0]], metric="manhattan").tolist()
    [[7.0]]
    """
    ours = isinstance(metric, str) and metric in _DISTANCES.keys() | _OWN.keys() and _dense(X, Y)
    if not ours or set(kwds) - _OPTIONS.get(metric, set()):
        return _sklearn.pairwise_distances(
            X, Y, metric, n_jobs=n_jobs, ensure_all_finite=ensure_all_finite, **kwds
        )
    if metric in _OWN:
        return _own_distances(metric, X, Y, ensure_all_finite, keep_float32)
    if metric in ("euclidean", "l2"):
        x, y = check_pairwise_arrays(X, Y, ensure_all_finite=ensure_all_finite)
        return _euclidean(x, None if y is x else y, keep_float32)
    return _scipys_distances(metric, X, Y, ensure_all_finite, keep_float32, kwds)


def _chi2(x, y, same, gamma):
    """-sum (x - y)^2 / (x + y), or exp(gamma times that)."""
    for name, a in (("X", x), ("Y", y)):
        if (a < 0).any() and not (same and name == "Y"):
            raise ValueError(f"{name} contains negative values.")
    out = gram.cdist(x, None if same else y, metric="chi2")
    out *= -1 if gamma is None else -gamma
    return out if gamma is None else np.exp(out, out=out)


def pairwise_kernels(X, Y=None, metric="linear", *, filter_params=False, n_jobs=None, **kwds):
    """sklearn.metrics.pairwise.pairwise_kernels, in one pass.

    X (m, k) and Y (n, k) give (m, n); dtypes are those of the module's description.  Raises
    ValueError as scikit-learn does.  Formulas and sources as gram.kernel.

    >>> pairwise_kernels([[1.0, 2.0]], [[3.0, 4.0]], metric="poly", degree=2, gamma=1).tolist()
    [[144.0]]
    """
    takes = _TAKES.get(metric, set()) if isinstance(metric, str) else set()
    if filter_params and isinstance(metric, str) and metric in _KERNELS:
        kwds = {name: value for name, value in kwds.items() if name in takes}
    ours = isinstance(metric, str) and metric in _KERNELS and _dense(X, Y)
    if metric == "chi2" and kwds.get("gamma", 1.0) is None:
        ours = False  # scikit-learn says what it expects
    if not ours or set(kwds) - takes:
        return _sklearn.pairwise.pairwise_kernels(
            X, Y, metric, filter_params=filter_params, n_jobs=n_jobs, **kwds
        )
    dtype = {"dtype": np.float64} if metric == "laplacian" else {}
    x, y = check_pairwise_arrays(X, Y, **dtype)
    if metric.endswith("chi2"):
        return _chi2(x, y, y is x, kwds.get("gamma", 1.0) if metric == "chi2" else None)
    gamma = kwds.get("gamma")
    gamma = 1.0 / x.shape[1] if gamma is None else gamma
    if metric in ("laplacian", "rbf") and not 0 < gamma < np.inf:  # no bandwidth stands for it
        return _sklearn.pairwise.pairwise_kernels(X, Y, metric, n_jobs=n_jobs, **kwds)
    if metric == "laplacian":
        name, options = "laplace", {"p": 1, "bandwidth": 1 / gamma}
    elif metric == "rbf":
        name, options = "gaussian", {"bandwidth": (0.5 / gamma) ** 0.5}
    elif metric in ("linear", "cosine"):
        name, options = metric, {}
    else:
        name, options = metric, {"gamma": gamma, "coef0": kwds.get("coef0", 1)}
        if metric != "sigmoid":
            name, options = "polynomial", options | {"degree": kwds.get("degree", 3)}
    return gram.kernel(x, None if y is x else y, name, **options)
