"""Estimators for scikit-learn: kernel ridge regression, feature machines, kernels, neighbours.

>>> import numpy as np
>>> from gram.sklearn import KernelRidge, RFMClassifier
>>> x = np.random.default_rng(0).standard_normal((100, 2))
>>> KernelRidge(kernel="laplace", bandwidth=3.0).fit(x, x[:, 0]).score(x, x[:, 0]) > 0.9
True
>>> y = np.where(x[:, 0] > 0, "right", "left")
>>> RFMClassifier(random_state=0).fit(x, y).predict([[3.0, 0.0], [-3.0, 0.0]]).tolist()
['right', 'left']
"""

import contextlib
import numbers
import warnings

import gram
import numpy as np
from gram import _core, _tables
from gram.compat.sklearn import pairwise_kernels
from gram.machine import Machine
from joblib import effective_n_jobs
from scipy import linalg, sparse
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

__all__ = [
    "KNeighborsTransformer",
    "KernelRidge",
    "KernelTransformer",
    "RFMClassifier",
    "RFMRegressor",
]

FLOATS = [np.float64, np.float32]
# scikit-learn's names of kernels; the first two have its gamma for a width.
_OTHERS = {"rbf": "gaussian", "laplacian": "laplace", "poly": "polynomial"}
# scikit-learn's kernels, and those of them that it has of sparse rows.
_OF_SPARSE = {"linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"}
_THEIRS = _OF_SPARSE | {"chi2", "additive_chi2"}
# scikit-learn's names of metrics that are p-norms, and of others than gram.cdist names so.
_NORMS = {
    "euclidean": 2.0,
    "l2": 2.0,
    "manhattan": 1.0,
    "cityblock": 1.0,
    "l1": 1.0,
    "chebyshev": np.inf,
    "infinity": np.inf,
}
_METRICS = {"nan_euclidean": "nan-euclidean"}
# The weights in metric_params: the variances of seuclidean, and w of the others.
_PARAMETERS = {"seuclidean": {"V"}, "haversine": set()}


@contextlib.contextmanager
def _threads(n_jobs):
    """Runs with so many threads, counted as joblib does; None leaves their number alone."""
    if n_jobs is None:
        yield
        return
    before = gram.get_threads()
    gram.set_threads(effective_n_jobs(n_jobs))
    try:
        yield
    finally:
        gram.set_threads(before)


def _distinct(X):
    """A data frame of pandas with each name but once; anything else as it is."""
    if hasattr(X, "iloc") and hasattr(X, "columns") and not X.columns.is_unique:
        return X.set_axis(_tables.unique([str(name) for name in X.columns]), axis=1)
    return X


