"""peers/sklearn.py - scikit-learn: pairwise metrics and kernels, kernel ridge, classifiers"""

import numpy as np
from core.place import NotOffered
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import pairwise_distances, pairwise_kernels
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    haversine_distances,
    laplacian_kernel,
    nan_euclidean_distances,
    rbf_kernel,
)
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

NAME, PACKAGES, DEVICES = "scikit-learn", ["scikit-learn"], ("cpu",)
METRICS = {1: "manhattan", 2: "euclidean", np.inf: "chebyshev"}


def cdist(q):
    if q.p == 0:
        raise NotOffered("p = 0")
    y = q.x if q.y is None else q.y
    metric = METRICS.get(q.p, "minkowski")
    power = {"p": q.p} if metric == "minkowski" else {}
    jobs = q.place.threads
    return lambda: pairwise_distances(q.x, y, metric=metric, n_jobs=jobs, **power)


def metric(q):
    own = {"haversine": haversine_distances, "nan-euclidean": nan_euclidean_distances}
    if q.metric == "chi2":
        return lambda: -additive_chi2_kernel(q.x, q.y)
    if q.metric not in own:
        raise NotOffered(q.metric)
    return lambda: own[q.metric](q.x, q.y)


def kernel(q):
    o = q.given
    if o.get("regularization"):
        raise NotOffered("the regularization")
    gamma = o.get("gamma")
    if q.kernel == "product-laplace" and o["exponent"] == 1:
        name, plain, gamma = "laplacian", laplacian_kernel, 1 / o["bandwidth"]
    elif q.kernel == "gaussian":
        name, plain, gamma = "rbf", rbf_kernel, 1 / (2 * o["bandwidth"] ** 2)
    else:
        name = {"linear": "linear", "polynomial": "poly", "sigmoid": "sigmoid", "cosine": "cosine"}
        name, plain = name.get(q.kernel), None
    if name is None:
        raise NotOffered(q.kernel)
    options = {"gamma": gamma} if gamma else {}
    options |= {k: o[k] for k in ("coef0", "degree") if k in o}
    jobs = q.place.threads
    found = {f"n_jobs={jobs}": lambda: pairwise_kernels(q.x, q.y, name, n_jobs=jobs, **options)}
    if plain:
        found[""] = lambda: plain(q.x, q.y, gamma=gamma)
    return found


def ridge(q):
    model = KernelRidge(kernel="rbf", gamma=1 / (2 * q.bandwidth**2), alpha=q.alpha)
    return lambda: model.fit(q.x, q.y).predict(q.x)


def fit_table(q):
    """Other machines on the rows that `gram fit` gets: categories as ordinal numbers."""
    x, y, x_test, _ = q.encoded()
    boosting = {"max_iter": 2 if q.place.tiny else 500, "random_state": 0}

    def learn(model):
        return lambda: q.scored(model.fit(x, y).predict(x_test))

    if q.number:
        return {"gradient boosting":
                learn(HistGradientBoostingRegressor(**boosting))}  # fmt: skip
    return {
        "support vector machine": learn(make_pipeline(StandardScaler(), SVC(C=10))),
        "gradient boosting": learn(HistGradientBoostingClassifier(**boosting)),
    }


def nearest(q):
    model = NearestNeighbors(algorithm="brute", p=q.p, n_jobs=q.place.threads).fit(q.y)
    return lambda: model.kneighbors(q.x, q.count)[0]


CALLS = {
    "cdist": cdist,
    "metric": metric,
    "kernel": kernel,
    "nearest": nearest,
    "ridge": ridge,
    "fit_table": fit_table,
}
