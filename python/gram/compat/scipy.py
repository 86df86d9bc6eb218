"""cdist and pdist of scipy.spatial.distance.

Computed by libgram: euclidean, sqeuclidean, cityblock, chebyshev, minkowski (p > 0) and hamming,
by any of SciPy's names for them, of real numbers and without weights.  As in SciPy the arithmetic
and the result are float64.  Every other metric, callables and weights go to SciPy itself.

>>> from gram.compat.scipy import cdist
>>> cdist([[0, 0]], [[3, 4]], "cityblock").tolist()
[[7.0]]
"""

import numpy as np
import scipy.spatial.distance as _scipy

import gram

__all__ = ["cdist", "pdist"]

# The p of gram.cdist, and whether its root is taken.
_METRICS = {
    "euclidean": (2, True),
    "sqeuclidean": (2, False),
    "cityblock": (1, True),
    "chebyshev": (np.inf, True),
    "hamming": (0, False),
    "minkowski": (None, True),
}
_NAMES = {
    "euclidean": "euclidean euclid eu e",
    "sqeuclidean": "sqeuclidean sqe sqeuclid",
    "cityblock": "cityblock cblock cb c",
    "chebyshev": "chebychev chebyshev cheby cheb ch",
    "hamming": "matching hamming hamm ha h",
    "minkowski": "minkowski mi m pnorm",
}
_METRIC_OF = {name: metric for metric, names in _NAMES.items() for name in names.split()}


def _ours(metric, options, *arrays):
    """The metric and p, if libgram computes it."""
    if callable(metric):
        metric = getattr(metric, "__name__", "") if _is_scipys(metric) else None
    name = _METRIC_OF.get(metric.lower()) if isinstance(metric, str) else None
    if name is None or set(options) - ({"p"} if name == "minkowski" else set()):
        return None
    p = options.get("p", 2.0) if name == "minkowski" else _METRICS[name][0]
    if not isinstance(p, int | float | np.number) or (name == "minkowski" and not p > 0):
        return None
    if any(a.ndim != 2 or a.dtype.kind not in "fiub" or a.shape[1] == 0 for a in arrays):
        return None
    return None if len({a.shape[1] for a in arrays}) > 1 else (name, float(p))


def _is_scipys(function):
    return getattr(_scipy, getattr(function, "__name__", ""), None) is function


def _distances(name, p, x, y, out):
    gram.cdist(x, y, p, _METRICS[name][1], out=out)
    if name == "hamming":
        out /= x.shape[1]
    return out


def _output(out, shape):
    """As SciPy has it: a new array, or the caller's, which is checked."""
    if out is None:
        return np.empty(shape)
    if out.shape != shape:
        raise ValueError("Output array has incorrect shape.")
    if not out.flags.c_contiguous:
        raise ValueError("Output array must be C-contiguous.")
    if out.dtype != np.float64:
        raise ValueError("Output array must be double type.")
    return out


def cdist(XA, XB, metric="euclidean", *, out=None, **kwargs):
    """scipy.spatial.distance.cdist: distances of the rows of XA to those of XB.

    XA (m, k) and XB (n, k) give (m, n).  Numbers of any real dtype; float64 comes out.  Raises
    ValueError and TypeError as SciPy does.

    >>> cdist([[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]], "chebyshev").tolist()
    [[4.0, 1.0]]
    """
    x, y = np.asarray(XA), np.asarray(XB)
    ours = _ours(metric, kwargs, x, y)
    if ours is None:
        return _scipy.cdist(XA, XB, metric, out=out, **kwargs)
    out = _output(out, (x.shape[0], y.shape[0]))
    return _distances(*ours, np.asarray(x, np.float64), np.asarray(y, np.float64), out)


_BLOCK = 256  # rows of the square matrix that pdist has at a time


def pdist(X, metric="euclidean", *, out=None, **kwargs):
    """scipy.spatial.distance.pdist: distances of different rows of X, the upper triangle by rows.

    X is (m, k), of any real dtype; (m (m - 1) / 2,) of float64 comes out.  Raises ValueError and
    TypeError as SciPy does.

    >>> pdist([[0.0], [1.0], [3.0]]).tolist()
    [1.0, 3.0, 2.0]
    """
    x = np.asarray(X)
    ours = _ours(metric, kwargs, x)
    if ours is None:
        return _scipy.pdist(X, metric, out=out, **kwargs)
    x = np.asarray(x, np.float64)
    m = x.shape[0]
    out = _output(out, (m * (m - 1) // 2,))
    at = 0
    for begin in range(0, m, _BLOCK):
        rows = x[begin : begin + _BLOCK]
        block = _distances(*ours, rows, x[begin:], np.empty((rows.shape[0], m - begin)))
        for i in range(rows.shape[0]):
            row = block[i, i + 1 :]
            out[at : at + row.size] = row
            at += row.size
    return out
