#!/usr/bin/env python3
"""compare_gpytorch.py - exact GP training on gram.gpytorch's kernels and on GPyTorch's own

    PYTHONPATH=build/python python bench/compare_gpytorch.py [--device cuda] [--dtype float32]
        [--sizes 500 2000 10000] [--kernels rbf matern25] [--dims 4] [--steps 5] [--output FILE]

Both models are trained by Adam on the same data from the same state with GPyTorch's defaults:
Cholesky's factorisation up to 800 points, beyond them conjugate gradients with a pivoted Cholesky
preconditioner and the same random probes.  Times are those of a step, the median of --steps in
turns, after --warm of each; "loss" is that of the last step, which tells that both learn the same.
Beside them the memory that a step adds on a GPU.  Needs gpytorch.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import gpytorch
import gram.gpytorch
import torch

KERNELS = {
    "rbf": (gpytorch.kernels.RBFKernel, gram.gpytorch.RBFKernel, {}),
    "matern15": (gpytorch.kernels.MaternKernel, gram.gpytorch.MaternKernel, {"nu": 1.5}),
    "matern25": (gpytorch.kernels.MaternKernel, gram.gpytorch.MaternKernel, {"nu": 2.5}),
}


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, kernel):
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def data(n, dims, dtype, device):
    rng = torch.Generator().manual_seed(n)
    x = torch.rand(n, dims, generator=rng, dtype=torch.float64)
    noise = 0.1 * torch.randn(n, generator=rng, dtype=torch.float64)
    y = torch.sin(6 * x.sum(-1)) + noise
    return x.to(device, dtype), y.to(device, dtype)


class Trainer:
    """A model and its optimizer; step() is one of training, timed."""

    def __init__(self, kernel, x, y):
        self.model = Model(x, y, kernel).to(x)
        self.model.train()
        self.x, self.y = x, y
        self.mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.model.likelihood, self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        self.seconds, self.losses, self.bytes = [], [], 0

    def step(self):
        cuda = self.x.is_cuda
        torch.manual_seed(len(self.losses))  # of the probes
        if cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        loss = -self.mll(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - begin)
        if cuda:
            self.bytes = torch.cuda.max_memory_allocated() - before


def compare(name, n, args):
    theirs, ours, options = KERNELS[name]
    x, y = data(n, args.dims, getattr(torch, args.dtype), args.device)
    pair = [Trainer(kernel(**options), x, y) for kernel in (theirs, ours)]
    for _ in range(args.warm + args.steps):
        for trainer in pair:
            trainer.step()
    times = [1e3 * statistics.median(t.seconds[args.warm :]) for t in pair]
    row = {
        "kernel": name,
        "n": n,
        "gpytorch_ms": times[0],
        "gram_ms": times[1],
        "ratio": times[1] / times[0],
        "gpytorch_loss": pair[0].losses[-1],
        "gram_loss": pair[1].losses[-1],
        "gpytorch_mib": pair[0].bytes / 2**20,
        "gram_mib": pair[1].bytes / 2**20,
    }
    print(
        f"{name:10s}{n:7d}{times[0]:12.1f}{times[1]:12.1f}{row['ratio']:8.2f}"
        f"{row['gpytorch_loss']:12.4f}{row['gram_loss']:12.4f}"
        f"{row['gpytorch_mib']:10.0f}{row['gram_mib']:10.0f}",
        flush=True,
    )
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 2000, 10000])
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=["rbf", "matern25"])
    parser.add_argument("--dims", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    what = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    print(f"{what}, torch {torch.__version__}, gpytorch {gpytorch.__version__}, {args.dtype}")
    print("kernel          n   GPyTorch ms   gram ms   ratio   loss: GPyTorch, gram   MiB: both")
    rows = [compare(name, n, args) for name in args.kernels for n in args.sizes]
    if args.output:
        args.output.write_text(json.dumps({"device": what, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
