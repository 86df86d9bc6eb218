"""optimizer_zoo.py - small problems that optimizers stumble over, every optimizer on each of them

    PYTHONPATH=build/python python3 bench/optimizer_zoo.py [--device cuda] [--jobs 16]

Factors of low rank, single samples, gradients that are zero, scalars, embeddings, targets of 1e-6
and 1e6, parameters and state of 16 bits, every root and refresh: 500 steps each.  A run passes if
nothing is raised, no loss is NaN or infinite, and the last loss is at most 1.2 times that of AdamW
with the best of its three rates (0.001, 0.01, 0.1).  Every other optimizer gets the same courtesy:
its default rate and two more of its own (RATES), the default first, until one passes.  All rates
fall linearly to 0, nobody decays weights, everybody begins with the same weights and sees the same
data.  A loss below 1e-5 of the first one (1e-3 where parameters have 16 bits) counts as that: the
problem is solved.  K-FAC with its empirical Fisher need only stay finite.  Exit status 1: a run
failed.
"""

import argparse
import math
import multiprocessing
import sys
import time
import warnings

import torch
from torch import nn

import gram.optim

STEPS = 500
LIMIT = 1.2  # times AdamW's last loss
SOLVED, SOLVED_HALF = 1e-5, 1e-3  # of the first loss
HALVES = (torch.float16, torch.bfloat16)


class Problem:
    """A model of some parameters, and its loss at a step; the same numbers on every device."""

    dtype, options = torch.float32, {}

    def __init__(self, device="cpu"):
        torch.manual_seed(7)
        self.device = device
        self.model = self.build().to(device=device, dtype=self.dtype)

    def draw(self, *shape):
        """Normal numbers."""
        return torch.randn(*shape).to(device=self.device, dtype=self.dtype)


class Bare(nn.Module):
    """Parameters without layers."""

    def __init__(self, **parameters):
        super().__init__()
        for name, value in parameters.items():
            setattr(self, name, nn.Parameter(value))


class Regression(Problem):
    """Targets of a random linear map; rank: of the inputs; scale: of the targets."""

    sizes, samples, rank, scale, noise = (16, 4), 64, None, 1.0, 0.1

    def build(self):
        """Linear layers with tanh between them, and the data."""
        inputs = torch.randn(self.samples, self.sizes[0])
        if self.rank:
            inputs = torch.randn(self.samples, self.rank) @ torch.randn(self.rank, self.sizes[0])
        targets = torch.tanh(inputs @ torch.randn(self.sizes[0], self.sizes[-1]))
        targets = self.scale * (targets + self.noise * torch.randn_like(targets))
        self.data = [t.to(device=self.device, dtype=self.dtype) for t in (inputs, targets)]
        layers = []
        for i, o in zip(self.sizes, self.sizes[1:], strict=False):
            layers += [nn.Linear(i, o), nn.Tanh()]
        return nn.Sequential(*layers[:-1])

    def loss(self, step):
        """Of all samples."""
        return (self.model(self.data[0]) - self.data[1]).float().square().mean()


class OneSample(Regression):
    samples = 1


class LowRank(Regression):
    rank = 2


class Network(Regression):
    sizes = (10, 16, 1)


class TinyTargets(Regression):
    scale = 1e-6


class HugeTargets(Regression):
    scale = 1e6


class NetworkTinyTargets(Network):
    scale = 1e-6


class NetworkHugeTargets(Network):
    scale = 1e6


class NetworkOneSample(Network):
    samples = 1


class Tall(Regression):
    sizes, samples = (2, 200), 32


class Wide(Regression):
    sizes = (64, 1)


class Autoencoder(Regression):
    """12 - 2 - 12 on inputs of rank 3."""

    sizes, rank = (12, 2, 12), 3

    def loss(self, step):
        """Against the inputs themselves."""
        return (self.model(self.data[0]) - self.data[0]).square().mean()


class Double(Network):
    dtype = torch.float64


class HalfParameters(Regression):
    dtype = torch.float16


class BfloatParameters(Network):
    dtype = torch.bfloat16


class BfloatState(Network):
    options = {"state_dtype": "bfloat16"}


