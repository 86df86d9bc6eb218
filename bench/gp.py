#!/usr/bin/env python3
"""gp.py - one training step of an exact Gaussian process: gram.torch beside GPyTorch

    PYTHONPATH=build/python python3 bench/gp.py 1e4 1e5 --device cuda

A step is the logarithm of the marginal likelihood with its gradients by 10 lengths, the noise and
the amplitude, of a Matern-5/2 kernel of 10 columns, in float32.  Columns are normal, the targets
sin(x1) + x2 x3 / 2 + |x4| / 2 and noise of 0.3.  A line of JSON tells each number of rows and each
library:

library, n, device
seconds    of the quickest of some steps, after one that is not timed; on a GPU with synchronisation
value      of the likelihood over n, for which both have the same probes and tolerance
gradients  of it by the logarithms of the lengths, the noise and the amplitude
error      with --exact: what value and gradients (relative to their norm) are off, by a
           factorisation in float64
report     of gram: rank, products and standard error
bytes      on a GPU: the most that PyTorch had allocated (gram's own scratch is not in it)

--libraries gram,gpytorch,keops   which; keops: GPyTorch with kernels of KeOps
--method NAME                     of gram.torch: auto, cholesky, cg
--probes N, --tolerance T         of both (default: 10 and 0.01)
--rank N                          of gram's preconditioner (default: its own choice), and
--preconditioner N                of GPyTorch's (default: 15, as it is there)
--repeat N                        steps that are timed (default: 3)
"""

import argparse
import contextlib
import json
import math
import time

import torch

import gram.torch

WIDTH = 10


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="+", type=lambda text: int(float(text)))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--libraries", default="gram,gpytorch")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--probes", type=int, default=10)
    parser.add_argument("--tolerance", type=float, default=0.01)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--preconditioner", type=int, default=15)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--exact", action="store_true")
    return parser.parse_args()


def data(n, device):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, WIDTH, generator=generator)
    y = torch.sin(x[:, 0]) + x[:, 1] * x[:, 2] / 2 + x[:, 3].abs() / 2
    y = y - y.mean() + 0.3 * torch.randn(n, generator=generator)
    return x.to(device), y.to(device)


def start(x):
    """The logarithms of lengths, noise and amplitude."""
    lengths = torch.linspace(2.0, 5.0, WIDTH).log()
    return torch.cat([lengths, torch.tensor([math.log(0.1), 0.0])]).to(x).requires_grad_()


class Exact:
    """By a factorisation in PyTorch alone."""

    def __init__(self, x, y, args):
        self.x, self.y = x, y

    def value(self, logs):
        lengths, noise, amplitude = logs[:WIDTH].exp(), logs[-2].exp(), logs[-1].exp()
        x = self.x / lengths
        square = (x * x).sum(1)
        d = (square[:, None] + square - 2 * x @ x.T).clamp_min(1e-20).sqrt() * math.sqrt(5)
        a = amplitude * (1 + d + d * d / 3) * torch.exp(-d)
        a = a + noise * torch.eye(len(x), dtype=x.dtype, device=x.device)
        factor = torch.linalg.cholesky(a)
        alpha = torch.cholesky_solve(self.y[:, None], factor)[:, 0]
        logdet = 2 * factor.diagonal().log().sum()
        return -0.5 * (self.y @ alpha + logdet + len(x) * math.log(2 * math.pi))

    def step(self, logs):
        value = self.value(logs)
        return value.item(), torch.autograd.grad(value, logs)[0]


class Gram(Exact):
    def __init__(self, x, y, args):
        super().__init__(x, y, args)
        self.options = {"method": args.method, "probes": args.probes, "rank": args.rank}
        self.options["tolerance"] = args.tolerance
        self.report = {}

    def value(self, logs):
        lengths, noise, amplitude = logs[:WIDTH].exp(), logs[-2].exp(), logs[-1].exp()
        return gram.torch.log_marginal_likelihood(
            self.x, self.y, "matern52", lengths=lengths, noise=noise, amplitude=amplitude,
            report=self.report, **self.options,
        )  # fmt: skip


