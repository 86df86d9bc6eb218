"""cdist and pdist of scipy.spatial.distance.

Computed by libgram: euclidean, sqeuclidean, cityblock, chebyshev, minkowski (p > 0), seuclidean,
cosine, correlation, canberra, braycurtis, hamming, jaccard and jensenshannon, by any of SciPy's
names for them, of real numbers, with weights where SciPy takes them.  As in SciPy the arithmetic
and the result are float64; keep_float32=True computes in float32 where all points are float32.
Every other metric and callables go to SciPy itself.

>>> from gram.compat.scipy import cdist
>>> cdist([[0, 0]], [[3, 4]], "cityblock").tolist()
[[7.0]]
"""

import numpy as np
import scipy.spatial.distance as _scipy

import gram

__all__ = ["cdist", "pdist"]

# The metric of gram.cdist, p, and whether its root is taken.
_METRICS = {
    "euclidean": ("minkowski", 2, True),
    "sqeuclidean": ("minkowski", 2, False),
    "cityblock": ("minkowski", 1, True),
    "chebyshev": ("minkowski", np.inf, True),
    "minkowski": ("minkowski", None, True),
    "seuclidean": ("seuclidean", None, True),
    "cosine": ("cosine", None, True),
    "correlation": ("correlation", None, True),
    "canberra": ("canberra", None, True),
    "braycurtis": ("braycurtis", None, True),
    "hamming": ("hamming", None, True),
    "jaccard": ("jaccard", None, True),
    "jensenshannon": ("jensenshannon", None, True),
}
_NAMES = {
    "euclidean": "euclidean euclid eu e",
    "sqeuclidean": "sqeuclidean sqe sqeuclid",
    "cityblock": "cityblock cblock cb c",
    "chebyshev": "chebychev chebyshev cheby cheb ch",
    "minkowski": "minkowski mi m pnorm",
    "seuclidean": "seuclidean se s",
    "cosine": "cosine cos",
    "correlation": "correlation co",
    "canberra": "canberra",
    "braycurtis": "braycurtis",
    "hamming": "matching hamming hamm ha h",
    "jaccard": "jaccard jacc ja j",
    "jensenshannon": "jensenshannon js",
}
_METRIC_OF = {name: metric for metric, names in _NAMES.items() for name in names.split()}
# The options that a metric has beside w.
_OPTIONS = {"minkowski": {"w", "p"}, "seuclidean": {"V"}, "jensenshannon": set()}


def _is_scipys(function):
    return getattr(_scipy, getattr(function, "__name__", ""), None) is function


def _weights(name, options, arrays):
    """The weights of the columns as SciPy has them; False if SciPy should say what is wrong."""
    k = arrays[0].shape[1]
    if name == "seuclidean":
        v = options.get("V")
        if v is None:
            v = np.var(np.vstack(arrays).astype(np.float64, copy=False), axis=0, ddof=1)
        v = np.asarray(v)
        usable = v.shape == (k,) and v.dtype.kind in "fiu" and np.all((v > 0) & (v < np.inf))
        return v.astype(np.float64) if usable else False
    w = options.get("w")
    if w is None:
        return None
    w = np.asarray(w)
    usable = w.shape == (k,) and w.dtype.kind in "fiub" and np.all((w >= 0) & (w < np.inf))
    return w.astype(np.float64) if usable else False


def _ours(metric, options, *arrays):
    """The arguments of gram.cdist, if libgram computes the metric."""
    if callable(metric):
        metric = getattr(metric, "__name__", "") if _is_scipys(metric) else None
    name = _METRIC_OF.get(metric.lower()) if isinstance(metric, str) else None
    if name is None or set(options) - _OPTIONS.get(name, {"w"}):
        return None
    if any(a.ndim != 2 or a.dtype.kind not in "fiub" or a.shape[1] == 0 for a in arrays):
        return None
    if any(a.dtype.itemsize > 8 for a in arrays):  # long double, which stays as it is
        return None
    if len({a.shape[1] for a in arrays}) > 1:
        return None
    kind, p, root = _METRICS[name]
    p = options.get("p", 2.0) if name == "minkowski" else p
    if name == "minkowski" and p is None:
        return None
    if p is not None and (not isinstance(p, int | float | np.number) or not p > 0):
        return None
    weights = _weights(name, options, arrays)
    if weights is False:
        return None
    arguments = {"root": root}
    if p is not None:
        arguments["p"] = float(p)
    if kind != "minkowski":
        arguments["metric"] = kind
    if weights is not None:
        arguments["weights"] = weights
    return arguments


def _as_computed(keep_float32, *arrays):
    """The arrays in the dtype of the arithmetic, which is float64 as in SciPy."""
    single = keep_float32 and all(a.dtype == np.float32 for a in arrays)
    return [np.asarray(a, np.float32 if single else np.float64) for a in arrays]


def _output(out, shape, dtype):
    """As SciPy has it: a new array, or the caller's, which is checked."""
    if out is None:
        return np.empty(shape, dtype)
    if out.shape != shape:
        raise ValueError("Output array has incorrect shape.")
    if not out.flags.c_contiguous:
        raise ValueError("Output array must be C-contiguous.")
    if out.dtype != dtype:
        expected = "double" if dtype == np.float64 else "float"
        raise ValueError(f"Output array must be {expected} type.")
    return out


def cdist(XA, XB, metric="euclidean", *, out=None, keep_float32=False, **kwargs):
    """scipy.spatial.distance.cdist: distances of the rows of XA to those of XB.

    XA (m, k) and XB (n, k) give (m, n).  Numbers of any real dtype; float64 comes out, or float32
    with keep_float32=True where XA and XB are float32.  Raises ValueError and TypeError as SciPy
    does.

    >>> cdist([[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]], "chebyshev").tolist()
    [[4.0, 1.0]]
    """
    x, y = np.asarray(XA), np.asarray(XB)
    ours = _ours(metric, kwargs, x, y)
    if ours is None:
        return _scipy.cdist(XA, XB, metric, out=out, **kwargs)
    x, y = _as_computed(keep_float32, x, y)
    out = _output(out, (x.shape[0], y.shape[0]), x.dtype)
    gram.cdist(x, y, out=out, **ours)
    return out


def pdist(X, metric="euclidean", *, out=None, keep_float32=False, **kwargs):
    """scipy.spatial.distance.pdist: distances of different rows of X, the upper triangle by rows.

    X is (m, k), of any real dtype; (m (m - 1) / 2,) of float64 comes out, or of float32 with
    keep_float32=True where X is float32.  Raises ValueError and TypeError as SciPy does.

    >>> pdist([[0.0], [1.0], [3.0]]).tolist()
    [1.0, 3.0, 2.0]
    """
    x = np.asarray(X)
    ours = _ours(metric, kwargs, x)
    if ours is None:
        return _scipy.pdist(X, metric, out=out, **kwargs)
    (x,) = _as_computed(keep_float32, x)
    out = _output(out, (x.shape[0] * (x.shape[0] - 1) // 2,), x.dtype)
    gram.cdist(x, out=out, condensed=True, **ours)
    return out


def _square(x, metric, keep_float32, options):
    """squareform(pdist(x)) without the detour, for gram.compat.sklearn."""
    ours = _ours(metric, options, x)
    if ours is None:
        return _scipy.squareform(_scipy.pdist(x, metric, **options))
    (x,) = _as_computed(keep_float32, x)
    out = gram.cdist(x, **ours)
    np.fill_diagonal(out, 0)
    return out