class Batches(Network):
    """Another 8 of 64 samples in each step."""

    def loss(self, step):
        """Of the step's; None: of all."""
        if step is None:
            return super().loss(step)
        inputs, targets = (t[step * 8 % 64 :][:8] for t in self.data)
        return (self.model(inputs) - targets).square().mean()


class Classes(Problem):
    """Three clouds of points, an MLP and the cross entropy with a tenth of wrong labels."""

    def build(self):
        """8 - 12 - 3."""
        labels = torch.arange(90) % 3
        inputs = torch.randn(90, 8) + torch.randn(3, 8)[labels]
        labels[::10] = (labels[::10] + 1) % 3
        self.data = inputs.to(self.device), labels.to(self.device)
        return nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 3))

    def loss(self, step):
        """Of all samples."""
        return nn.functional.cross_entropy(self.model(self.data[0]), self.data[1])


class Words(Problem):
    """An embedding of 50 words, of which 10 occur: the others' gradients are zero."""

    def build(self):
        """Embedding and a linear layer."""
        self.words = (torch.arange(40) * 7 % 10).to(self.device)
        self.targets = torch.randn(10, 4)[self.words.cpu()].to(self.device)
        return nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 4))

    def loss(self, step):
        """Four words in each step; None: of all."""
        at = slice(None) if step is None else slice(step * 4 % 40, step * 4 % 40 + 4)
        return (self.model(self.words[at]) - self.targets[at]).square().mean()


class Images(Problem):
    """Convolutions on noisy images of 8 by 8 with a bright half."""

    def build(self):
        """A convolution and a linear layer."""
        labels = torch.arange(32) % 2
        images = torch.randn(32, 1, 8, 8)
        images[labels == 1, :, :, :4] += 1
        self.data = images.to(self.device), labels.to(self.device)
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))

    def loss(self, step):
        """Of all images."""
        return nn.functional.cross_entropy(self.model(self.data[0]), self.data[1])


class Scalar(Problem):
    """One number, no dimension."""

    def build(self):
        """From 0 to 3."""
        return Bare(s=torch.tensor(0.0))

    def loss(self, step):
        """A parabola."""
        return (self.model.s - 3).square()


class Scalars(Problem):
    """A line through points: two parameters of one number, one of them a matrix."""

    def build(self):
        """a and b."""
        self.x = torch.linspace(-1, 1, 20).to(self.device)
        return Bare(a=torch.zeros(1, 1), b=torch.tensor(0.0))

    def loss(self, step):
        """2 x + 1 is the line."""
        return (self.model.a * self.x + self.model.b - 2 * self.x - 1).square().mean()


class Steep(Problem):
    """A vector in a valley: curvatures from 1 to 1e4."""

    def build(self):
        """From all ones."""
        self.curvatures = torch.logspace(0, 4, 30).to(self.device)
        return Bare(w=torch.ones(30))

    def loss(self, step):
        """A quadratic form."""
        return (self.curvatures * self.model.w.square()).mean()


class Idle(nn.Module):
    """A model beside a layer that does nothing."""

    def __init__(self, model):
        super().__init__()
        self.model, self.idle = model, nn.Linear(5, 3)

    def forward(self, inputs):
        """The model's outputs."""
        return self.model(inputs)


class ZeroGradients(Regression):
    """A matrix and a vector whose gradients are zero in all steps."""

    def build(self):
        """A layer more."""
        return Idle(super().build())

    def loss(self, step):
        """The others times 0."""
        return super().loss(step) + 0 * sum(p.sum() for p in self.model.idle.parameters())


class LateGradients(Network):
    """Gradients that are zero for 50 steps."""

    def loss(self, step):
        """0 times the loss, then the loss."""
        return super().loss(step) * (0 if step is not None and step < 50 else 1)


class Tensor(Problem):
    """Four dimensions towards a tensor of low rank."""

    def build(self):
        """3 by 4 by 5 by 2."""
        self.target = torch.einsum("i,j,k,l->ijkl", *(torch.randn(n) for n in (3, 4, 5, 2)))
        self.target = self.target.to(self.device)
        return Bare(w=torch.zeros(3, 4, 5, 2))

    def loss(self, step):
        """The squared distance."""
        return (self.model.w - self.target).square().mean()