class _Kernel(BaseEstimator):
    """What estimators with a fixed kernel share: its parameters, and the bandwidth of the data."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = callable(self.kernel) or self.kernel in _OF_SPARSE
        return tags

    def _points(self, X, y="no_validation", reset=False):
        """X, and y if there is one, as scikit-learn checks them."""
        X = _distinct(X)
        sparse_too = ("csr", "csc") if self.__sklearn_tags__().input_tags.sparse else False
        options = {"dtype": FLOATS, "accept_sparse": sparse_too, "reset": reset}
        if isinstance(y, str):
            return validate_data(self, X, **options)
        return validate_data(self, X, y, multi_output=True, y_numeric=True, **options)

    def _is_pairwise(self, *points):
        """Is the kernel matrix that of gram.compat.sklearn, which knows functions of two rows,
        sparse rows, chi2 and a gamma of 0?"""
        of_distance = self.kernel in ("rbf", "laplacian")
        return (
            callable(self.kernel)
            or self.kernel in ("chi2", "additive_chi2")
            or any(sparse.issparse(x) for x in points)
            or (of_distance and not 0 < self._gamma() < np.inf)
        )

    def _name(self):
        """The kernel as gram.kernel names it."""
        return _OTHERS.get(self.kernel, self.kernel)

    def _options(self):
        """The numbers of the kernel, gamma as scikit-learn has it."""
        numbers = {"p": self.p, "exponent": self.exponent, "bandwidth": self.bandwidth_}
        numbers |= {"gamma": self._gamma(), "coef0": self.coef0, "degree": self.degree}
        if self.kernel == "laplacian":
            numbers["p"] = 1.0
        return {name: numbers[name] for name in _core.kernel_takes(self._name()) if name in numbers}

    def _gamma(self):
        """gamma, or what stands for it in scikit-learn."""
        if self.gamma is not None:
            return self.gamma
        return 1.0 if self.kernel == "chi2" else 1.0 / self.n_features_in_

    def _fit_bandwidth(self, x):
        """bandwidth, or the median distance of the distinct rows, 1 where there is none; None for a
        kernel without a bandwidth."""
        if self._is_pairwise(x):
            return None
        if self.kernel in ("rbf", "laplacian"):
            return (0.5 / self._gamma()) ** 0.5 if self.kernel == "rbf" else 1.0 / self._gamma()
        takes = _core.kernel_takes(self._name())
        if "bandwidth" not in takes:
            return None
        if self.gamma is not None:
            raise ValueError(
                f"gamma is given, but the kernel {self.kernel!r} has none: give bandwidth, or the "
                "kernel 'rbf' or 'laplacian' of scikit-learn"
            )
        if self.bandwidth != "median":
            return 1.0 if self.bandwidth is None else self.bandwidth
        median = float(gram.median_distance(np.unique(x, axis=0), self.p))
        return median if median > 0 else 1.0

    def _matrix(self, x, y=None):
        """The kernel matrix, with the dtype of x."""
        if not self._is_pairwise(x, y):
            return gram.kernel(x, y, self._name(), **self._options())
        numbers = {"gamma": self._gamma(), "coef0": self.coef0, "degree": self.degree}
        if callable(self.kernel):
            numbers = self.kernel_params or {}
        k = pairwise_kernels(x, y, self.kernel, filter_params=True, **numbers)
        k = k.toarray() if sparse.issparse(k) else k
        return np.asarray(k, x.dtype)


class KernelRidge(MultiOutputMixin, RegressorMixin, _Kernel):
    """Kernel ridge regression: (K + alpha diag(1 / weights)) dual_coef_ = y, by Cholesky.

    It takes the place of scikit-learn's class of this name, whose parameters and attributes it has.
    kernel is "linear", "rbf", "laplacian", "poly", "polynomial", "sigmoid", "cosine", "chi2",
    "additive_chi2", or a function of two rows and of kernel_params, a dict, which returns a number;
    or "precomputed": X is then the kernel matrix (n, n), and (m, n) in predict.  gamma (None: 1 for
    "chi2", else 1 / features), degree and coef0 are scikit-learn's, for kernels that have them.

    kernel may also be a kernel of gram.kernel, as "gaussian", "laplace" or "matern52".  bandwidth
    is then a number (None: 1), or "median" for the median distance between distinct rows, and p and
    exponent are those of gram.kernel.

    alpha is one number of at least 0, or one for each target.  If alphas is given, a list of at
    most 256 numbers, the one with the least mean squared error of leave-one-out predictions takes
    the place of alpha, as in scikit-learn's RidgeCV; alpha_per_target=True chooses it for each
    target.  The errors are exact and need no further fit: one eigendecomposition, or one
    factorisation for each number, gives them all (gram.krr_path).

    X is (n, features), dense or sparse (sparse for functions, and for scikit-learn's kernels but
    the two chi2), and y is (n,) or (n, targets), of float32 or float64.  A fit needs memory for
    n^2 numbers, and for about 3 n^2 of float64 more with alphas.  Rows without weight are not
    learned.  A row of weight 2 is left out as a whole, and two equal rows one at a time, so that
    alphas may be chosen otherwise for them; with a fixed alpha both give the same model.

    Attributes: dual_coef_, X_fit_ (the rows that were learned), bandwidth_ (None for kernels
    without one), n_features_in_; with alphas also alpha_, a number, or one for each target;
    best_score_, the negative of the weighted mean squared leave-one-out error of alpha_, with the
    same shape; loo_, the leave-one-out predictions of all rows, with the shape of y; loo_errors_
    and loo_spreads_, the mean squared error and its standard error for each of alphas, (alphas,) or
    (alphas, targets), nan where the matrix is not positive definite.

    Raises ValueError like the checks of scikit-learn, and gram.LinAlgError if the matrix is not
    positive definite for any of alphas.  Without alphas a matrix that is not positive definite
    gives a warning, and the solution of least squares, as in scikit-learn.  After Saunders,
    Gammerman and Vovk, Ridge regression learning algorithm in dual variables, ICML 1998.

    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> ridge = KernelRidge(kernel="gaussian", alpha=1e-3, bandwidth=0.2)
    >>> ridge = ridge.fit(x, np.sin(6 * x[:, 0]))
    >>> bool(abs(ridge.predict([[0.5]])[0] - np.sin(3)) < 0.01)
    True
    >>> noisy = np.sin(6 * x[:, 0]) + np.random.default_rng(0).normal(0, 0.3, 30)
    >>> ridge = KernelRidge(kernel="rbf", gamma=12.5, alphas=[1e-3, 0.1, 10.0]).fit(x, noisy)
    >>> ridge.alpha_, bool(ridge.best_score_ == -ridge.loo_errors_.min())
    (0.1, True)
    """

    def __init__(
        self,
        alpha=1.0,
        *,
        kernel="linear",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        bandwidth=None,
        p=2.0,
        exponent=1.0,
        alphas=None,
        alpha_per_target=False,
    ):
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.bandwidth = bandwidth
        self.p = p
        self.exponent = exponent
        self.alphas = alphas
        self.alpha_per_target = alpha_per_target

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _check(self, X):
        """What validate_data does not look at."""
        if self.kernel == "precomputed":
            if len(X) != X.shape[1]:
                raise ValueError(
                    f"X is {len(X)} by {X.shape[1]}, expected a square matrix of kernel values"
                )
            return
        named = not (callable(self.kernel) or self.kernel in _THEIRS)
        if named:
            _core.kernel_takes(self._name())  # raises ValueError for a name that nobody knows
        if self.bandwidth is not None and not (
            named and "bandwidth" in _core.kernel_takes(self._name())
        ):
            raise ValueError(
                f"bandwidth is given, but the kernel {self.kernel!r} has none: give gamma, or a "
                "kernel of gram.kernel such as 'gaussian'"
            )

    def fit(self, X, y, sample_weight=None):
        """Fits X (n, features) to y (n,) or (n, targets), with weights >= 0 of the rows."""
        X, y = self._points(X, y, reset=True)
        y = y.astype(X.dtype, copy=False)
        self._check(X)
        count, weights, kept = X.shape[0], None, slice(None)
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            kept = np.flatnonzero(weights > 0)
            if len(kept) == 0:
                raise ValueError("All sample weights are zero.")
            weights = np.ascontiguousarray(weights[kept], X.dtype)
        all_rows, all_targets = X, y
        X, y = X[kept], y[kept]
        precomputed = self.kernel == "precomputed"
        self.bandwidth_ = None if precomputed else self._fit_bandwidth(X)
        self.X_fit_ = X
        for name in ("alpha_", "best_score_", "loo_", "loo_errors_", "loo_spreads_"):
            vars(self).pop(name, None)  # of an earlier fit

        def matrix():
            return np.array(X[:, kept], order="C") if precomputed else self._matrix(X)

        if self.alphas is None:
            alpha = _ridges("alpha", self.alpha, y.shape[1:])
            self.dual_coef_ = _solve(matrix, y, alpha, weights)
        else:
            self._choose(matrix(), y, weights)
        if precomputed and sample_weight is not None:  # rows without weight count for nothing
            coefficients = self.dual_coef_
            self.dual_coef_ = np.zeros((count, *y.shape[1:]), X.dtype)
            self.dual_coef_[kept] = coefficients
        if self.alphas is not None and len(y) < count:
            out = np.ones(count, bool)
            out[kept] = False
            learned, self.loo_ = self.loo_, np.empty_like(all_targets)
            self.loo_[kept], self.loo_[out] = learned, self._predict(all_rows[out])
        return self

    def _choose(self, k, y, weights):
        """The best of alphas by leave-one-out: its coefficients, and the attributes."""
        alphas = _ridges("alphas", self.alphas)
        shape = len(alphas), *y.shape[1:]
        error, spread = np.empty(shape, y.dtype), np.empty(shape, y.dtype)
        alpha = np.empty((len(alphas), *y.shape), y.dtype)
        info = np.zeros((), np.int32)
        residual = gram.krr_path(
            k, y, alphas, weights=weights, error=error, spread=spread, alpha=alpha, info=info
        )
        if info == len(alphas):
            raise gram.LinAlgError(
                f"the kernel matrix is not positive definite for any of {len(alphas)} alphas"
            )
        if self.alpha_per_target and y.ndim == 2:
            best = np.nanargmin(error, axis=0)
            columns = np.arange(y.shape[1])
            self.alpha_, self.best_score_ = alphas[best], -error[best, columns]
            self.dual_coef_ = np.ascontiguousarray(alpha[best, :, columns].T)
            self.loo_ = y - residual[best, :, columns].T
        else:
            means = error.reshape(len(alphas), -1).mean(axis=1)
            best = np.nanargmin(means)
            self.alpha_, self.best_score_ = float(alphas[best]), -float(means[best])
            self.dual_coef_, self.loo_ = alpha[best].copy(), y - residual[best]
        self.loo_errors_, self.loo_spreads_ = error, spread

    def predict(self, X):
        """Predictions, (n,) or (n, targets).  The kernel matrix is not stored, unless it is that of
        a function, of sparse rows or of a chi2 kernel."""
        check_is_fitted(self)
        X = self._points(X)
        return self._predict(X.astype(self.X_fit_.dtype, copy=False))

    def _predict(self, X):
        if self.kernel == "precomputed":
            return X @ self.dual_coef_
        if self._is_pairwise(X, self.X_fit_):
            return self._matrix(X, self.X_fit_) @ self.dual_coef_
        return gram.kernel_matmul(
            X, self.X_fit_, self._name(), v=self.dual_coef_, **self._options()
        )


def _ridges(name, values, shape=None):
    """The numbers of alpha, one or as many as targets (shape is that of a row of y), or of
    alphas."""
    found = np.asarray(values, np.float64)
    if shape is None:
        expected, right = "a list of 1 to 256 numbers", found.ndim == 1 and 1 <= found.size <= 256
    else:
        targets = shape[0] if shape else 1
        expected = "one number" + (f", or {targets}, one for each target" if targets > 1 else "")
        right = found.size in (1, targets) and found.ndim <= 1
    if not right:
        raise ValueError(f"{name} has shape {found.shape}, expected {expected}")
    wrong = found[~((found >= 0) & (found < np.inf))]
    if wrong.size:
        raise ValueError(f"{name} is or holds {wrong[0]}, expected finite numbers of at least 0")
    return found


def _solve(matrix, y, alpha, weights):
    """The solutions of (K + alpha diag(1 / weights)) c = y for one alpha, or one for each column of
    y; matrix() makes K.  Targets of equal alphas share a factorisation."""
    distinct, which = np.unique(alpha, return_inverse=True)
    inverse = 1.0 if weights is None else 1.0 / weights
    columns = y.reshape(len(y), -1)
    out = np.empty_like(columns)
    k = matrix() if len(distinct) > 1 else None
    for i, ridge in enumerate(distinct):
        chosen = np.flatnonzero(which == i) if len(distinct) > 1 else slice(None)
        a = matrix() if k is None else k.copy()
        a.flat[:: len(a) + 1] += np.asarray(ridge * inverse, a.dtype)
        part = np.ascontiguousarray(columns[:, chosen])
        try:
            out[:, chosen] = gram.solve_cholesky(a, part, factor=a)
        except gram.LinAlgError:
            warnings.warn(
                f"The kernel matrix is not positive definite with alpha = {ridge:g}: this is the "
                "solution of least squares.",
                stacklevel=3,
            )
            out[:, chosen] = _least_squares(matrix() if k is None else k, part, ridge, weights)
    return out.reshape(y.shape)


def _least_squares(k, y, ridge, weights):
    """In the coordinates of scikit-learn, in which weighted rows have one ridge: where there are
    many solutions it is the shortest one there."""
    root = np.ones(len(k), k.dtype) if weights is None else np.sqrt(weights)
    a = k * np.outer(root, root)
    a.flat[:: len(a) + 1] += np.asarray(ridge, a.dtype)
    return linalg.lstsq(a, y * root[:, None])[0] * root[:, None]


class KernelTransformer(TransformerMixin, _Kernel):
    """Features that are kernel values with the training rows, or with a random part of them.

    kernel, gamma, bandwidth and the other parameters are those of gram.sklearn.KernelRidge, without
    "precomputed".  X is (n, features), of float32 or float64, and the result is (n, components)
    with the same dtype.  Attributes: components_, bandwidth_, n_features_in_.  Raises ValueError
    like the checks of scikit-learn.

    >>> x = np.random.default_rng(0).standard_normal((50, 3))
    >>> transformer = KernelTransformer(n_components=4, random_state=0).fit(x)
    >>> transformer.transform(x[:2]).shape
    (2, 4)
    >>> transformer.get_feature_names_out()[:2].tolist()
    ['kernel0', 'kernel1']
    """

    def __init__(
        self,
        *,
        kernel="gaussian",
        bandwidth="median",
        p=2.0,
        exponent=1.0,
        gamma=None,
        degree=3,
        coef0=1,
        n_components=None,
        random_state=None,
        kernel_params=None,
    ):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.p = p
        self.exponent = exponent
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.random_state = random_state
        self.kernel_params = kernel_params

    def fit(self, X, y=None):
        """Stores the components of X (n, features); y is not used."""
        X = self._points(X, reset=True)
        self.bandwidth_ = self._fit_bandwidth(X)
        count = X.shape[0]
        if self.n_components is not None and self.n_components < count:
            count, rows = self.n_components, count
            X = X[check_random_state(self.random_state).choice(rows, count, replace=False)]
        self.components_ = X
        self._n_features_out = count
        return self

    def transform(self, X):
        """The features (n, components)."""
        check_is_fitted(self)
        X = self._points(X)
        return self._matrix(X.astype(self.components_.dtype, copy=False), self.components_)

    def get_feature_names_out(self, input_features=None):
        """The names kernel0, kernel1, ..."""
        check_is_fitted(self)
        return np.array([f"kernel{i}" for i in range(self._n_features_out)], dtype=object)


class KNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The graph of the nearest training rows, as the transformer of scikit-learn with this name.

    The result is a sparse matrix (n, training rows) in CSR form.  With mode="distance" it holds the
    distances to the n_neighbors + 1 nearest training rows of each row, sorted, of which a training
    row itself is one.  With mode="connectivity" it holds ones for the n_neighbors nearest.
    Estimators that take neighbours with metric="precomputed" read it: KNeighborsClassifier, DBSCAN,
    TSNE.  The search is that of gram.nearest, which is exact.  metric is "minkowski" with the norm
    p, or one of "euclidean", "l2", "manhattan", "cityblock", "l1", "chebyshev", "infinity", and of
    the metrics of gram.cdist, of which scikit-learn calls one "nan_euclidean".  metric_params holds
    V, the variances of "seuclidean" (those of the training rows if it is not given), or w, the
    weights of the columns.  A row of zeros has no cosine distance, and a constant one no
    correlation distance; both raise ValueError.  n_jobs is the number of threads of transform, as
    in gram.sklearn.RFMRegressor.  X is (n, features), of float32 or float64; NaN is
    allowed with "nan_euclidean".  Attributes: X_fit_, n_samples_fit_, n_features_in_.

    Raises ValueError like the checks of scikit-learn, and if n_neighbors is more than there are
    training rows, or more than 1023 with mode="distance" and 1024 with mode="connectivity".

    >>> x = np.array([[0.0], [1.0], [5.0]])
    >>> transformer = KNeighborsTransformer(n_neighbors=1).fit(x)
    >>> transformer.transform(x).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 4., 0.]])
    >>> transformer.get_feature_names_out()[:1].tolist()
    ['kneighborstransformer0']
    """

    def __init__(
        self,
        *,
        mode="distance",
        n_neighbors=5,
        metric="minkowski",
        p=2.0,
        metric_params=None,
        n_jobs=None,
    ):
        self.mode = mode
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.p = p
        self.metric_params = metric_params
        self.n_jobs = n_jobs

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._metric() == "nan-euclidean"
        return tags

    def _metric(self):
        """The metric as gram.nearest names it."""
        return _METRICS.get(self.metric, self.metric)

    def _distance(self):
        """How gram.nearest measures distances."""
        given = dict(self.metric_params or {})
        extra = given.keys() - _PARAMETERS.get(self.metric, {"w"})
        if extra:
            raise ValueError(f"metric_params has {min(extra)!r}, which {self.metric} does not take")
        weights = next(iter(given.values()), None)
        if self.metric == "seuclidean" and weights is None:
            weights = np.var(self.X_fit_, axis=0, ddof=1, dtype=np.float64)
        if weights is not None:
            weights = np.asarray(weights, dtype=self.X_fit_.dtype)
        if self.metric == "minkowski" or self.metric in _NORMS:
            return {"p": _NORMS.get(self.metric, self.p), "weights": weights}
        return {"metric": self._metric(), "weights": weights}

    def _data(self, X, reset):
        finite = "allow-nan" if self._metric() == "nan-euclidean" else True
        X = _distinct(X)
        return validate_data(self, X, dtype=FLOATS, reset=reset, ensure_all_finite=finite)

    def _count(self):
        """How many neighbours each row has in the graph."""
        if self.mode not in ("distance", "connectivity"):
            raise ValueError(f"mode is {self.mode!r}, expected 'distance' or 'connectivity'")
        count = self.n_neighbors
        if not isinstance(count, numbers.Integral) or count < 1:
            raise ValueError(f"n_neighbors is {count!r}, expected a whole number of at least 1")
        count = int(count) + (self.mode == "distance")
        if count > self.n_samples_fit_:
            raise ValueError(
                f"n_neighbors is {self.n_neighbors}, more than there are: n_samples = "
                f"{self.n_samples_fit_}"
            )
        return count

    def fit(self, X, y=None):
        """Stores X (n, features); y is not used."""
        X = self._data(X, reset=True)
        self.X_fit_ = X
        self.n_samples_fit_ = self._n_features_out = len(X)
        self._count()
        return self

    def transform(self, X):
        """The graph (n, training rows)."""
        check_is_fitted(self)
        X = self._data(X, reset=False)
        count = self._count()
        X = np.ascontiguousarray(X, dtype=self.X_fit_.dtype)
        with _threads(self.n_jobs):
            distances, indices = gram.nearest(X, self.X_fit_, count=count, **self._distance())
        if (indices < 0).any():
            raise ValueError(
                f"a {self.metric} distance is not a finite number: X holds rows without one, or "
                "numbers that are too large"
            )
        if self.mode == "connectivity":
            distances = np.ones_like(distances)
        ends = np.arange(0, indices.size + 1, count)
        shape = len(X), self.n_samples_fit_
        return sparse.csr_matrix((distances.ravel(), indices.ravel(), ends), shape=shape)


