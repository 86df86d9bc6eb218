"""programs.py - small programs of other packages' users, each with libgram and without it

A program is a function of `ours` (True: with libgram; False: what its authors write without it) and
of its size.  It returns the number that it is written for, so that the two can be compared: they do
the same work, on the same data.  `bench/compare.py programs` times them, and
tests/python/test_programs.py checks that they agree.
"""

import functools
import multiprocessing

import numpy as np


def tutorial(ours, points=100, steps=50, device="cpu"):
    """GPyTorch's regression tutorial: a GP with an RBF kernel learns sin(2 pi x) by 50 steps of
    Adam.  The loss per point at the end."""
    import gpytorch
    import gram.gpytorch
    import torch

    torch.manual_seed(0)
    x = torch.linspace(0, 1, points, device=device)
    y = torch.sin(2 * torch.pi * x) + 0.2 * torch.randn(points, device=device)
    rbf = gram.gpytorch.RBFKernel if ours else gpytorch.kernels.RBFKernel

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(rbf())

        def forward(self, points):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(points), self.covar_module(points)
            )

    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device)
    model = Model(likelihood).to(device)
    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -marginal(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def search(ours, rows=400, folds=3, jobs=1):
    """scikit-learn: a pipeline of a scaler and kernel ridge regression in a grid search.  The best
    score of the folds, R^2."""
    from gram.sklearn import KernelRidge as Ours
    from sklearn.kernel_ridge import KernelRidge as Theirs
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 8))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.standard_normal(rows)
    gammas = np.array([0.02, 0.05, 0.1])
    if ours:  # exp(-d^2 / (2 bandwidth^2)) for exp(-gamma d^2)
        ridge, widths = Ours(kernel="gaussian"), {"bandwidth": list((2 * gammas) ** -0.5)}
    else:
        ridge, widths = Theirs(kernel="rbf"), {"gamma": list(gammas)}
    grid = {f"{type(ridge).__name__.lower()}__{k}": v for k, v in widths.items()}
    grid[f"{type(ridge).__name__.lower()}__alpha"] = [0.01, 0.1, 1.0]
    pipeline = make_pipeline(StandardScaler(), ridge)
    return GridSearchCV(pipeline, grid, cv=folds, n_jobs=jobs).fit(x, y).best_score_


def evidence(ours, points=200, steps=20):
    """JAX: the evidence of a GP and its gradient by its lengthscale, compiled, by gradient
    descent.  The negative logarithm of the evidence per point at the end."""
    import gram.jax
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.uniform(0, 4, (points, 2)), jnp.float32)
    y = jnp.asarray(np.sin(x[:, 0]) * np.cos(x[:, 1]), jnp.float32)

    def squares(x):
        return jnp.sum((x[:, None] - x) ** 2, -1)

    def kernel(length):
        if ours:
            return gram.jax.kernel(x, kernel="gaussian", bandwidth=length)
        return jnp.exp(-squares(x) / (2 * length**2))

    def loss(logarithm):
        k = kernel(jnp.exp(logarithm)) + 1e-2 * jnp.eye(points)
        factor = jnp.linalg.cholesky(k)
        z = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        return (z @ z / 2 + jnp.log(jnp.diag(factor)).sum()) / points

    step = jax.jit(jax.value_and_grad(loss))
    at = jnp.float32(-1.0)
    for _ in range(steps):
        value, slope = step(at)
        at = at - 0.1 * slope
    return float(value)


def training(ours, name="Muon", width=64, steps=20, backend="eager"):
    """A loop that torch.compile has compiled: a network of two layers, trained by an optimizer of
    gram.optim; without libgram by torch.optim's optimizer of this name, else by AdamW.  The loss at
    the end."""
    import gram.optim
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width, bias=False), torch.nn.Tanh(),
        torch.nn.Linear(width, 8, bias=False),
    )  # fmt: skip
    x = torch.randn(128, width)
    y = torch.tanh(x @ torch.randn(width, 8) / width**0.5)
    place = gram.optim if ours else torch.optim
    kind = getattr(place, name, torch.optim.AdamW)
    arguments = (model,) if ours and name in ("KFAC", "EKFAC") else (model.parameters(),)
    optimizer = kind(*arguments)
    forward = torch.compile(lambda: torch.nn.functional.mse_loss(model(x), y), backend=backend)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        optimizer.step()
    return loss.item()


def _distances(function, seed):
    x = np.random.default_rng(seed).standard_normal((300, 16))
    return float(function(x, x).sum())


def _ours(seed):
    import gram

    return _distances(lambda x, y: gram.cdist(x, y, 1.5), seed)


def _theirs(seed):
    from scipy.spatial.distance import cdist

    return _distances(lambda x, y: cdist(x, y, "minkowski", p=1.5), seed)


def pool(ours, method="fork", tasks=4):
    """multiprocessing: distances of some tables by two processes.  Their sum."""
    work = _ours if ours else _theirs
    if method == "fork":
        work(0)  # so that the library and its threads are there before the fork
    with multiprocessing.get_context(method).Pool(2) as processes:
        return sum(processes.map(work, range(tasks)))


PROGRAMS = {
    "GPyTorch's regression tutorial": tutorial,
    "scikit-learn, pipeline in a search": search,
    "scikit-learn, the same with n_jobs=2": functools.partial(search, jobs=2),
    "JAX, jit and grad of a GP": evidence,
    "torch.compile, Muon": training,
    "multiprocessing, fork": pool,
    "multiprocessing, spawn": functools.partial(pool, method="spawn"),
}
