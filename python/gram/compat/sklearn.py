"""pairwise_distances and pairwise_kernels of sklearn.metrics.

Computed by libgram: the metrics cityblock, manhattan, l1, euclidean, l2, sqeuclidean, chebyshev,
minkowski and hamming, and the kernels linear, poly, polynomial, rbf, laplacian, sigmoid and
cosine, of dense real numbers.  Everything else goes to scikit-learn: sparse matrices, callables,
precomputed ones, further arguments.  The precision is scikit-learn's: float32 stays float32 in
kernels (but laplacian) and in Euclidean distances, other distances are float64.

>>> from gram.compat.sklearn import pairwise_kernels
>>> pairwise_kernels([[0.0], [1.0]], metric="laplacian", gamma=2.0).round(3).tolist()
[[1.0, 0.135], [0.135, 1.0]]
"""

import numpy as np
from sklearn import metrics as _sklearn
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
}
_KERNELS = {"linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"}
_TAKES = {
    "poly": {"degree", "gamma", "coef0"},
    "polynomial": {"degree", "gamma", "coef0"},
    "rbf": {"gamma"},
    "laplacian": {"gamma"},
    "sigmoid": {"gamma", "coef0"},
}


def _dense(*arrays):
    return not any(hasattr(a, "tocsr") for a in arrays)


def pairwise_distances(
    X, Y=None, metric="euclidean", *, n_jobs=None, ensure_all_finite=True, **kwds
):
    """sklearn.metrics.pairwise_distances.  libgram has threads of its own: n_jobs is not needed.

    X (m, k) and Y (n, k) give (m, n); dtypes are those of the module's description.  Raises
    ValueError as scikit-learn does.

    >>> pairwise_distances([[0.0, 0.0]], [[3.0, 4.0]], metric="manhattan").tolist()
    [[7.0]]
    """
    ours = isinstance(metric, str) and metric in _DISTANCES and _dense(X, Y)
    if not ours or set(kwds) - ({"p"} if metric == "minkowski" else set()):
        return _sklearn.pairwise_distances(
            X, Y, metric, n_jobs=n_jobs, ensure_all_finite=ensure_all_finite, **kwds
        )
    dtype = None if metric in ("euclidean", "l2") else np.float64
    x, y = check_pairwise_arrays(X, Y, dtype=dtype, ensure_all_finite=ensure_all_finite)
    if dtype is None:
        return gram.cdist(x, None if y is x else y)
    return _scipy.cdist(x, y, _DISTANCES[metric], **kwds)


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
    if not ours or set(kwds) - takes:
        return _sklearn.pairwise.pairwise_kernels(
            X, Y, metric, filter_params=filter_params, n_jobs=n_jobs, **kwds
        )
    x, y = check_pairwise_arrays(X, Y, dtype=np.float64 if metric == "laplacian" else None)
    gamma = kwds.get("gamma")
    gamma = 1.0 / x.shape[1] if gamma is None else gamma
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
