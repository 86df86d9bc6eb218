"""gram.sklearn of fixed kernels: kernel ridge regression, and kernel values as features."""

import warnings

import gram
import numpy as np
from gram import _core, _tables
from gram.compat.sklearn import pairwise_kernels
from scipy import linalg, sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

FLOATS = [np.float64, np.float32]
# scikit-learn's names of kernels; the first two have its gamma for a width.
_OTHERS = {"rbf": "gaussian", "laplacian": "laplace", "poly": "polynomial"}
# scikit-learn's kernels, and those of them that it has of sparse rows.
_OF_SPARSE = {"linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"}
_THEIRS = _OF_SPARSE | {"chi2", "additive_chi2"}


class _Kernel(BaseEstimator):
    """What estimators with a fixed kernel share: its parameters, and the bandwidth of the data."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = callable(self.kernel) or self.kernel in _OF_SPARSE
        return tags

    def _points(self, X, y="no_validation", reset=False):
        """X, and y if there is one, as scikit-learn checks them."""
        X = _tables.distinct(X)
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


for _class in (KernelRidge, KernelTransformer):
    _class.__module__ = "gram.sklearn"
