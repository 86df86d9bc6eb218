"""gram.sklearn of Gaussian processes: regression with kernels whose numbers are learned."""

import numbers
import warnings

import gram
import numpy as np
from scipy import optimize
from sklearn import gaussian_process
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Hyperparameter,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

_NU = {0.5: "laplace", 1.5: "matern32", 2.5: "matern52", np.inf: "gaussian"}
_NAMES = "gaussian rbf laplace matern12 matern32 matern52 rational-quadratic"
# The rational quadratic kernel with a derivative by alpha, which s / L has not.
_BY_ALPHA = {
    "expression": "exp(-a * log(1 + s * s / (2 * a)))",
    "parameter": "a",
    "output": "parameter-derivative",
}


class _RationalQuadratic(RationalQuadratic):
    """scikit-learn's kernel with a length for each feature."""

    @property
    def hyperparameter_length_scale(self):
        count = np.size(self.length_scale)
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds, count)

    def __call__(self, X, Y=None, eval_gradient=False):
        if eval_gradient:
            raise ValueError("The gradient of this kernel is that of gram.sklearn alone.")
        return gram.kernel(X, Y, "rational-quadratic", alpha=self.alpha,
                           lengths=np.broadcast_to(self.length_scale, np.shape(X)[1:]))  # fmt: skip

    def __repr__(self):
        lengths = ", ".join(f"{length:.3g}" for length in np.ravel(self.length_scale))
        return f"RationalQuadratic(alpha={self.alpha:.3g}, length_scale=[{lengths}])"


def _named(name, x):
    """A kernel by its name: an amplitude, a length for each column, and noise."""
    lengths = np.std(x, axis=0) * x.shape[1] ** 0.5
    lengths[lengths == 0] = 1.0
    name = name.replace("_", "-")
    if name in ("gaussian", "rbf"):
        base = RBF(lengths)
    elif name == "rational-quadratic":
        base = _RationalQuadratic(lengths)
    elif name in _NAMES.split():
        base = Matern(lengths, nu={"matern32": 1.5, "matern52": 2.5}.get(name, 0.5))
    else:
        expected = f"a kernel of scikit-learn or one of {_NAMES}"
        raise ValueError(f"kernel is {name!r}, expected {expected}")
    return ConstantKernel() * base + WhiteKernel(0.1)


class _Form:
    """A kernel c k(x, y) + s I of scikit-learn: its leaves in the order of theta, c, k and s."""

    def __init__(self, kernel):
        self.leaves = []
        self.base = None
        self.amplitudes, self.noises = [], []
        self._sum(kernel)
        if self.base is None:
            raise _refusal(kernel)
        self.amplitude = float(np.prod([leaf.constant_value for leaf in self.amplitudes]))
        self.noise = float(sum(leaf.noise_level for leaf in self.noises))
        self.name, numbers = _function(self.base)
        self.options = {"kernel": self.name} | numbers

    def _sum(self, kernel):
        if isinstance(kernel, Sum):
            self._sum(kernel.k1)
            self._sum(kernel.k2)
        elif isinstance(kernel, WhiteKernel):
            self.leaves.append(kernel)
            self.noises.append(kernel)
        elif self.base is None:
            self._product(kernel)
            if self.base is None:
                raise _refusal(kernel)
        else:
            raise _refusal(kernel)

    def _product(self, kernel):
        if isinstance(kernel, Product):
            self._product(kernel.k1)
            self._product(kernel.k2)
            return
        if isinstance(kernel, ConstantKernel):
            self.amplitudes.append(kernel)
        elif self.base is None and isinstance(kernel, (RBF, RationalQuadratic)):
            self.base = kernel
        else:
            raise _refusal(kernel)
        self.leaves.append(kernel)

    def with_lengths(self, columns):
        """The options of gram.kernel, with a length for each column."""
        lengths = np.broadcast_to(np.asarray(self.base.length_scale, float), (columns,))
        return self.options | {"lengths": np.ascontiguousarray(lengths)}

    def by_alpha(self, columns):
        """The same for the derivative by the alpha of a rational quadratic kernel."""
        lengths = self.with_lengths(columns)["lengths"]
        return _BY_ALPHA | {"parameters": {"a": float(self.base.alpha)}, "lengths": lengths}

    def gradient(self, of):
        """In the order of theta, of numbers that `of` has by name, by the logarithm of each."""
        found = []
        for leaf in self.leaves:
            for number in leaf.hyperparameters:
                if number.fixed:
                    continue
                if number.name == "constant_value":
                    found.append(of["amplitude"])
                elif number.name == "noise_level":
                    found.append(of["noise"] * leaf.noise_level)
                elif number.name == "alpha":
                    found.append(of["alpha"] * leaf.alpha)
                else:
                    each = of["lengths"] * np.asarray(leaf.length_scale, float)
                    found.append(each if number.n_elements > 1 else each.sum())
        return np.concatenate([np.ravel(one) for one in found]) if found else np.zeros(0)

    def wants(self, name):
        """Whether a number of the base kernel is learned."""
        return any(n.name == name and not n.fixed for n in self.base.hyperparameters)


