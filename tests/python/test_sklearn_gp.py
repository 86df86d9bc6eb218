"""test_sklearn_gp.py - gram.sklearn.GaussianProcessRegressor beside scikit-learn's"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # without it one of the checks is skipped

import pickle

import gram
import numpy as np
import pytest
from gram.sklearn import GaussianProcessRegressor
from sklearn import gaussian_process
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic, WhiteKernel
from sklearn.gaussian_process.kernels import ConstantKernel as C
from sklearn.utils.estimator_checks import check_estimator

KERNELS = [
    RBF(1.5),
    C(2.0) * RBF([1.0, 2.0, 3.0]) + WhiteKernel(0.1),
    C(2.0, "fixed") * Matern([1.0, 2.0, 3.0], nu=0.5) + WhiteKernel(0.2),
    Matern(2.0, nu=1.5) * C(0.5) * C(1.5),
    WhiteKernel(0.1) + Matern([1.0, 2.0, 3.0], (0.1, 10), nu=2.5) + WhiteKernel(0.3),
    WhiteKernel(0.1) + C(1.5) * RationalQuadratic(1.2, 0.7),
    RationalQuadratic(1.2, 0.7, alpha_bounds="fixed"),
    Matern(1.3, nu=np.inf),
]


def table(n=60, noise=0.1):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    return x, np.sin(x[:, 0]) + noise * rng.normal(size=n)


def both(kernel, x, y, **options):
    return [
        one(kernel, **options).fit(x, y)
        for one in (gaussian_process.GaussianProcessRegressor, GaussianProcessRegressor)
    ]


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianProcessRegressor(),
        GaussianProcessRegressor("rational_quadratic", normalize_y=True),
        GaussianProcessRegressor("gaussian", solver="cg", random_state=0),
    ],
    ids=["default", "rational_quadratic", "cg"],
)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    others = [(r["check_name"], r["exception"]) for r in results if r["status"] != "passed"]
    assert not others and len(results) > 40


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("targets", [1, 2])
def test_likelihood_gradient_and_predictions(kernel, targets):
    x, y = table()
    y = y if targets == 1 else np.stack([y, x[:, 1]], axis=1)
    theirs, ours = both(kernel, x, y, alpha=np.linspace(0.01, 0.02, 60), optimizer=None,
                        normalize_y=targets == 2)  # fmt: skip
    value, gradient = theirs.log_marginal_likelihood(kernel.theta, True)
    mine = ours.log_marginal_likelihood(kernel.theta, True)
    np.testing.assert_allclose(mine[0], value, rtol=1e-12)
    np.testing.assert_allclose(mine[1], gradient, rtol=1e-10, atol=1e-10)
    assert ours.log_marginal_likelihood(kernel.theta) == mine[0]
    np.testing.assert_allclose(ours.L_, theirs.L_, atol=1e-12)
    z = np.random.default_rng(1).normal(size=(9, 3))
    for option in ("return_std", "return_cov"):
        for mine, other in zip(ours.predict(z, **{option: True}),
                               theirs.predict(z, **{option: True}), strict=True):  # fmt: skip
            assert mine.shape == other.shape
            np.testing.assert_allclose(mine, other, atol=1e-10)
    draws = ours.sample_y(z, 1200, 0)
    assert draws.shape == theirs.sample_y(z, 1200, 0).shape
    mean, cov = ours.predict(z, return_cov=True)
    rest = draws.reshape(9, targets, 1200) - mean.reshape(9, targets, 1)
    cov = cov.reshape(9, 9, targets)
    errors = np.sqrt(np.einsum("iij->ij", cov) / 1200)
    assert (np.abs(rest.mean(axis=2)) <= 5.5 * errors).all()
    products = rest[:, None] * rest[None]
    assert (np.abs(products.mean(axis=3) - cov) <= 5.5 * products.std(axis=3) / 1200**0.5).all()
    assert (ours.sample_y(z, 3, 0) == ours.sample_y(z, 3, 0)).all()


@pytest.mark.parametrize(
    "name", ["gaussian", "rbf", "laplace", "matern12", "matern32", "matern52", "rational-quadratic"]
)
def test_gradients_of_names_by_differences(name):
    x, y = table()
    process = GaussianProcessRegressor(name, alpha=1e-3, optimizer=None).fit(x, y)
    theta = process.kernel_.theta
    assert len(theta) == (6 if name == "rational-quadratic" else 5)
    gradient = process.log_marginal_likelihood(theta, True)[1]
    value = process.log_marginal_likelihood
    steps = 1e-5 * np.eye(len(theta))
    numeric = [(value(theta + s) - value(theta - s)) / 2e-5 for s in steps]
    np.testing.assert_allclose(gradient, numeric, atol=1e-6)


@pytest.mark.parametrize("which", ["diabetes", "friedman"])
def test_fits_are_those_of_scikit_learn(which):
    if which == "diabetes":
        x, y = load_diabetes(return_X_y=True)
        x, y = x[:160] / x.std(axis=0), y[:160]
        kernel = C() * RBF(np.full(10, 3.0), (0.1, 1e3)) + WhiteKernel(0.5)
    else:
        x, y = make_friedman1(150, n_features=5, noise=0.5, random_state=0)
        kernel = C() * Matern(np.ones(5), nu=2.5) + WhiteKernel(0.1)
    theirs, ours = both(kernel, x[::2], y[::2], normalize_y=True)
    np.testing.assert_allclose(ours.log_marginal_likelihood_value_,
                               theirs.log_marginal_likelihood_value_, atol=1e-5)  # fmt: skip
    np.testing.assert_allclose(ours.kernel_.theta, theirs.kernel_.theta, atol=1e-2)
    mine, other = (one.predict(x[1::2], return_std=True) for one in (ours, theirs))
    np.testing.assert_allclose(mine[0], other[0], atol=1e-3 * y.std())
    np.testing.assert_allclose(mine[1], other[1], atol=1e-3 * y.std())


def test_restarts_find_no_worse():
    x, y = table()
    kernel = RBF(50.0, (0.1, 100)) + WhiteKernel(1.0, (1e-3, 10))
    once, ours = (
        GaussianProcessRegressor(kernel, n_restarts_optimizer=n, random_state=0).fit(x, y)
        for n in (0, 4)
    )
    theirs = both(kernel, x, y, n_restarts_optimizer=4, random_state=0)[0]
    assert ours.log_marginal_likelihood_value_ >= once.log_marginal_likelihood_value_ - 1e-6
    np.testing.assert_allclose(ours.log_marginal_likelihood_value_,
                               theirs.log_marginal_likelihood_value_, atol=1e-4)  # fmt: skip


def test_a_prior_before_the_fit():
    z = np.random.default_rng(1).normal(size=(5, 3))
    kernel = C(2.0) * RBF(1.5) + WhiteKernel(0.1)
    ours, theirs = (
        one(kernel, n_targets=2)
        for one in (GaussianProcessRegressor, gaussian_process.GaussianProcessRegressor)
    )
    for option in ({"return_std": True}, {"return_cov": True}):
        for mine, other in zip(ours.predict(z, **option), theirs.predict(z, **option), strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-12)


def test_conjugate_gradients_estimate_the_same():
    x, y = table(400)
    kernel = C(2.0) * Matern([1.0, 2.0, 3.0], nu=2.5) + WhiteKernel(0.05)
    options = {"optimizer": None, "normalize_y": True}
    exact = GaussianProcessRegressor(kernel, **options).fit(x, y)
    near = GaussianProcessRegressor(kernel, solver="cg", probes=128, random_state=0, **options)
    near.fit(x, y)
    assert near.solver_ == "cg" and near.L_ is None
    value, gradient = exact.log_marginal_likelihood(kernel.theta, True)
    mine = near.log_marginal_likelihood(kernel.theta, True)
    assert mine[0] == near.log_marginal_likelihood(kernel.theta)
    assert abs(mine[0] - value) < 0.01 * 400
    np.testing.assert_allclose(mine[1], gradient, atol=0.05 * np.abs(gradient).max() + 4)
    z = np.random.default_rng(1).normal(size=(30, 3))
    for option in ("return_std", "return_cov"):
        for one, other in zip(near.predict(z, **{option: True}), exact.predict(z, **{option: True}),
                              strict=True):  # fmt: skip
            np.testing.assert_allclose(one, other, atol=1e-3)


def test_gradients_where_the_noise_is_small():
    # Probes of the identity were wrong by the size of the gradient here.
    x = np.random.default_rng(0).uniform(-2, 2, (700, 3))
    y = np.sin(2 * x[:, 0]) + np.cos(3 * x[:, 1]) + 0.3 * x[:, 2] ** 2
    kernel = C(59.0) * Matern([4.0, 3.6, 14.7], nu=2.5) + WhiteKernel(0.0093)
    exact = GaussianProcessRegressor(kernel, optimizer=None).fit(x, y)
    near = GaussianProcessRegressor(kernel, optimizer=None, solver="cg", random_state=0).fit(x, y)
    value, gradient = exact.log_marginal_likelihood(kernel.theta, True)
    mine = near.log_marginal_likelihood(kernel.theta, True)
    assert abs(mine[0] - value) < 2
    np.testing.assert_allclose(mine[1], gradient, atol=12)


def test_conjugate_gradients_learn():
    x, y = table(400, 0.2)
    process = GaussianProcessRegressor("matern52", solver="cg", random_state=0).fit(x, y)
    again = clone(process).fit(x, y)
    np.testing.assert_array_equal(process.kernel_.theta, again.kernel_.theta)
    exact = GaussianProcessRegressor("matern52").fit(x, y)
    reached = exact.log_marginal_likelihood(process.kernel_.theta)
    start = GaussianProcessRegressor("matern52", optimizer=None).fit(x, y)
    most = exact.log_marginal_likelihood_value_
    assert reached > start.log_marginal_likelihood_value_
    assert most - reached < 0.02 * (most - start.log_marginal_likelihood_value_)


def test_an_optimizer_of_the_callers_and_pickles():
    x, y = table()

    def optimizer(objective, start, bounds):
        value, gradient = objective(start)
        assert gradient.shape == start.shape and bounds.shape == (len(start), 2)
        assert objective(start, eval_gradient=False) == value
        return start, value

    process = GaussianProcessRegressor("rational-quadratic", optimizer=optimizer).fit(x, y)
    assert "RationalQuadratic" in repr(process.kernel_)
    process.optimizer = None
    again = pickle.loads(pickle.dumps(process))
    np.testing.assert_array_equal(again.predict(x), process.predict(x))


def test_what_is_refused():
    x, y = table()
    for kernel in (DotProduct(), RBF() + RBF(), C() + WhiteKernel(), Matern(nu=0.7), C() + RBF(),
                   RBF() * RBF()):  # fmt: skip
        with pytest.raises(ValueError, match="has no kernel"):
            GaussianProcessRegressor(kernel).fit(x, y)
    with pytest.raises(ValueError, match="kernel is 'cubic', expected a kernel of scikit-learn or"):
        GaussianProcessRegressor("cubic").fit(x, y)
    with pytest.raises(ValueError, match="alpha must be a scalar"):
        GaussianProcessRegressor(alpha=np.ones(7)).fit(x, y)
    with pytest.raises(ValueError, match="alpha is an array, expected one number"):
        GaussianProcessRegressor(alpha=np.ones(60), solver="cg").fit(x, y)
    with pytest.raises(ValueError, match="'solver' parameter"):
        GaussianProcessRegressor(solver="lu").fit(x, y)
    with pytest.raises(ValueError, match="`n_targets`"):
        GaussianProcessRegressor(n_targets=2).fit(x, y)
    with pytest.raises(ValueError, match="all bounds are finite"):
        kernel = RBF(length_scale_bounds=(1e-3, np.inf))
        GaussianProcessRegressor(kernel, n_restarts_optimizer=1).fit(x, y)
    twice = np.vstack([x, x])
    with pytest.raises(gram.LinAlgError, match="is not returning a positive definite matrix"):
        GaussianProcessRegressor(RBF(), alpha=0.0, optimizer=None).fit(twice, np.hstack([y, y]))
    with pytest.raises(RuntimeError, match="At most one of"):
        GaussianProcessRegressor().fit(x, y).predict(x, return_std=True, return_cov=True)
