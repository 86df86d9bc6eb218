"""peers/scipy.py - SciPy: distances, LAPACK's drivers, ARPACK"""

import numpy as np
import scipy.linalg
import scipy.spatial
from core.place import NotOffered
from core.tables import Call
from scipy.sparse.linalg import eigsh
from scipy.spatial.distance import cdist as distances
from scipy.spatial.distance import pdist as condensed

NAME, PACKAGES, DEVICES = "SciPy", ["scipy"], ("cpu",)
METRICS = {0: "hamming", 1: "cityblock", 2: "euclidean", np.inf: "chebyshev"}


def cdist(q):
    y = q.x if q.y is None else q.y
    metric = METRICS.get(q.p, "minkowski")
    power = {"p": q.p} if metric == "minkowski" else {}
    times = q.k if q.p == 0 else 1  # hamming is a share of the features
    return lambda: distances(q.x, y, metric, **power) * times


def metric(q):
    options = {}
    if q.metric == "weighted euclidean":
        return lambda: distances(q.x, q.y, "euclidean", w=q.weights)
    if q.metric in ("chi2", "haversine", "nan-euclidean"):
        raise NotOffered(q.metric)
    if q.metric == "seuclidean":
        options["V"] = q.weights
    return lambda: distances(q.x, q.y, q.metric, **options)


def pdist(q):
    return lambda: condensed(q.x, METRICS[q.p])


def median(q):
    return lambda: np.median(condensed(q.x))


def solve(q):
    if q.batch:
        raise NotOffered("one system at a time")
    kind = "gen" if q.lu else "pos"

    def factored():
        if q.lu:
            return scipy.linalg.lu_solve(scipy.linalg.lu_factor(q.a, check_finite=False), q.b)
        return scipy.linalg.cho_solve(
            scipy.linalg.cho_factor(q.a, lower=True, check_finite=False), q.b
        )

    whole = Call(lambda: scipy.linalg.solve(q.a, q.b, assume_a=kind, check_finite=False))
    return {"solve": whole, "factor and solve": factored}


def eigh(q):
    if q.batch:
        raise NotOffered("one matrix at a time")
    return {"evd": lambda: scipy.linalg.eigh(q.a, check_finite=False, driver="evd")}


def eigh_top(q):
    last = [q.n - q.count, q.n - 1]
    return {
        "syevr": lambda: scipy.linalg.eigh(q.a, subset_by_index=last, check_finite=False),
        "eigsh": lambda: eigsh(q.a, q.count),
    }


def eigh_kernel(q):
    if q.n > 20000:
        raise NotOffered("the matrix would have to be stored")
    return {"eigsh": lambda: eigsh(np.exp(-distances(q.x, q.x) / q.bandwidth), q.count)}


def matrix_power(q):
    out = np.empty_like(q.a)

    def run():
        for item, to in zip(q.a, out, strict=True):
            w, v = scipy.linalg.eigh(item, check_finite=False)
            to[:] = (v * np.maximum(w, 1e-7 * w[-1]) ** -0.25) @ v.T
        return out

    return {"eigh": run}


def nearest(q):
    """A tree, which is built anew: it pays where there are few features."""

    def search():
        return scipy.spatial.cKDTree(q.y).query(q.x, q.count, p=q.p, workers=q.place.threads)[0]

    return {"cKDTree": search}


CALLS = {
    "cdist": cdist,
    "nearest": nearest,
    "metric": metric,
    "pdist": pdist,
    "median_distance": median,
    "solve": solve,
    "eigh": eigh,
    "eigh_top": eigh_top,
    "eigh_kernel": eigh_kernel,
    "matrix_power": matrix_power,
}