def _refusal(kernel):
    return ValueError(
        f"gram.sklearn.GaussianProcessRegressor has no kernel {kernel}: expected ConstantKernel() "
        "* base + WhiteKernel(), of which the first and the last may be missing, and the base is "
        "RBF, RationalQuadratic, or Matern with nu = 0.5, 1.5, 2.5 or inf"
    )


def _function(base):
    if isinstance(base, RationalQuadratic):
        return "rational-quadratic", {"alpha": float(base.alpha)}
    if not isinstance(base, Matern):
        return "gaussian", {}
    if base.nu not in _NU:
        raise _refusal(base)
    return _NU[base.nu], {}


class GaussianProcessRegressor(gaussian_process.GaussianProcessRegressor):
    """Gaussian process regression, in the place of scikit-learn's class of this name.

    Parameters, methods and attributes are those of scikit-learn.  kernel is one of its kernels
    ConstantKernel() * base + WhiteKernel(), of which the first and the last may be missing, with
    the base RBF, RationalQuadratic, or Matern with nu = 0.5, 1.5, 2.5 or inf; or the name of a
    base, "gaussian" (or "rbf"), "laplace" (or "matern12"), "matern32", "matern52" or
    "rational-quadratic", with an amplitude, a length for each feature and noise, all of which are
    learned.  The lengths then begin at the standard deviations of the features times the root of
    their number, the noise at 0.1.  None stands for ConstantKernel() * RBF().

    fit maximizes the logarithm of the marginal likelihood by its gradients in the logarithms of the
    kernel's numbers, as scikit-learn does, with L-BFGS-B.  With solver="cholesky" both are exact,
    by one factorisation in float64 for each step: time n^3, memory for 4 n^2 numbers.  With
    solver="cg" nothing of n by n is stored: solves are those of gram.krr_solve to the tolerance,
    the determinant is that of gram.kernel_logdet, with its preconditioner, and the traces of the
    gradients are means over the same solves with `probes` random vectors.  Likelihood and gradients
    are then estimates, the same in every call with one random_state; so is the maximum, and more
    probes bring it closer.  Standard deviations
    come from gram.krr_variance, at most sqrt(tolerance) of the prior's too large.  alpha must be
    one number then.  solver="auto" takes "cholesky" up to 6,000 rows.

    X is (n, features) and y is (n,) or (n, targets); both are converted to float64.  Attributes:
    kernel_, a kernel of scikit-learn with the numbers that were learned, X_train_, y_train_, L_
    (the Cholesky factor; None with "cg"), alpha_, log_marginal_likelihood_value_, solver_,
    n_features_in_.

    Raises ValueError like the checks of scikit-learn and for other kernels, and gram.LinAlgError if
    the matrix is not positive definite or a solve does not reach the tolerance.  After Rasmussen
    and Williams, Gaussian processes for machine learning, 2006, algorithm 2.1 and section 5.4.1;
    the estimates after Gardner et al., GPyTorch, arXiv:1809.11165.

    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> process = GaussianProcessRegressor(kernel="matern52").fit(x, np.sin(x[:, 0]))
    >>> mean, std = process.predict([[1.5], [30.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 0.01), bool(std[0] < std[1])
    (True, True)
    """

    _parameter_constraints = {
        **gaussian_process.GaussianProcessRegressor._parameter_constraints,
        "kernel": [None, str, Kernel],
        "solver": [StrOptions({"auto", "cholesky", "cg"})],
        "probes": [Interval(numbers.Integral, 1, None, closed="left")],
        "tolerance": [Interval(numbers.Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        kernel=None,
        *,
        alpha=1e-10,
        optimizer="fmin_l_bfgs_b",
        n_restarts_optimizer=0,
        normalize_y=False,
        copy_X_train=True,
        n_targets=None,
        random_state=None,
        solver="auto",
        probes=32,
        tolerance=1e-4,
    ):
        super().__init__(
            kernel,
            alpha=alpha,
            optimizer=optimizer,
            n_restarts_optimizer=n_restarts_optimizer,
            normalize_y=normalize_y,
            copy_X_train=copy_X_train,
            n_targets=n_targets,
            random_state=random_state,
        )
        self.solver = solver
        self.probes = probes
        self.tolerance = tolerance

    # ---- The fit -----------------------------------------------------------------------------

    def _start(self, x):
        """The kernel at the beginning."""
        if self.kernel is None:
            return ConstantKernel() * RBF()
        return _named(self.kernel, x) if isinstance(self.kernel, str) else clone(self.kernel)

    def _scale(self, y):
        """Takes the mean and the scale out of y, if they are wanted."""
        if self.normalize_y:
            self._y_train_mean = y.mean(axis=0)
            deviation = np.asarray(y.std(axis=0))
            flat = deviation < 10 * np.finfo(float).eps
            self._y_train_std = np.where(flat, 1.0, deviation)
        else:
            self._y_train_mean = np.zeros(y.shape[1:] or 1)
            self._y_train_std = np.ones(y.shape[1:] or 1)
        return (y - self._y_train_mean) / self._y_train_std

    def _check_alpha(self, rows):
        noise = np.ravel(np.asarray(self.alpha, float))
        if len(noise) not in (1, rows):
            raise ValueError(
                "alpha must be a scalar or an array with same number of entries as y. "
                f"({len(noise)} != {rows})"
            )
        if self.solver_ == "cg" and len(noise) > 1:
            raise ValueError("alpha is an array, expected one number with solver='cg'")
        return noise

    def fit(self, X, y):
        """Learns the numbers of the kernel from X (n, features) and y (n,) or (n, targets)."""
        self._validate_params()
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        y = np.asarray(y, np.float64)
        targets = y.shape[1] if y.ndim > 1 else 1
        if self.n_targets is not None and targets != self.n_targets:
            raise ValueError(
                "The number of targets seen in `y` is different from the parameter `n_targets`. "
                f"Got {targets} != {self.n_targets}."
            )
        self._rng = check_random_state(self.random_state)
        self.solver_ = self.solver
        if self.solver == "auto":
            self.solver_ = "cholesky" if len(X) <= 6000 else "cg"
        self._noise = self._check_alpha(len(X))
        self.kernel_ = self._start(X)
        _Form(self.kernel_)
        self.X_train_ = np.array(X, order="C") if self.copy_X_train else np.ascontiguousarray(X)
        self.y_train_ = self._scale(y)
        if self.solver_ == "cg":
            self._seed = int(self._rng.randint(2**31))
        if self.optimizer is not None and self.kernel_.n_dims > 0:
            self._maximize()
        else:
            self.log_marginal_likelihood_value_ = self.log_marginal_likelihood(self.kernel_.theta)
        self.L_, self.alpha_ = self._solve(_Form(self.kernel_))
        return self

    def _maximize(self):
        bounds = self.kernel_.bounds
        if self.n_restarts_optimizer > 0 and not np.isfinite(bounds).all():
            raise ValueError(
                "Multiple optimizer restarts (n_restarts_optimizer>0) requires that all bounds are "
                "finite."
            )
        starts = [self.kernel_.theta]
        for _ in range(self.n_restarts_optimizer):
            starts.append(self._rng.uniform(bounds[:, 0], bounds[:, 1]))
        optima = [self._optimum(start, bounds) for start in starts]
        theta, least = min(optima, key=lambda one: one[1])
        self.kernel_.theta = theta
        self.kernel_._check_bounds_params()
        self.log_marginal_likelihood_value_ = -least

    def _optimum(self, start, bounds):
        def negative(theta, eval_gradient=True):
            if not eval_gradient:
                return -self.log_marginal_likelihood(theta)
            value, gradient = self.log_marginal_likelihood(theta, eval_gradient=True)
            return -value, -gradient

        if callable(self.optimizer):
            return self.optimizer(negative, start, bounds=bounds)
        if self.optimizer != "fmin_l_bfgs_b":
            raise ValueError(f"Unknown optimizer {self.optimizer}.")
        found = optimize.minimize(negative, start, method="L-BFGS-B", jac=True, bounds=bounds)
        if found.status != 0 and self.solver_ == "cholesky":
            warnings.warn(f"L-BFGS-B ended early: {found.message}", ConvergenceWarning,
                          stacklevel=4)  # fmt: skip
        return found.x, found.fun

    # ---- The likelihood ----------------------------------------------------------------------

    def _ridge(self, form):
        """What is added to the kernel without its amplitude; alpha is one number."""
        return float(self._noise[0] + form.noise) / form.amplitude

    def _solve(self, form, right=None):
        """The factor, or None, and the solution for `right`, y if it is not given."""
        x, right = self.X_train_, self.y_train_ if right is None else right
        options = form.with_lengths(x.shape[1])
        noise = self._noise + form.noise
        if self.solver_ == "cg":
            # Residuals of |r| <= tolerance |b| and refinement: float64 throughout.
            alpha = gram.krr_solve(x, right, ridge=self._ridge(form), method="cg",
                                   tolerance=self.tolerance, **options)  # fmt: skip
            return None, alpha / form.amplitude
        k = form.amplitude * gram.kernel(x, **options)
        k[np.diag_indices_from(k)] += noise
        factor = np.empty_like(k)
        try:
            alpha = gram.solve_cholesky(k, right, factor=factor)
        except gram.LinAlgError as e:
            e.args = (
                f"The kernel, {self.kernel_}, is not returning a positive definite matrix. Try "
                f"gradually increasing the 'alpha' parameter of your estimator. {e}",
            )
            raise
        return np.tril(factor), alpha

    def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
        """The logarithm of the marginal likelihood of the training data, the sum over the targets,
        and its gradient, for the logarithms theta of the kernel's numbers (None: those that were
        learned).  It is -inf, and its gradient 0, where the matrix is not positive definite or a
        solve does not reach the tolerance.

        >>> x = np.linspace(0, 6, 40)[:, None]
        >>> process = GaussianProcessRegressor(kernel="gaussian").fit(x, np.sin(x[:, 0]))
        >>> value, gradient = process.log_marginal_likelihood(process.kernel_.theta, True)
        >>> value > 50, gradient.shape
        (True, (3,))
        """
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        if clone_kernel:
            kernel = self.kernel_.clone_with_theta(theta)
        else:
            kernel = self.kernel_
            kernel.theta = theta
        form = _Form(kernel)
        try:
            factor, alpha = self._solve(form)
            if factor is not None:
                logdet, sides = 2 * np.log(np.diagonal(factor)).sum(), None
            else:
                logdet, sides = self._determinant(form, eval_gradient)
        except gram.LinAlgError:
            return (-np.inf, np.zeros_like(theta)) if eval_gradient else -np.inf
        value = self._value(alpha, logdet)
        if not eval_gradient:
            return value
        if sides is None:
            return value, self._gradient(form, factor, alpha)
        return value, self._estimate(form, alpha, *sides)

    def _determinant(self, form, gradients):
        """An estimate of the logarithm of the determinant, and what gram.kernel_logdet has for its
        gradients: arrays whose products, summed over n, are the trace of K^-1 dK at the mean."""
        x = self.X_train_
        sides = [np.empty((len(x), self.probes)) for _ in range(2)] if gradients else [None, None]
        logdet = gram.kernel_logdet(
            x, probes=self.probes, seed=self._seed, steps=300, tolerance=0.1 * self.tolerance,
            left=sides[0], right=sides[1], regularization=self._ridge(form),
            **form.with_lengths(x.shape[1]))[0]  # fmt: skip
        if gradients:
            sides[1] /= form.amplitude
        return len(x) * np.log(form.amplitude) + logdet, sides

    def _value(self, alpha, logdet):
        y, n = self.y_train_, len(self.y_train_)
        targets = y.shape[1] if y.ndim > 1 else 1
        return float(-0.5 * (y * alpha).sum() - 0.5 * targets * (logdet + n * np.log(2 * np.pi)))

    def _gradient(self, form, factor, alpha):
        """By the weights (alpha alpha^T - K^-1) / 2 of dK."""
        x = self.X_train_
        columns = alpha.reshape(len(alpha), -1)
        weights = gram.solve_cholesky(factor, np.eye(len(x)), factored=True)
        weights *= -0.5 * columns.shape[1]
        weights += 0.5 * (columns @ columns.T)
        diagonal = np.diagonal(weights)
        of = {"noise": diagonal.sum()}
        # sum(weights * (K + D)) = (alpha^T y - n) / 2 for each target
        whole = 0.5 * ((alpha * self.y_train_).sum() - len(x) * columns.shape[1])
        of["amplitude"] = whole - (diagonal * (self._noise + form.noise)).sum()
        if form.wants("length_scale"):
            of["lengths"] = form.amplitude * gram.kernel_vjp(
                x, wrt="lengths", grad=weights, **form.with_lengths(x.shape[1])
            )
        if form.wants("alpha"):
            slope = gram.kernel(x, **form.by_alpha(x.shape[1]))
            of["alpha"] = form.amplitude * np.vdot(weights, slope)
        return form.gradient(of)

    def _estimate(self, form, alpha, z, w):
        """The same with K^-1 = E w z^T over the columns of w and z."""
        x = self.X_train_
        columns = alpha.reshape(len(alpha), -1)
        share = columns.shape[1] / z.shape[1]
        left = np.hstack([0.5 * columns, -0.5 * share * z])
        right = np.hstack([columns, w])
        trace = share * (z * w).sum()
        of = {"noise": 0.5 * ((columns**2).sum() - trace)}
        whole = 0.5 * ((alpha * self.y_train_).sum() - len(x) * columns.shape[1])
        of["amplitude"] = whole - of["noise"] * float(self._noise[0] + form.noise)
        if form.wants("length_scale"):
            of["lengths"] = form.amplitude * gram.kernel_matmul_vjp(
                x, v=right, grad=left, wrt="lengths", **form.with_lengths(x.shape[1])
            )
        if form.wants("alpha"):
            slope = gram.kernel_matmul(x, v=right, **form.by_alpha(x.shape[1]))
            of["alpha"] = form.amplitude * np.vdot(left, slope)
        return form.gradient(of)

    # ---- Predictions -------------------------------------------------------------------------

    def _prior(self, X, return_std, return_cov):
        """Of a process that has seen nothing."""
        form = _Form(self._start(X))
        targets = self.n_targets if self.n_targets is not None else 1
        mean = np.zeros((len(X), targets)).squeeze()
        if return_cov:
            cov = form.amplitude * gram.kernel(X, **form.with_lengths(X.shape[1]))
            cov[np.diag_indices_from(cov)] += form.noise
            return mean, cov if targets == 1 else np.repeat(cov[..., None], targets, axis=-1)
        if return_std:
            std = np.full(len(X), (form.amplitude + form.noise) ** 0.5)
            return mean, std if targets == 1 else np.repeat(std[:, None], targets, axis=-1)
        return mean

    def _covariance(self, form, X):
        """(m, m), of the function and the noise of the kernel."""
        options = form.with_lengths(X.shape[1])
        cross = form.amplitude * gram.kernel(self.X_train_, X, **options)
        if self.solver_ == "cg":
            inner = self._solve(form, cross)[1]
        else:
            inner = gram.solve_cholesky(self.L_, cross, factored=True)
        cov = form.amplitude * gram.kernel(X, **options) - cross.T @ inner
        cov[np.diag_indices_from(cov)] += form.noise
        return 0.5 * (cov + cov.T)

    def _variance(self, form, X):
        """(m,), the same."""
        options = form.with_lengths(X.shape[1])
        if self.solver_ == "cg":
            found = gram.krr_variance(self.X_train_, X, ridge=self._ridge(form), method="cg",
                                      tolerance=self.tolerance, **options)  # fmt: skip
            return form.amplitude * found + form.noise
        out = np.empty(len(X))
        for rows in range(0, len(X), 1024):
            cross = form.amplitude * gram.kernel(self.X_train_, X[rows : rows + 1024], **options)
            inner = gram.solve_cholesky(self.L_, cross, factored=True)
            out[rows : rows + 1024] = np.einsum("ij,ij->j", cross, inner)
        return np.maximum(form.amplitude - out, 0) + form.noise

    def sample_y(self, X, n_samples=1, random_state=0):
        """Draws of the process and its noise at X: (m, n_samples), or (m, targets, n_samples).

        After fit they are those of gram.krr_samples, with no covariance of all points at X: up to
        6,000 points of X and X_train_ together by a factorisation of their matrix, and more by
        random Fourier features.

        >>> x = np.linspace(0, 6, 40)[:, None]
        >>> process = GaussianProcessRegressor(kernel="matern52").fit(x, np.sin(x[:, 0]))
        >>> process.sample_y(np.linspace(0, 12, 500)[:, None], 3).shape
        (500, 3)
        """
        if not hasattr(self, "X_train_"):
            return super().sample_y(X, n_samples, random_state)
        X = np.ascontiguousarray(validate_data(self, X, dtype=np.float64, reset=False))
        form = _Form(self.kernel_)
        noise = (self._noise + form.noise) / form.amplitude
        if noise.min() <= 0:
            return super().sample_y(X, n_samples, random_state)
        rng = check_random_state(random_state)
        scale = form.amplitude**0.5
        given = form.with_lengths(X.shape[1]) | {
            "ridge": float(noise[0]),
            "row_weights": noise[0] / noise if len(noise) > 1 else None,
            "method": self.solver_,
            "tolerance": self.tolerance,
            # Rounding may allow a factorisation no such residual, and the process is as it was fit.
            "report": {} if self.solver_ == "cholesky" else None,
        }
        columns = self.y_train_.reshape(len(self.y_train_), -1)
        draws = np.empty((len(X), columns.shape[1], n_samples))
        for j, y in enumerate(columns.T):
            draws[:, j] = scale * gram.krr_samples(
                self.X_train_, y / scale, z=X, count=n_samples, seed=int(rng.randint(2**31)),
                **given)  # fmt: skip
        draws += form.noise**0.5 * rng.standard_normal(draws.shape)
        draws = draws * np.reshape(self._y_train_std, (-1, 1)) + np.reshape(
            self._y_train_mean, (-1, 1)
        )
        return draws if draws.shape[1] > 1 else draws[:, 0]

    def predict(self, X, return_std=False, return_cov=False):
        """The mean (m,) or (m, targets), and the standard deviations, of the same shape, or the
        covariances (m, m) or (m, m, targets).  Before fit they are those of the prior."""
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        X = np.ascontiguousarray(validate_data(self, X, dtype=np.float64, reset=False))
        if not hasattr(self, "X_train_"):
            return self._prior(X, return_std, return_cov)
        form = _Form(self.kernel_)
        options = form.with_lengths(X.shape[1])
        mean = form.amplitude * gram.kernel_matmul(X, self.X_train_, v=self.alpha_, **options)
        mean = self._y_train_std * mean + self._y_train_mean
        if mean.ndim > 1 and mean.shape[1] == 1:
            mean = mean[:, 0]
        if not (return_std or return_cov):
            return mean
        found = self._covariance(form, X) if return_cov else self._variance(form, X)
        found = found[..., None] * np.square(self._y_train_std)
        found = found[..., 0] if found.shape[-1] == 1 else found
        return mean, found if return_cov else np.sqrt(found)