class _Machine(BaseEstimator):
    """What both recursive feature machines share."""

    def __init__(
        self,
        *,
        p=None,
        q=None,
        bandwidth=None,
        regularization=None,
        iterations=None,
        metric="auto",
        metric_power=None,
        metric_rows=None,
        search=None,
        time_limit=None,
        validation=None,
        solver="auto",
        max_categories=None,
        memory_limit=None,
        device="cpu",
        random_state=None,
        verbose=False,
        n_jobs=None,
    ):
        self.p = p
        self.q = q
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.iterations = iterations
        self.metric = metric
        self.metric_power = metric_power
        self.metric_rows = metric_rows
        self.search = search
        self.time_limit = time_limit
        self.validation = validation
        self.solver = solver
        self.max_categories = max_categories
        self.memory_limit = memory_limit
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _table(self, X, y=None, reset=False):
        """X checked as scikit-learn does; a data frame keeps its categories and missing values."""
        X = _distinct(X)
        if not _tables.is_frame(X) or _all_numbers(X):
            options = {"dtype": FLOATS, "reset": reset, "ensure_all_finite": "allow-nan"}
            if y is None:
                return validate_data(self, X, **options), None
            return validate_data(self, X, y, multi_output=False, **options)
        _check_n_features(self, X, reset=reset)
        _check_feature_names(self, X, reset=reset)
        if reset and len(X) == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return X, None if y is None else column_or_1d(y, warn=True)

    def _training_table(self, X, y):
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        X, y = self._table(X, y, reset=True)
        if len(X) < 2:
            raise ValueError(f"{type(self).__name__} needs 2 rows or more, got n_samples=1")
        return X, y

    def _columns(self, X):
        """The columns by the names of training, or x0, x1, ... where it had none."""
        count = range(X.shape[1])
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in count])
        if _tables.is_frame(X):
            found = [values for _, values in _tables.pairs(X)]
        else:
            found = [X[:, i] for i in count]
        return dict(zip(_tables.unique([str(name) for name in names]), found, strict=True))

    def _fit(self, X, target, sample_weight, task, factors=None):
        """factors are those of the weights of rows, by the value of the target."""
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            X, target, weights = _weighted(X, target, weights)
        if factors is not None:
            of_classes = np.array([factors[label] for label in target])
            weights = of_classes if weights is None else weights * of_classes
            X, target, weights = _weighted(X, target, weights)
        if sample_weight is not None or factors is not None:
            if task == "classification" and len(np.unique(target)) < 2:
                raise ValueError("Only one class is left where the sample weights are not zero.")
        names = (
            "p q bandwidth regularization iterations metric metric_power metric_rows solver "
            "target_transform time_limit validation max_categories memory_limit"
        )
        options = {name: getattr(self, name, None) for name in names.split()}
        if not isinstance(self.random_state, numbers.Integral):
            options["seed"] = int(check_random_state(self.random_state).randint(2**31))
        else:
            options["seed"] = int(self.random_state)
        with _threads(self.n_jobs):
            self.machine_ = Machine.fit(
                self._columns(X),
                target,
                weights=weights,
                device=self.device,
                task=task,
                search=None if self.search is None else (1 if self.search else -1),
                progress=self._report if self.verbose else None,
                dtype="float32" if getattr(X, "dtype", None) == np.float32 else "float64",
                **options,
            )
        self.feature_importances_ = np.array(list(self.machine_.importances.values()))
        return self

    def _report(self, fraction, stage):
        print(f"[{type(self).__name__}] {100 * fraction:3.0f} % {stage}")

    def save(self, path):
        """Writes the model file of `gram fit`.  Raises OSError.

        >>> import os, tempfile
        >>> x = np.arange(20.0)[:, None]
        >>> machine = RFMRegressor(iterations=0, random_state=0).fit(x, x[:, 0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     machine.save(os.path.join(folder, "model"))  # which gram predict reads
        """
        check_is_fitted(self)
        self.machine_.save(path)


