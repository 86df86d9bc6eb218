"""Estimators for scikit-learn: kernel ridge regression, Gaussian processes, feature machines,
kernels, neighbours.

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

import gram
import numpy as np
from gram import _tables
from gram._sklearn_gp import GaussianProcessRegressor
from gram._sklearn_kernels import FLOATS, KernelRidge, KernelTransformer
from gram.machine import Machine
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
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
    "GaussianProcessRegressor",
    "KNeighborsTransformer",
    "KernelRidge",
    "KernelTransformer",
    "RFMClassifier",
    "RFMRegressor",
]

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
        X = _tables.distinct(X)
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


def _keep(estimator, given):
    """Keeps the parameters of a constructor under their own names, as scikit-learn wants them."""
    vars(estimator).update({name: value for name, value in given.items() if name != "self"})


class _Machine(BaseEstimator):
    """What both recursive feature machines share."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _table(self, X, y=None, reset=False):
        """X checked as scikit-learn does; a data frame keeps its categories and missing values."""
        X = _tables.distinct(X)
        if not _tables.is_frame(X) or _all_numbers(X):
            options = {"dtype": FLOATS, "reset": reset, "ensure_all_finite": "allow-nan"}
            if y is None:
                return validate_data(self, X, **options), None
            several = isinstance(self, RegressorMixin)
            return validate_data(self, X, y, multi_output=several, **options)
        _check_n_features(self, X, reset=reset)
        _check_feature_names(self, X, reset=reset)
        if reset and len(X) == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return X, y

    def _training_table(self, X, y):
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        X, y = self._table(X, y, reset=True)
        y = np.asarray(y)
        if not (y.ndim == 2 and y.shape[1] > 1 and isinstance(self, RegressorMixin)):
            y = column_or_1d(y, warn=True)
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
            "p q bandwidth regularization iterations metric metric_power metric_rows ensemble "
            "centres solver target_transform time_limit validation max_categories memory_limit "
            "category_statistics leaf_rows trees temperature loss"
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
        self.trials_ = self.machine_.trials
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
    feature learning; centres=-1: no machine of few centres for a large table; leaf_rows, trees and
    temperature are those of the leaves of a table that is split).  X may hold nan for
    missing values, and may be a data frame of pandas or polars with categories, texts and missing
    values.  Sample weights that are whole numbers count rows, and others divide the regularization.
    device is "cpu", "cuda:0" and so on, time_limit is in seconds, and memory_limit in bytes.
    verbose prints the progress.  n_jobs is the number of threads, of the whole process, while a
    method runs: -1 means all processors, and None what gram.get_threads tells.  Attributes:
    machine_ (gram.Machine), feature_importances_, trials_ (the trials of machine_), n_features_in_.

    X is (n, features), of float32 or float64, and y is (n,), or (n, targets) for several targets
    that share the kernel, the metric and the regularization; predictions are float64 of the shape
    of y.  Raises ValueError like the checks of scikit-learn, and for values that are not possible.
    After Radhakrishnan et al., Science 383 (2024).

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
        ensemble=None,
        centres=None,
        search=None,
        time_limit=None,
        validation=None,
        solver="auto",
        max_categories=None,
        category_statistics="auto",
        leaf_rows=None,
        trees=None,
        temperature=None,
        memory_limit=None,
        device="cpu",
        random_state=None,
        verbose=False,
        target_transform="auto",
        n_jobs=None,
    ):
        _keep(self, locals())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X, y, sample_weight=None):
        """Fits X (n, features) to y (n,) or (n, targets), with weights >= 0 of the rows."""
        X, y = self._training_table(X, y)
        y = np.asarray(y, np.float64)
        return self._fit(X, y, sample_weight, "regression")

    def predict(self, X):
        """(n,), or (n, targets)

        >>> x = np.random.default_rng(0).standard_normal((100, 2))
        >>> machine = RFMRegressor(iterations=-1, random_state=0).fit(x, x ** 2)
        >>> machine.predict(x[:4]).shape
        (4, 2)
        """
        check_is_fitted(self)
        X, _ = self._table(X)
        with _threads(self.n_jobs):
            return self.machine_.predict(self._columns(X), device=self.device)

    def predict_interval(self, X, level=0.9):
        """Lower and upper ends (n, 2), or (n, targets, 2); see gram.Machine.predict_interval.

        >>> x = np.random.default_rng(0).standard_normal((100, 1))
        >>> machine = RFMRegressor(iterations=-1, random_state=0).fit(x, x[:, 0] ** 2)
        >>> machine.predict_interval(x[:2], 0.8).shape
        (2, 2)
        """
        check_is_fitted(self)
        X, _ = self._table(X)
        with _threads(self.n_jobs):
            return self.machine_.predict_interval(self._columns(X), level, device=self.device)


class RFMClassifier(ClassifierMixin, _Machine):
    """A recursive feature machine for classification, with parameters as gram.sklearn.RFMRegressor.

    class_weight is None, "balanced" (all weights / (classes * weights of the class)) or a dict from
    classes to numbers of at least 0; a class that it does not name has 1.  The weights of the rows
    are multiplied by those of their classes.  loss of two classes is "squared", "logistic", or the
    better one ("auto").

    Attributes: classes_, machine_ (gram.Machine), feature_importances_, trials_,
    n_features_in_.

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
        ensemble=None,
        centres=None,
        search=None,
        time_limit=None,
        validation=None,
        solver="auto",
        max_categories=None,
        category_statistics="auto",
        leaf_rows=None,
        trees=None,
        temperature=None,
        memory_limit=None,
        device="cpu",
        random_state=None,
        verbose=False,
        n_jobs=None,
        class_weight=None,
        loss="auto",
    ):
        _keep(self, locals())

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

    def predict_set(self, X, level=0.9):
        """Which of classes_ are in the set of each row (n, classes), of bool; a class without
        weight never is.  See gram.Machine.predict_set.

        >>> x = np.arange(40.0)[:, None]
        >>> machine = RFMClassifier(iterations=-1, random_state=0).fit(x, np.arange(40) // 20)
        >>> machine.predict_set([[0.0], [39.0]])
        array([[ True, False],
               [False,  True]])
        """
        check_is_fitted(self)
        X, _ = self._table(X)
        with _threads(self.n_jobs):
            places = self.machine_.predict_set(self._columns(X), level, device=self.device)
        labels = self._labels()
        out = np.zeros((len(places), len(labels)), bool)
        out[:, [labels.index(label) for label in self.machine_.classes]] = places > 0
        return out

    def decision_function(self, X):
        """Logarithms of the probabilities (n, classes); of two classes, the logarithm of the odds
        of the second (n,).

        >>> x = np.arange(40.0)[:, None]
        >>> machine = RFMClassifier(iterations=-1, random_state=0).fit(x, np.arange(40) // 20)
        >>> (machine.decision_function([[0.0], [39.0]]) > 0).tolist()
        [False, True]
        """
        found = np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))
        return found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found

    def predict(self, X):
        """(n,)"""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]
