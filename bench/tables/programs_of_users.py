"""tables/processes.py - GP training beside GPyTorch, and small programs of other packages' users

A GP's step is one of Adam on the exact marginal likelihood, with GPyTorch's defaults: Cholesky's
factorisation up to 800 points, beyond them conjugate gradients with a pivoted Cholesky
preconditioner and the same random probes.  The loss of the last step tells that both learn alike.
Programs are those of bench/programs.py, with libgram and without it, in processes of their own.
"""

import types

import programs
from core.place import NotOffered
from core.tables import Call, Operation, Problem, Row, both

KERNELS = {"rbf": ("RBFKernel", {}), "matern15": ("MaternKernel", {"nu": 1.5}),
           "matern25": ("MaternKernel", {"nu": 2.5})}  # fmt: skip


class GpStep(Operation):
    name = "gp_step"

    def make(self, place, kernel, n, k=4, dtype="float32"):
        try:
            import gpytorch  # noqa: F401 - what trains, with either package's kernels
            import torch
        except ImportError as absent:
            raise NotOffered(str(absent)) from None
        torch.set_num_threads(place.threads)
        rng = torch.Generator().manual_seed(n)
        x = torch.rand(n, k, generator=rng, dtype=torch.float64)
        noise = 0.1 * torch.randn(n, generator=rng, dtype=torch.float64)
        x, y = (t.to(place.device, getattr(torch, dtype))
                for t in (x, torch.sin(6 * x.sum(-1)) + noise))  # fmt: skip
        q = Problem(x=x, y=y)
        q.trainer = types.MethodType(trainer, q)
        return q

    def ours(self, q):
        from gram import gpytorch

        return q.trainer(gpytorch)


def trainer(q, package):
    """A step of training with the kernels of a module."""
    import gpytorch
    import torch

    name, options = KERNELS[q.kernel]
    kernel = getattr(package, name)(**options)

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(q.x, q.y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    model = Model().to(q.x)
    model.train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    told = {"steps": 0}

    def run():
        torch.manual_seed(told["steps"])  # of the probes
        optimizer.zero_grad()
        loss = -marginal(model(q.x), q.y)
        loss.backward()
        optimizer.step()
        told["steps"] += 1
        return loss

    return Call(run, tell=lambda loss: {"first loss": loss.item()})


class Program(Operation):
    """A program of users: it returns the number that it is written for."""

    name, limits = "program", {}

    def make(self, place, program):
        return Problem(run=programs.PROGRAMS[program])

    def ours(self, q):
        return self.call(q, True)

    @staticmethod
    def call(q, ours):
        return Call(lambda: q.run(ours), tell=lambda result: {"result": result})


def gp_rows():
    step = GpStep()
    for kernel in KERNELS:
        for n in (500, 2000, 10000):
            yield both(f"{kernel}, {n} points", step, kernel=kernel, n=n)


SUBJECTS = {
    "gp": list(gp_rows()),
    "programs": [Row(name, Program(), {"program": name}, apart=True) for name in programs.PROGRAMS],
}