def _all_numbers(frame):
    """Of a data frame of pandas or polars."""
    if not hasattr(frame, "dtypes"):
        return False
    kinds = [k.is_numeric() if hasattr(k, "is_numeric") else getattr(k, "kind", "O") in "fiu"
             for k in frame.dtypes]  # fmt: skip
    return all(kinds)


def _weighted(X, target, weights):
    """Rows of weight zero are left out; whole weights are so many copies of a row, since they then
    count in the statistics, the bandwidth and the validation rows too."""
    take = X.iloc.__getitem__ if hasattr(X, "iloc") else X.__getitem__
    if (weights == np.round(weights)).all() and 0 < weights.sum() <= 10 * len(weights):
        rows = np.repeat(np.arange(len(weights)), weights.astype(int))
        return take(rows), target[rows], None
    rows = np.flatnonzero(weights > 0)
    if len(rows) == 0:
        raise ValueError("All sample weights are zero.")
    return take(rows), target[rows], weights[rows]


class RFMRegressor(RegressorMixin, _Machine):
    """A recursive feature machine: kernel ridge regression that learns which features matter.

    Parameters are those of gram.Machine.fit, and None selects its default (iterations=-1: no
    feature learning).  X may hold nan for missing values, and may be a data frame of pandas or
    polars with categories, texts and missing values.  Sample weights that are whole numbers count
    rows, and others divide the regularization.  device is "cpu", "cuda:0" and so on, time_limit is
    in seconds, and memory_limit in bytes.  verbose prints the progress.  n_jobs is the number of
    threads, of the whole process, while a method runs: -1 means all processors, and None what
    gram.get_threads tells.  Attributes: machine_ (gram.Machine), feature_importances_,
    n_features_in_.

    X is (n, features), of float32 or float64, and y is (n,); predictions are float64.  Raises
    ValueError like the checks of scikit-learn, and for values that are not possible.  After
    Radhakrishnan et al., Science 383 (2024).

    >>> x = np.random.default_rng(0).standard_normal((200, 3))
    >>> machine = RFMRegressor(iterations=2, random_state=0).fit(x, x[:, 0] ** 2)
    >>> int(machine.feature_importances_.argmax()), machine.predict(x[:4]).shape
    (0, (4,))
    """

    def __init__(
        self,
        *,
        p=None,
        q=None,
        bandwidth=None,
        regularization=None,
        iterations=None,
        metric="auto",
        metric_power=None,
        metric_rows=None,
        search=None,
        time_limit=None,
        validation=None,
        solver="auto",
        max_categories=None,
        memory_limit=None,
        device="cpu",
        random_state=None,
        verbose=False,
        target_transform="auto",
        n_jobs=None,
    ):
        super().__init__(
            p=p,
            q=q,
            bandwidth=bandwidth,
            regularization=regularization,
            iterations=iterations,
            metric=metric,
            metric_power=metric_power,
            metric_rows=metric_rows,
            search=search,
            time_limit=time_limit,
            validation=validation,
            solver=solver,
            max_categories=max_categories,
            memory_limit=memory_limit,
            device=device,
            random_state=random_state,
            verbose=verbose,
            n_jobs=n_jobs,
        )
        self.target_transform = target_transform

    def fit(self, X, y, sample_weight=None):
        """Fits X (n, features) to y (n,), with weights >= 0 of the rows."""
        X, y = self._training_table(X, y)
        y = np.asarray(y, np.float64)
        return self._fit(X, y, sample_weight, "regression")

    def predict(self, X):
        """(n,)"""
        check_is_fitted(self)
        X, _ = self._table(X)
        with _threads(self.n_jobs):
            return self.machine_.predict(self._columns(X), device=self.device)


