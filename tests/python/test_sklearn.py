"""test_sklearn.py - gram.sklearn: scikit-learn's own checks, oracles, data frames"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # without it one of the checks is skipped

import pickle
import subprocess
import sys

import gram
import numpy as np
import pandas as pd
import pytest
from gram.sklearn import KernelRidge, KernelTransformer, RFMClassifier, RFMRegressor
from sklearn import kernel_ridge
from sklearn.datasets import load_digits, make_friedman1
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

ESTIMATORS = [
    KernelRidge(),
    KernelRidge(kernel="laplace", bandwidth="median"),
    KernelTransformer(),
    KernelTransformer(n_components=3, random_state=0),
    RFMRegressor(random_state=0),
    RFMClassifier(random_state=0),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    others = [(r["check_name"], r["exception"]) for r in results if r["status"] != "passed"]
    assert not others and len(results) > 40


def test_kernel_ridge_is_scikit_learns():
    x, y = make_friedman1(120, noise=0.1, random_state=0)
    y = np.stack([y, -2 * y], 1)
    weights = np.random.default_rng(0).uniform(0.1, 2, 120)
    gamma = 1 / (2 * 1.5**2)
    theirs = kernel_ridge.KernelRidge(alpha=0.3, kernel="rbf", gamma=gamma).fit(x, y, weights)
    ours = KernelRidge(alpha=0.3, bandwidth=1.5).fit(x, y, weights)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(ours.predict(x[:7]), theirs.predict(x[:7]), rtol=1e-9)


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


def test_in_a_pipeline_and_a_search():
    x, y = make_friedman1(80, random_state=0)
    pipeline = make_pipeline(KernelTransformer(n_components=10, random_state=0), KernelRidge())
    assert pipeline.fit(x, y).predict(x).shape == (80,)
    search = GridSearchCV(KernelRidge(), {"bandwidth": [0.001, 2.0]}, cv=2).fit(x, y)
    assert search.best_params_ == {"bandwidth": 2.0}


def test_only_asking_for_it_imports_scikit_learn():
    code = "import sys, gram; print('sklearn' in sys.modules, 'numpy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]