class GPyTorch(Exact):
    def __init__(self, x, y, args, keops=False):
        import gpytorch

        kernels = gpytorch.kernels.keops if keops else gpytorch.kernels
        base = kernels.MaternKernel(nu=2.5, ard_num_dims=WIDTH)

        class Model(gpytorch.models.ExactGP):
            def __init__(self, likelihood):
                super().__init__(x, y, likelihood)
                self.mean_module = gpytorch.means.ZeroMean()
                self.covar_module = gpytorch.kernels.ScaleKernel(base)

            def forward(self, x):
                return gpytorch.distributions.MultivariateNormal(
                    self.mean_module(x), self.covar_module(x)
                )

        super().__init__(x, y, args)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood().to(x)
        self.model = Model(self.likelihood).to(x)
        self.model.train()
        self.mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self.model)
        settings = gpytorch.settings
        self.settings = [
            settings.cg_tolerance(args.tolerance), settings.num_trace_samples(args.probes),
            settings.max_preconditioner_size(args.preconditioner),
            settings.max_cg_iterations(2000),
        ]  # fmt: skip
        if args.method == "cg":
            self.settings.append(settings.max_cholesky_size(1))

    def step(self, logs):
        kernel, likelihood = self.model.covar_module, self.likelihood
        kernel.base_kernel.lengthscale = logs[:WIDTH].detach().exp()
        likelihood.noise = logs[-2].detach().exp()
        kernel.outputscale = logs[-1].detach().exp()
        raw = [kernel.base_kernel.raw_lengthscale, likelihood.noise_covar.raw_noise]
        raw.append(kernel.raw_outputscale)
        constraints = [kernel.base_kernel.raw_lengthscale_constraint]
        constraints += [likelihood.noise_covar.raw_noise_constraint]
        constraints += [kernel.raw_outputscale_constraint]
        with contextlib.ExitStack() as stack:
            for setting in self.settings:
                stack.enter_context(setting)
            value = self.mll(self.model(self.x), self.y) * len(self.x)
            grads = torch.autograd.grad(value, raw)
        found = []
        for parameter, constraint, grad in zip(raw, constraints, grads, strict=True):
            at = parameter.detach().clone().requires_grad_()
            log = constraint.transform(at).log()
            found.append((grad / torch.autograd.grad(log.sum(), at)[0]).flatten())
        return value.item(), torch.cat(found)


def run(name, n, args):
    x, y = data(n, args.device)
    logs = start(x)
    cuda = x.device.type == "cuda"
    if name not in ("gram", "gpytorch", "keops"):
        raise ValueError(f"{name!r} is no library, expected gram, gpytorch or keops")
    one = Gram(x, y, args) if name == "gram" else GPyTorch(x, y, args, name == "keops")
    seconds = math.inf
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    for i in range(args.repeat + 1):
        if cuda:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        value, grads = one.step(logs)
        if cuda:
            torch.cuda.synchronize()
        if i > 0:
            seconds = min(seconds, time.perf_counter() - begin)
    told = {"seconds": seconds, "value": value / n, "gradients": (grads / n).tolist()}
    if name == "gram":
        told["report"] = one.report
    if cuda:
        told["bytes"] = torch.cuda.max_memory_allocated()
    if args.exact:
        wide = Exact(x.double(), y.double(), args)
        exact, of_exact = wide.step(logs.detach().double().requires_grad_())
        off = (grads.double() - of_exact).norm() / of_exact.norm()
        told["error"] = {"value": abs(value - exact) / n, "gradients": off.item()}
    return told


def main():
    args = parse()
    for n in args.rows:
        for name in args.libraries.split(","):
            told = {"library": name, "n": n, "device": args.device, "probes": args.probes}
            told["tolerance"] = args.tolerance
            try:
                told |= run(name, n, args)
            except (ImportError, RuntimeError, ValueError, gram.LinAlgError) as e:
                told["failed"] = f"{type(e).__name__}: {str(e)[:200]}"
            print(json.dumps(told), flush=True)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