class RFMClassifier(ClassifierMixin, _Machine):
    """A recursive feature machine for classification, with parameters as gram.sklearn.RFMRegressor.

    class_weight is None, "balanced" (all weights / (classes * weights of the class)) or a dict from
    classes to numbers of at least 0; a class that it does not name has 1.  The weights of the rows
    are multiplied by those of their classes.

    Attributes: classes_, machine_ (gram.Machine), feature_importances_, n_features_in_.

    >>> x = np.random.default_rng(0).standard_normal((100, 2))
    >>> machine = RFMClassifier(random_state=0).fit(x, np.where(x[:, 0] > 0, "right", "left"))
    >>> machine.predict([[3.0, 0.0]]).tolist(), machine.predict_proba([[3.0, 0.0]]).shape
    (['right'], (1, 2))
    """

    def __init__(
        self,
        *,
        p=None,
        q=None,
        bandwidth=None,
        regularization=None,
        iterations=None,
        metric="auto",
        metric_power=None,
        metric_rows=None,
        search=None,
        time_limit=None,
        validation=None,
        solver="auto",
        max_categories=None,
        memory_limit=None,
        device="cpu",
        random_state=None,
        verbose=False,
        n_jobs=None,
        class_weight=None,
    ):
        super().__init__(
            p=p,
            q=q,
            bandwidth=bandwidth,
            regularization=regularization,
            iterations=iterations,
            metric=metric,
            metric_power=metric_power,
            metric_rows=metric_rows,
            search=search,
            time_limit=time_limit,
            validation=validation,
            solver=solver,
            max_categories=max_categories,
            memory_limit=memory_limit,
            device=device,
            random_state=random_state,
            verbose=verbose,
            n_jobs=n_jobs,
        )
        self.class_weight = class_weight

    def fit(self, X, y, sample_weight=None):
        """Fits X (n, features) to y (n,) of any classes, with weights >= 0 of the rows."""
        X, y = self._training_table(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        target = np.array(self._labels(), object)[codes]
        if self.classes_.dtype.kind in "fiu":
            target = target.astype(np.float64)
        factors = None
        if self.class_weight is not None:
            factors = dict(zip(self._labels(), self._class_weights(y, sample_weight), strict=True))
        return self._fit(X, target, sample_weight, "classification", factors)

    def _class_weights(self, y, sample_weight):
        """One number for each of classes_; without rows of some weight a class has 1."""
        with np.errstate(divide="ignore"):
            found = compute_class_weight(
                self.class_weight, classes=self.classes_, y=y, sample_weight=sample_weight
            )
        if self.class_weight == "balanced":
            found[np.isinf(found)] = 1.0
        if not (np.isfinite(found).all() and (found >= 0).all()):
            raise ValueError(
                f"class_weight is {self.class_weight!r}, expected finite numbers of at least 0"
            )
        return found

    def _labels(self):
        """The classes as the machine names them: numbers or texts."""
        kind = float if self.classes_.dtype.kind in "fiu" else str
        return [kind(label) for label in self.classes_]

    def predict_proba(self, X):
        """Probabilities (n, classes), in the order of classes_; a class without weight has 0."""
        check_is_fitted(self)
        X, _ = self._table(X)
        with _threads(self.n_jobs):
            found = self.machine_.predict_proba(self._columns(X), device=self.device)
        labels = self._labels()
        out = np.zeros((len(found), len(labels)))
        out[:, [labels.index(label) for label in self.machine_.classes]] = found
        return out

    def predict(self, X):
        """(n,)"""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]