class Factors(Problem):
    """A matrix of rank 2 as a product."""

    def build(self):
        """12 by 2 and 2 by 10."""
        self.target = (torch.randn(12, 2) @ torch.randn(2, 10)).to(self.device)
        return Bare(u=0.1 * torch.randn(12, 2), v=0.1 * torch.randn(2, 10))

    def loss(self, step):
        """The squared distance."""
        return (self.model.u @ self.model.v - self.target).square().mean()


PROBLEMS = [
    Regression, OneSample, LowRank, Network, TinyTargets, HugeTargets, NetworkTinyTargets,
    NetworkHugeTargets, NetworkOneSample, Tall, Wide, Autoencoder, Double, HalfParameters,
    BfloatParameters, BfloatState, Batches, Classes, Words, Images, Scalar, Scalars, Steep,
    ZeroGradients, LateGradients, Tensor, Factors,
]  # fmt: skip


def shampoo(**options):
    """Shampoo with options, as what makes it."""
    return lambda problem, lr: gram.optim.Shampoo(
        problem.model.parameters(), lr, **problem.options, **options
    )


def kfac(name, **options):
    """K-FAC or EKFAC, AdamW for what has no layers; None where there are no layers.  The Fisher is
    exact: the empirical one of a regression vanishes with its residuals, not with its curvature."""

    def make(problem, lr):
        if not any(isinstance(m, nn.Linear) for m in problem.model.modules()):
            return None
        gaussian = not isinstance(problem, Classes | Images)
        likelihood = "gaussian" if gaussian else "categorical"
        return getattr(gram.optim, name)(
            problem.model, lr, likelihood=likelihood, others="adamw",
            **{"fisher": "type2", **options},
        )  # fmt: skip

    return make


# The default rate first.
RATES = {
    "Shampoo": (0.01, 0.1, 0.001),
    "SOAP": (0.003, 0.03, 0.3),
    "Muon": (0.02, 0.1, 0.004),
    "KFAC": (0.1, 1.0, 0.01),
    "EKFAC": (0.1, 1.0, 0.01),
}
OPTIMIZERS = {
    "Shampoo": shampoo(),
    "Shampoo, refresh 1": shampoo(refresh=1),
    "Shampoo, refresh 100": shampoo(refresh=100),
    "Shampoo, eigh": shampoo(root="eigh", refresh=3, stagger=True),
    "Shampoo, coupled-newton": shampoo(root="coupled-newton"),
    "Shampoo, newton-schulz": shampoo(root="newton-schulz", exponent=0.25),
    "Shampoo, minimax": shampoo(root="minimax"),
    "Shampoo, minimax, relative": shampoo(root="minimax", relative_eps=True, refresh=1),
    "Shampoo, averages": shampoo(betas=(0.9, 0.99), refresh=1),
    "SOAP": lambda problem, lr: gram.optim.SOAP(
        problem.model.parameters(), lr, weight_decay=0, **problem.options
    ),
    "SOAP, refresh 1": lambda problem, lr: gram.optim.SOAP(
        problem.model.parameters(), lr, weight_decay=0, refresh=1, one_dimensional=True,
        **problem.options,
    ),
    "Muon": lambda problem, lr: gram.optim.Muon(problem.model.parameters(), lr, **problem.options),
    "KFAC": kfac("KFAC"),
    "KFAC, refresh 1": kfac("KFAC", refresh_every=1, exact=True),
    "KFAC, empirical": kfac("KFAC", fisher="empirical"),
    "EKFAC": kfac("EKFAC"),
    "EKFAC, empirical": kfac("EKFAC", fisher="empirical"),
}  # fmt: skip


def train(problem, optimizer, steps):
    """The first and the last loss; raises what the optimizer raises, ArithmeticError for NaN."""
    rates = [group["lr"] for group in optimizer.param_groups]
    outputs = []
    if hasattr(optimizer, "curvature"):
        problem.model.register_forward_hook(lambda module, inputs, out: outputs.append(out))
    with torch.no_grad():
        first = problem.loss(None).item()
    for step in range(steps):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * (1 - step / steps)
        optimizer.zero_grad()
        loss = problem.loss(step)
        if outputs:
            optimizer.curvature(outputs.pop())
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        last = problem.loss(None).item()
    if hasattr(optimizer, "close"):
        optimizer.close()
    if not math.isfinite(last):
        raise ArithmeticError(f"the last loss is {last}")
    return first, last


