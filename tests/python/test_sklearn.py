"""test_sklearn.py - gram.sklearn: scikit-learn's own checks, oracles, data frames"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # without it one of the checks is skipped

import contextlib
import pickle
import subprocess
import sys

import gram
import numpy as np
import pandas as pd
import pytest
from gram.sklearn import (
    KernelRidge,
    KernelTransformer,
    KNeighborsTransformer,
    RFMClassifier,
    RFMRegressor,
)
from scipy import sparse
from sklearn import kernel_ridge, neighbors
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits, make_blobs, make_friedman1
from sklearn.linear_model import RidgeCV
from sklearn.manifold import TSNE
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

ESTIMATORS = [
    KernelRidge(),
    KernelRidge(kernel="gaussian"),
    KernelRidge(kernel="laplace", bandwidth="median"),
    KernelRidge(kernel="rbf", alphas=[1e-3, 1.0]),
    KernelTransformer(),
    KernelTransformer(n_components=3, random_state=0),
    KNeighborsTransformer(),
    KNeighborsTransformer(mode="connectivity", n_neighbors=3, p=1),
    RFMRegressor(random_state=0),
    RFMClassifier(random_state=0),
    RFMClassifier(random_state=0, class_weight="balanced", n_jobs=1),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(estimator):
    # A row of weight 2 is left out whole, and two equal rows are not.
    expected = {}
    if getattr(estimator, "alphas", None):
        for form in ("dense", "sparse"):
            expected[f"check_sample_weight_equivalence_on_{form}_data"] = "errors of left out rows"
    results = check_estimator(
        estimator, on_skip=None, on_fail=None, expected_failed_checks=expected
    )
    results = [r for r in results if r["check_name"] not in expected]
    others = [(r["check_name"], r["exception"]) for r in results if r["status"] != "passed"]
    assert not others and len(results) > 40


def test_kernel_ridge_is_scikit_learns():
    x, y = make_friedman1(120, noise=0.1, random_state=0)
    y = np.stack([y, -2 * y], 1)
    weights = np.random.default_rng(0).uniform(0.1, 2, 120)
    gamma = 1 / (2 * 1.5**2)
    theirs = kernel_ridge.KernelRidge(alpha=0.3, kernel="rbf", gamma=gamma).fit(x, y, weights)
    ours = KernelRidge(alpha=0.3, kernel="gaussian", bandwidth=1.5).fit(x, y, weights)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(ours.predict(x[:7]), theirs.predict(x[:7]), rtol=1e-9)


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
@pytest.mark.parametrize("p", [1, 2])
def test_the_graph_is_scikit_learns(mode, p):
    x, z = make_friedman1(90, random_state=0)[0], make_friedman1(20, random_state=1)[0]
    theirs = neighbors.KNeighborsTransformer(mode=mode, n_neighbors=7, p=p).fit(x)
    ours = KNeighborsTransformer(mode=mode, n_neighbors=7, p=p).fit(x)
    for rows in (x, z):
        a, b = ours.transform(rows), theirs.transform(rows)
        assert a.format == "csr" and a.shape == b.shape
        np.testing.assert_array_equal(a.indptr, b.indptr)
        np.testing.assert_array_equal(a.indices, b.indices)
        np.testing.assert_allclose(a.data, b.data, rtol=1e-9, atol=1e-6)
    names = ours.get_feature_names_out()
    assert len(names) == 90 and names[1] == "kneighborstransformer1"
    with pytest.raises(ValueError, match="n_neighbors is 90"):
        KNeighborsTransformer(n_neighbors=90).fit(x)
    with pytest.raises(ValueError, match="mode is"):
        KNeighborsTransformer(mode="weights").fit(x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "metric",
    "euclidean l2 manhattan cityblock l1 chebyshev cosine correlation canberra braycurtis hamming "
    "nan_euclidean haversine".split(),
)
def test_the_graph_of_a_metric_is_scikit_learns(metric):
    x = make_friedman1(90, random_state=0)[0][:, : 2 if metric == "haversine" else 10]
    x = x.round(1) if metric == "hamming" else x
    theirs = neighbors.KNeighborsTransformer(n_neighbors=7, metric=metric).fit(x).transform(x)
    ours = KNeighborsTransformer(n_neighbors=7, metric=metric).fit(x).transform(x)
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_allclose(ours.data, theirs.data, rtol=1e-9, atol=3e-8)
    if metric != "hamming":  # they break ties as they come
        np.testing.assert_array_equal(ours.indices, theirs.indices)


def test_the_parameters_of_a_metric():
    x = make_friedman1(90, random_state=0)[0]
    weights = np.linspace(0.5, 2, 10)
    for metric, name in (("minkowski", "w"), ("seuclidean", "V"), ("canberra", "w")):
        ours = KNeighborsTransformer(n_neighbors=7, metric=metric, metric_params={name: weights})
        theirs = neighbors.KNeighborsTransformer(
            n_neighbors=7, metric=metric, metric_params={name: weights}
        )
        if metric == "canberra":
            d = np.sort(gram.cdist(x, metric=metric, weights=weights), 1)[:, :8]
        else:
            d = theirs.fit(x).transform(x).data.reshape(90, 8)
        np.testing.assert_allclose(ours.fit(x).transform(x).data.reshape(90, 8), d, atol=1e-7)
    with pytest.raises(ValueError, match="'w'"):
        KNeighborsTransformer(metric="haversine", metric_params={"w": 1}).fit_transform(x[:, :2])
    holes = np.where(x < 0.1, np.nan, x)
    with pytest.raises(ValueError, match="NaN"):
        KNeighborsTransformer().fit(holes)
    assert KNeighborsTransformer(metric="nan_euclidean").fit_transform(holes).nnz == 540
    with pytest.raises(ValueError, match="cosine distance is not"):
        KNeighborsTransformer(metric="cosine").fit_transform(np.vstack([x, 0 * x[:1]]))


@pytest.mark.filterwarnings("ignore")
def test_estimators_take_the_graph():
    x, y = make_blobs(150, centers=3, cluster_std=0.5, random_state=0)
    classifier = make_pipeline(
        KNeighborsTransformer(n_neighbors=9),
        neighbors.KNeighborsClassifier(5, metric="precomputed"),
    )
    assert classifier.fit(x[:100], y[:100]).score(x[100:], y[100:]) > 0.95
    labels = make_pipeline(
        KNeighborsTransformer(n_neighbors=20), DBSCAN(eps=0.7, metric="precomputed")
    ).fit_predict(x)
    assert (labels == DBSCAN(eps=0.7).fit_predict(x)).mean() > 0.95
    embedded = make_pipeline(
        KNeighborsTransformer(n_neighbors=40),
        TSNE(metric="precomputed", init="random", perplexity=10, max_iter=250, random_state=0),
    ).fit_transform(x)
    assert embedded.shape == (150, 2) and np.isfinite(embedded).all()


def test_kernel_transformer():
    x = np.random.default_rng(0).standard_normal((20, 3))
    transformer = KernelTransformer(bandwidth=1.5).fit(x)
    np.testing.assert_allclose(
        transformer.transform(x[:4]), rbf_kernel(x[:4], x, gamma=1 / 4.5), rtol=1e-10
    )
    few = KernelTransformer(n_components=5, random_state=0).fit(x)
    assert few.transform(x).shape == (20, 5) and len(few.get_feature_names_out()) == 5


def test_rfm_finds_the_features_that_matter():
    x, y = make_friedman1(400, n_features=10, noise=0.1, random_state=0)
    rfm = RFMRegressor(iterations=3, random_state=0).fit(x[:300], y[:300])
    plain = KernelRidge(kernel="laplace", bandwidth="median", alpha=0.01).fit(x[:300], y[:300])
    assert set(np.argsort(rfm.feature_importances_)[-4:]) <= set(range(5))
    assert rfm.score(x[300:], y[300:]) > plain.score(x[300:], y[300:])


def test_intervals_sets_and_decisions():
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (400, 3))
    y = np.sin(3 * x[:, 0]) + 0.3 * rng.standard_normal(400)
    regressor = RFMRegressor(random_state=0).fit(x[:150], y[:150])
    lower, upper = regressor.predict_interval(x[150:], 0.9).T
    assert 0.82 < ((lower <= y[150:]) & (y[150:] <= upper)).mean() < 0.97
    for classes in (2, 3):
        labels = np.digitize(y, np.linspace(-0.5, 0.5, classes - 1)) * 10
        weights = np.where(labels[:150] == 10 * (classes - 1), 0.0, 1.0) if classes == 3 else None
        classifier = RFMClassifier(random_state=0).fit(x[:150], labels[:150], weights)
        proba, decision = classifier.predict_proba(x), classifier.decision_function(x)
        assert np.isfinite(decision).all()
        if classes == 2:
            np.testing.assert_allclose(1 / (1 + np.exp(-decision)), proba[:, 1])
        else:
            np.testing.assert_allclose(np.exp(decision), proba, atol=1e-300)
        sets = classifier.predict_set(x, 0.8)
        assert sets.dtype == bool and sets.shape == (400, classes)
        assert sets[np.arange(400), proba.argmax(1)].all()
        assert not sets[:, -1].any() or classes == 2  # a class without weight


def test_classifier_of_texts_and_frames_with_categories(tmp_path):
    x, y = load_digits(return_X_y=True)
    names = np.array(["zero one two three four five six seven eight nine".split()]).ravel()[y]
    classifier = RFMClassifier(iterations=1, random_state=0).fit(x[:600], names[:600])
    assert classifier.score(x[600:900], names[600:900]) > 0.93
    np.testing.assert_allclose(classifier.predict_proba(x[:50]).sum(1), 1)
    assert classifier.classes_.tolist() == sorted(set(names))
    frame = pd.DataFrame(x[:300, 10:20], columns=[f"pixel{i}" for i in range(10)])
    frame["odd"] = pd.Categorical(np.where(y[:300] % 2, "odd", "even"))
    frame.loc[5, "odd"] = None
    frame.loc[7, "pixel3"] = np.nan
    of_frame = RFMClassifier(iterations=-1, random_state=0).fit(frame, names[:300])
    assert of_frame.feature_names_in_.tolist() == list(frame.columns)
    assert of_frame.machine_.features == list(frame.columns)
    copy = pickle.loads(pickle.dumps(of_frame))
    assert copy.predict(frame).tolist() == of_frame.predict(frame).tolist()
    of_frame.save(tmp_path / "model")
    loaded = gram.Machine.load(tmp_path / "model")
    assert loaded.predict(frame).tolist() == of_frame.predict(frame).tolist()
    with pytest.raises(ValueError, match="feature names"):
        of_frame.predict(frame.rename(columns={"odd": "even"}))


def test_weights_divide_the_regularization_or_count_rows():
    x, y = make_friedman1(60, random_state=0)
    whole = np.arange(60) % 3
    model = RFMRegressor(iterations=1, random_state=0)
    counted = model.fit(x, y, sample_weight=whole).predict(x)
    repeated = model.fit(x.repeat(whole, 0), y.repeat(whole)).predict(x)
    np.testing.assert_array_equal(counted, repeated)
    heavy = model.fit(x, y, sample_weight=np.where(np.arange(60) < 30, 10.5, 0.01)).predict(x)
    error = (heavy - y) ** 2
    assert error[:30].mean() < error[30:].mean()


def test_two_classes_by_either_loss():
    x = np.random.default_rng(0).standard_normal((200, 2))
    y = x[:, 0] + np.random.default_rng(1).standard_normal(200) > 0
    for loss in ("squared", "logistic"):
        machine = RFMClassifier(loss=loss, random_state=0).fit(x, y)
        said = machine.machine_.description["hyperparameters"].get("loss", "squared")
        assert said == loss and machine.score(x, y) > 0.7
        assert np.abs(machine.predict_proba(x).sum(1) - 1).max() < 1e-9
    with pytest.raises(ValueError, match="two classes"):
        RFMClassifier(loss="logistic").fit(x, np.arange(200) % 3)


def test_leaves_have_trees_and_a_temperature():
    x = np.random.default_rng(0).standard_normal((300, 2))
    machine = RFMRegressor(leaf_rows=100, trees=2, temperature=0.1, random_state=0)
    found = machine.fit(x, x[:, 0]).machine_.description
    assert (found["trees"], found["temperature"]) == (2, 0.1) and found["leaves"] > 2


def test_several_targets_are_learned_together():
    x, first = make_friedman1(150, random_state=0)
    y = np.column_stack([first, 1e3 * x[:, 0] - 7])
    options = {"p": 2, "q": 1, "bandwidth": 3.0, "regularization": 0.01, "iterations": -1}
    both = RFMRegressor(random_state=0, **options).fit(x, y)
    for k in range(2):
        alone = RFMRegressor(random_state=0, **options).fit(x, y[:, k])
        np.testing.assert_allclose(both.predict(x)[:, k], alone.predict(x), rtol=1e-6)
    assert both.predict_interval(x, 0.8).shape == (150, 2, 2)
    lower, upper = np.moveaxis(both.predict_interval(x, 0.8), 2, 0)
    assert (lower < both.predict(x)).all() and (both.predict(x) < upper).all()
    assert both.score(x, y) > 0.95
    chosen = RFMRegressor(random_state=0).fit(pd.DataFrame(x), pd.DataFrame(y, columns=["u", "v"]))
    assert chosen.predict(pd.DataFrame(x)).shape == (150, 2)
    column = RFMRegressor(random_state=0, **options).fit(x, y[:, :1])
    assert column.predict(x).shape == (150,)
    with pytest.raises(ValueError, match="1d array"):
        RFMClassifier().fit(x, (y > y.mean(0)).astype(int))


def test_centres_learn_from_weighted_rows():
    x, y = make_friedman1(300, random_state=0)
    wrong = np.arange(300) % 3 == 0
    options = {"random_state": 0, "centres": 40, "iterations": -1, "p": 2, "q": 1}
    errors = []
    for weights in (None, np.where(wrong, 1e-6, 1.25)):
        model = RFMRegressor(**options).fit(x, np.where(wrong, -y, y), sample_weight=weights)
        assert "held_out" in model.machine_.description
        errors.append(((model.predict(x) - y) ** 2).mean())
    assert errors[1] < 0.2 * errors[0]
    labels = np.where(y > np.median(y), "high", "low")
    classifier = RFMClassifier(**options, class_weight="balanced").fit(x, labels)
    assert "held_out" in classifier.machine_.description and classifier.score(x, labels) > 0.85


def nullable(rows):
    """Columns of pandas that know missing values, each with some."""
    times = rows // 3
    return {
        "Int64": pd.array([1, None, 3] * times, dtype="Int64"),
        "Float64": pd.array([1.5, None, 3] * times, dtype="Float64"),
        "boolean": pd.array([True, None, False] * times, dtype="boolean"),
        "string": pd.array(["u", None, "v"] * times, dtype="string"),
        "category": pd.Categorical(["u", None, "v"] * times),
    }


@pytest.mark.parametrize("kind", [*nullable(3), "string[pyarrow]", "int64[pyarrow]"])
def test_missing_values_of_every_kind_of_column(kind):
    x = np.random.default_rng(0).standard_normal(60)
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
        column = pd.array([3, None, 4] * 20 if "int" in kind else ["u", None, "v"] * 20, dtype=kind)
    else:
        column = nullable(60)[kind]
    frame = pd.DataFrame({"x": x, "y": column})
    model = RFMRegressor(random_state=0).fit(frame, x)
    assert model.score(frame, x) > 0.9 and model.machine_.features == ["x", "y"]
    labels = np.where(x > 0, "right", "left")
    weights = np.arange(60) % 4
    classifier = RFMClassifier(random_state=0).fit(frame, labels, sample_weight=weights)
    assert classifier.predict(frame).shape == (60,)


def test_nan_in_arrays_and_frames_of_numbers():
    x = np.random.default_rng(0).standard_normal((60, 3))
    y = x[:, 0].copy()
    x[5, 1] = np.nan
    of_array = RFMRegressor(random_state=0).fit(x, y)
    of_frame = RFMRegressor(random_state=0).fit(pd.DataFrame(x), y)
    np.testing.assert_array_equal(of_array.predict(x), of_frame.predict(pd.DataFrame(x)))
    machine = gram.Machine.fit(x, y, seed=0, dtype="float64")
    np.testing.assert_array_equal(of_array.predict(x), machine.predict(x))
    with pytest.raises(ValueError, match="infinity"):
        RFMRegressor().fit(np.where(np.isnan(x), np.inf, x), y)
    with pytest.raises(ValueError, match="NaN"):
        KernelRidge().fit(x, y)


def test_names_that_come_twice():
    x = np.random.default_rng(0).standard_normal((60, 3))
    for more in ({}, {"text": ["u", "v"] * 30}):
        frame = pd.concat([pd.DataFrame(x, columns=["a", "a", "b"]), pd.DataFrame(more)], axis=1)
        model = RFMRegressor(random_state=0).fit(frame, x[:, 1])
        assert model.machine_.features[:3] == ["a", "a.1", "b"]
        assert model.score(frame, x[:, 1]) > 0.9
        assert model.feature_importances_.argmax() == 1
        assert [t["rank"] for t in model.trials_] == list(range(1, len(model.trials_) + 1))


@pytest.mark.parametrize("estimator", [KernelRidge(), KernelTransformer(), KNeighborsTransformer()],
                         ids=repr)  # fmt: skip
def test_frames_of_numbers(estimator):
    x = np.random.default_rng(0).standard_normal((60, 3))
    frames = [
        pd.DataFrame(x, columns=["a", "a", "b"]),
        pd.DataFrame({name: pd.array(x[:, i], dtype="Float64") for i, name in enumerate("abc")}),
    ]
    with contextlib.suppress(ImportError):
        import polars

        frames.append(polars.DataFrame(x, schema=["a", "b", "c"]))
    method = "predict" if hasattr(estimator, "predict") else "transform"
    expected = getattr(estimator.fit(x, x[:, 0]), method)(x)
    for frame in frames:
        found = getattr(estimator.fit(frame, x[:, 0]), method)(frame)
        if sparse.issparse(found):
            found, wanted = found.toarray(), expected.toarray()
        else:
            wanted = expected
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert estimator.fit(frames[0], x[:, 0]).feature_names_in_.tolist() == ["a", "a.1", "b"]


def test_class_weights_are_weights_of_rows():
    x, y = make_blobs([50, 30], cluster_std=6.0, random_state=0)
    names = np.array(["no", "yes"])[y]
    rows = np.linspace(0.5, 1.7, 80)
    for given in (None, rows):
        total = np.bincount(y, given)
        for of_class, weights in (
            ({"yes": 3.5}, np.where(y == 1, 3.5, 1.0)),
            ({"yes": 0.25, "no": 0.5}, np.where(y == 1, 0.25, 0.5)),
            ("balanced", (total.sum() / (2 * total))[y]),
        ):
            ours = RFMClassifier(random_state=0, class_weight=of_class).fit(x, names, given)
            weights = weights * (1 if given is None else given)
            same = RFMClassifier(random_state=0).fit(x, names, weights)
            np.testing.assert_array_equal(ours.predict_proba(x), same.predict_proba(x))
    classes = np.append(names[1:], "rare")
    balanced = RFMClassifier(random_state=0, class_weight="balanced")
    balanced.fit(x, classes, np.append(np.ones(79), 0))  # no row of "rare" has a weight
    assert balanced.predict_proba(x)[:, 1].max() == 0
    lone = RFMClassifier(random_state=0, class_weight={"yes": 50.5}).fit(x, names)
    plain = RFMClassifier(random_state=0).fit(x, names)
    assert lone.predict_proba(x)[y == 1, 1].mean() > plain.predict_proba(x)[y == 1, 1].mean()
    for wrong, message in (
        ({"yes": -1.0}, "class_weight is {'yes': -1.0}"),
        ("even", "class_weight"),
        ({"maybe": 2.0}, "are not in class_weight"),
    ):
        with pytest.raises(ValueError, match=message):
            RFMClassifier(class_weight=wrong).fit(x, names)


def test_n_jobs_is_the_number_of_threads_of_a_method(monkeypatch):
    x, y = make_friedman1(60, random_state=0)
    before, seen = gram.get_threads(), []
    monkeypatch.setattr(gram, "set_threads", lambda count, set=gram.set_threads: (
        seen.append(count), set(count)))  # fmt: skip
    for estimator in (RFMRegressor(random_state=0), RFMClassifier(random_state=0),
                      KNeighborsTransformer()):  # fmt: skip
        method = "predict" if hasattr(estimator, "predict") else "transform"
        targets = y > y.mean()
        expected = getattr(estimator.fit(x, targets), method)(x)
        assert not seen
        found = getattr(estimator.set_params(n_jobs=3).fit(x, targets), method)(x)
        assert set(seen) == {3, before} and seen[-1] == before == gram.get_threads()
        seen.clear()
        if method == "predict":
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="n_jobs"):
        RFMRegressor(n_jobs=0).fit(x, y)
    with pytest.raises(ValueError, match="metric_rows"):
        RFMRegressor(n_jobs=3, metric_rows=-5).fit(x, y)
    assert gram.get_threads() == before


def test_frames_of_polars_and_tables_of_arrow():
    polars = pytest.importorskip("polars")
    x = np.random.default_rng(0).standard_normal(60)
    columns = {"x": x, "t": ["u", None, "v"] * 20, "n": [1, None, 3] * 20, "b": [True, None] * 30}
    frame = polars.DataFrame(columns)
    model = RFMRegressor(random_state=0).fit(frame, x)
    of_pandas = RFMRegressor(random_state=0).fit(pd.DataFrame(columns), x)
    np.testing.assert_array_equal(model.predict(frame), of_pandas.predict(pd.DataFrame(columns)))
    RFMClassifier(random_state=0).fit(frame, x > 0, sample_weight=np.arange(60) % 3)
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({name: columns[name] for name in "xtn"})
    assert gram.Machine.fit(table, x, seed=0).features == ["x", "t", "n"]


def plus(a, b, scale=1.0):
    return scale * float(a @ b) + 1


def sparse_plus(a, b):
    return (a @ b.T).sum() + 1.0


THEIRS = [
    {},
    {"gamma": 0.1},
    {"kernel": "rbf"},
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "rbf", "gamma": 0},
    {"kernel": "laplacian", "gamma": 0.3},
    {"kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": 2},
    {"kernel": "polynomial"},
    {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.1},
    {"kernel": "linear"},
    {"kernel": "cosine"},
    {"kernel": "chi2", "gamma": 0.5},
    {"kernel": plus, "kernel_params": {"scale": 0.5}},
]


@pytest.mark.parametrize("options", THEIRS, ids=str)
def test_kernel_ridge_takes_scikit_learns_kernels(options):
    x, y = make_friedman1(60, noise=0.1, random_state=0)
    y = np.stack([y, y**2], 1)
    for alpha in (2.0, [0.5, 2.0]):
        theirs = kernel_ridge.KernelRidge(alpha=alpha, **options).fit(x, y)
        ours = KernelRidge(alpha=alpha, **options).fit(x, y)
        np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(ours.predict(x[:9]), theirs.predict(x[:9]), rtol=1e-6)


def test_kernel_ridge_has_scikit_learns_parameters():
    theirs = kernel_ridge.KernelRidge().get_params()
    assert {name: KernelRidge().get_params()[name] for name in theirs} == theirs


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "poly", "sigmoid", "cosine",
                                    sparse_plus])  # fmt: skip
def test_kernel_ridge_of_sparse_rows(form, kernel):
    x, y = make_friedman1(40, random_state=0)
    x = np.where(x < 0.4, 0, x)
    weights = np.arange(40) % 3 / 2.0
    theirs = kernel_ridge.KernelRidge(0.5, kernel=kernel).fit(form(x), y, weights)
    ours = KernelRidge(0.5, kernel=kernel).fit(form(x), y, weights)
    np.testing.assert_allclose(ours.predict(form(x[:9])), theirs.predict(form(x[:9])), rtol=1e-8)
    if isinstance(kernel, str):
        np.testing.assert_allclose(ours.predict(x[:9]), theirs.predict(x[:9]), rtol=1e-8)
        features = KernelTransformer(kernel=kernel, n_components=5, random_state=0).fit(form(x))
        assert features.transform(form(x)).shape == (40, 5)
    with pytest.raises(TypeError, match="[Ss]parse"):
        KernelRidge(kernel="matern52").fit(form(x), y)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_singular_matrix_is_solved_by_least_squares_with_a_warning(weighted):
    x, y = make_friedman1(40, n_features=5, random_state=0)
    weights = np.linspace(0.5, 2, 40) if weighted else None
    for options in ({}, {"kernel": "sigmoid", "gamma": 1.0, "coef0": -3.0}):
        with pytest.warns(UserWarning, match="[Ss]ingular"):
            theirs = kernel_ridge.KernelRidge(0.0, **options).fit(x, y, weights)
        with pytest.warns(UserWarning, match="not positive definite with alpha = 0"):
            ours = KernelRidge(0.0, **options).fit(x, y, weights)
        np.testing.assert_allclose(ours.predict(x), theirs.predict(x), rtol=1e-5, atol=1e-5)


ALPHAS = [1e-3, 0.1, 1.0, 30.0]


@pytest.mark.parametrize("targets", [None, 1, 3])
@pytest.mark.parametrize("per_target", [False, True])
def test_alphas_choose_as_ridge_cv_does(targets, per_target, dtype):
    x, y = make_friedman1(60, noise=3.0, random_state=0)
    y = y - y.mean()
    if targets:
        y = np.stack([y, x[:, 3], np.random.default_rng(0).standard_normal(60)], 1)[:, :targets]
    theirs = RidgeCV(ALPHAS, fit_intercept=False, alpha_per_target=per_target).fit(x, y)
    ours = KernelRidge(alphas=ALPHAS, alpha_per_target=per_target)
    ours.fit(x.astype(dtype), y.astype(dtype))
    tolerance = 1e-4 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(ours.alpha_, theirs.alpha_, rtol=1e-12)
    np.testing.assert_allclose(ours.best_score_, theirs.best_score_, rtol=tolerance)
    np.testing.assert_allclose(ours.predict(x[:7].astype(dtype)), theirs.predict(x[:7]).reshape(
        7, *y.shape[1:]), rtol=10 * tolerance, atol=tolerance)  # fmt: skip
    assert ours.loo_.shape == y.shape and ours.loo_.dtype == dtype
    mean = ((y - ours.loo_) ** 2).mean(axis=0 if per_target else None)
    np.testing.assert_allclose(-mean, ours.best_score_, rtol=10 * tolerance)
    assert ours.loo_errors_.shape == ours.loo_spreads_.shape == (4, *y.shape[1:])
    ours.set_params(alphas=None).fit(x, y)
    assert not hasattr(ours, "loo_") and not hasattr(ours, "best_score_")


@pytest.mark.parametrize("kernel", ["rbf", "precomputed", plus])
def test_leave_one_out_predictions_are_those_of_fits_without_the_row(kernel):
    x, y = make_friedman1(24, noise=1.0, random_state=0)
    weights = np.arange(24) % 4 / 2.0
    given = rbf_kernel(x, gamma=0.1) if kernel == "precomputed" else x
    ours = KernelRidge(alphas=ALPHAS, kernel=kernel).fit(given, y, weights)
    again = KernelRidge(ours.alpha_, kernel=kernel)
    for i in range(24):
        without = np.where(np.arange(24) == i, 0.0, weights)
        expected = again.fit(given, y, without).predict(given[i : i + 1])[0]
        np.testing.assert_allclose(ours.loo_[i], expected, rtol=1e-7)
    error = (weights * (y - ours.loo_) ** 2).sum() / weights.sum()
    np.testing.assert_allclose(-ours.best_score_, error, rtol=1e-9)
    again.fit(given, y, weights)
    np.testing.assert_allclose(ours.dual_coef_, again.dual_coef_, rtol=1e-6, atol=1e-8)


def test_alphas_without_a_positive_definite_matrix():
    x, y = make_friedman1(40, n_features=5, random_state=0)
    ours = KernelRidge(alphas=[0.0, 1.0]).fit(x, y)
    assert ours.alpha_ == 1 and np.isnan(ours.loo_errors_).tolist() == [True, False]
    with pytest.raises(gram.LinAlgError, match="not positive definite for any of 1 alphas"):
        KernelRidge(alphas=[0.0]).fit(x, y)


def test_noise_does_not_make_it_worse_than_the_mean():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 30))
    y = x[:, 0] + np.sin(2 * x[:, 1]) + 3 * rng.standard_normal(3000)
    fixed = KernelRidge(0.01, kernel="laplace", bandwidth="median").fit(x[:1000], y[:1000])
    chosen = KernelRidge(alphas=np.logspace(-3, 2, 16), kernel="laplace", bandwidth="median")
    chosen.fit(x[:1000], y[:1000])
    assert fixed.score(x[1000:], y[1000:]) < 0 < 0.05 < chosen.score(x[1000:], y[1000:])
    left_out = 1 + chosen.best_score_ / y[:1000].var()
    assert abs(left_out - chosen.score(x[1000:], y[1000:])) < 0.05


@pytest.mark.parametrize(
    "options, message",
    [
        ({"alpha": -1.0}, r"alpha is or holds -1\.0, expected finite numbers of at least 0"),
        ({"alpha": [1.0, 2.0, 3.0]}, r"alpha has shape \(3,\), expected one number, or 2"),
        ({"alphas": []}, r"alphas has shape \(0,\), expected a list of 1 to 256 numbers"),
        ({"alphas": 1.0}, r"alphas has shape \(\), expected a list"),
        ({"alphas": [1.0, np.nan]}, "alphas is or holds nan"),
        ({"kernel": "matern"}, "kernel is 'matern', expected one of"),
        ({"bandwidth": 1.0}, "bandwidth is given, but the kernel 'linear' has none"),
        ({"kernel": "rbf", "bandwidth": 1.0}, "bandwidth is given, but the kernel 'rbf'"),
    ],
    ids=str,
)
def test_what_kernel_ridge_refuses(options, message):
    x, y = make_friedman1(20, random_state=0)
    with pytest.raises(ValueError, match=message):
        KernelRidge(**options).fit(x, np.stack([y, y], 1))


def test_kernel_ridge_of_a_matrix_of_kernels():
    x, y = make_friedman1(60, noise=0.1, random_state=0)
    k = rbf_kernel(x, gamma=0.2)
    weights = np.arange(60) % 3 / 2
    for given in (None, weights):
        whole = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.2).fit(x, y, given)
        ours = KernelRidge(alpha=0.1, kernel="precomputed").fit(k, y, given)
        np.testing.assert_allclose(ours.predict(k[:5]), whole.predict(x[:5]), rtol=1e-8)
    search = GridSearchCV(KernelRidge(kernel="precomputed"), {"alpha": [1e-3, 1e3]}, cv=3)
    assert search.fit(k, y).best_params_ == {"alpha": 1e-3}
    with pytest.raises(ValueError, match="60 by 59, expected a square matrix"):
        KernelRidge(kernel="precomputed").fit(k[:, 1:], y)


def test_gamma_of_a_kernel_that_has_none():
    x, y = make_friedman1(20, random_state=0)
    for kind, kernel in ((KernelRidge, "gaussian"), (KernelTransformer, "laplace")):
        estimator = kind(kernel=kernel, gamma=0.1)
        with pytest.raises(ValueError, match="gamma is given, but the kernel .* has none"):
            estimator.fit(x, y)


def test_options_of_a_fit(capsys):
    x, y = make_friedman1(60, random_state=0)
    y -= y.min() - 1
    plain = RFMRegressor(random_state=0).fit(x, y)
    log = RFMRegressor(random_state=0, target_transform="log", memory_limit=2**30).fit(x, y)
    assert not np.allclose(plain.predict(x), log.predict(x))
    assert not capsys.readouterr().out
    RFMClassifier(random_state=0, verbose=True).fit(x, y > y.mean())
    assert "[RFMClassifier]   0 % searching, 0 tried" in capsys.readouterr().out
    with pytest.raises(ValueError, match="^gram.Machine.fit: memory_limit"):
        RFMRegressor(memory_limit=-1).fit(x, y)


def test_in_a_pipeline_and_a_search():
    x, y = make_friedman1(80, random_state=0)
    pipeline = make_pipeline(KernelTransformer(n_components=10, random_state=0), KernelRidge())
    assert pipeline.fit(x, y).predict(x).shape == (80,)
    ridge = KernelRidge(kernel="gaussian")
    search = GridSearchCV(ridge, {"bandwidth": [0.001, 2.0]}, cv=2).fit(x, y)
    assert search.best_params_ == {"bandwidth": 2.0}


def test_only_asking_for_it_imports_scikit_learn():
    code = "import sys, gram; print('sklearn' in sys.modules, 'numpy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]