def adamw(kind, device, steps):
    """The least last loss of AdamW with three rates, and what counts as solved."""
    best, floor = math.inf, 0
    for rate in (1e-3, 1e-2, 1e-1):
        problem = kind(device)
        half = problem.dtype in HALVES
        eps = 1e-4 if problem.dtype == torch.float16 else 1e-8  # which is 0 in float16
        optimizer = torch.optim.AdamW(problem.model.parameters(), rate, eps=eps, weight_decay=0)
        try:
            first, last = train(problem, optimizer, steps)
        except ArithmeticError:
            continue
        floor = first * (SOLVED_HALF if half else SOLVED)
        best = min(best, last)
    return best, floor


def compete(kind, name, best, floor, device="cpu", steps=STEPS):
    """(what came of it, the ratio to AdamW's loss, the rate), of the first rate that passes, else
    of the best; None where the optimizer does not apply."""
    found = None
    for rate in RATES[name.split(",")[0]]:
        problem = kind(device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = OPTIMIZERS[name](problem, rate)
        if optimizer is None:
            return None
        try:
            _, last = train(problem, optimizer, steps)
        except Exception as e:  # of whatever kind: it is what is looked for
            return f"{type(e).__name__}: {e}", math.nan, rate
        ratio = max(last, floor) / max(best, floor)
        good = ratio <= LIMIT or name.endswith("empirical")
        if found is None or ratio < found[1]:
            found = ("ok" if good else "slow"), ratio, rate
        if ratio <= LIMIT:
            break
    return found


def runs_of(kind, options):
    """[(optimizer, what compete says)] of one problem, printed as they come."""
    torch.set_num_threads(1)
    results = []
    best, floor = adamw(kind, options.device, options.steps)
    for name in OPTIMIZERS:
        if options.only and not name.startswith(options.only):
            continue
        result = compete(kind, name, best, floor, options.device, options.steps)
        if result is None:
            continue
        outcome, ratio, rate = result
        if options.verbose or outcome != "ok":
            print(f"{kind.__name__:20} {name:28} lr {rate:<6g} {ratio:9.3g} {outcome}", flush=True)
        results.append((name, result))
    return results


def tell(found, seconds):
    """A table of all runs; how many failed."""
    failures = sum(result[0] != "ok" for runs in found.values() for _, result in runs)
    print("\n| optimizer | problems | worst ratio to AdamW | on | not with its default rate |\n"
          "|---|---|---|---|---|")  # fmt: skip
    for name in OPTIMIZERS:
        default = RATES[name.split(",")[0]][0]
        runs = [(r, kind) for kind, of in found.items() for n, r in of if n == name]
        if runs:
            worst, where = max(runs, key=lambda run: run[0][1] if run[0][1] == run[0][1] else 1e99)
            other = sum(r[2] != default for r, _ in runs)
            print(f"| {name} | {len(runs)} | {worst[1]:.3g} | {where} | {other} |")
    count = sum(len(runs) for runs in found.values())
    print(f"\n{count} runs, {failures} failed, {seconds:.0f} s, torch {torch.__version__}")
    return failures


def main():
    """Prints a table; exit status 1 where a run failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--jobs", type=int, default=1, help="processes, a problem each")
    parser.add_argument("--only", help="optimizers whose names begin so")
    parser.add_argument("--problem", help="one problem")
    parser.add_argument("--verbose", action="store_true", help="every run, not failures alone")
    options = parser.parse_args()
    kinds = [k for k in PROBLEMS if not options.problem or k.__name__ == options.problem]
    begun = time.perf_counter()
    if options.jobs > 1:
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            results = pool.starmap(runs_of, [(kind, options) for kind in kinds], chunksize=1)
    else:
        results = [runs_of(kind, options) for kind in kinds]
    found = {kind.__name__: runs for kind, runs in zip(kinds, results, strict=True)}
    return tell(found, time.perf_counter() - begun) > 0


if __name__ == "__main__":
    sys.exit(main())
