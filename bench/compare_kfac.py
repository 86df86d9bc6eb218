#!/usr/bin/env python3
"""compare_kfac.py - training iterations with K-FAC and EKFAC on one GPU, beside other ways

    compare_kfac.py [--peers FOLDER] [--repeats 10] [--only conv|block]

Models: a residual network of 3 x 3 convolutions (64 to 256 channels, 128 images of 32 x 32) and a
transformer block (768 wide, 12 heads, 8 sequences of 256) with a head of 64 classes, f32.  All
update factors in every iteration and refresh inverses in every tenth.  Ways: SGD alone; gram's
optimizers; their formulas in plain PyTorch (unfold, cholesky_inverse, pi-damping, one clip); the
package kfac-pytorch (where it is not installed its folder is --peers).  Milliseconds of an
iteration, forward and backward pass included, that does not refresh, that does, and of ten of which
one does; how often PyTorch says that an operation waits for the device, in either; and how far
parameters are after three iterations from where plain PyTorch moved them, relative to the way.
"""

import argparse
import importlib.metadata
import statistics
import sys
import warnings

import gram.optim
import torch
from torch import nn

DAMPING, DECAY, CLIP, RATE, MOMENTUM = 1e-2, 0.95, 1e-3, 0.05, 0.9


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.short = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs),
        )  # fmt: skip

    def forward(self, x):
        return torch.relu(self.short(x) + self.body(x))


def conv():
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3, 1, 1), nn.ReLU(), Residual(64, 64), Residual(64, 128),
        Residual(128, 256), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    return net, torch.randn(128, 3, 32, 32), torch.randint(10, (128,))


class Block(nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, 64)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(a.transpose(1, 2).reshape(n, t, d))
        x = x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))
        return self.head(x).flatten(0, 1)


def block():
    return Block(), torch.randn(8, 256, 768), torch.randint(64, (8 * 256,))


class Plain:
    """K-FAC with the formulas of gram.optim.KFAC, in PyTorch, f32."""

    def __init__(self, model, every):
        self.every, self.steps, self.data, self.state = every, 0, {}, {}
        self.model = model
        self.layers = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv2d))]
        self.sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
        for m in self.layers:
            m.register_forward_hook(self.keep)

    def keep(self, m, inputs, output):
        self.data[m] = [inputs[0].detach(), None]
        output.register_hook(lambda g: self.data[m].__setitem__(1, g))

    def rows(self, m, a, g):
        """Rows of all positions, those of gradients for the sum of losses, and the samples."""
        n = a.shape[0]
        if isinstance(m, nn.Conv2d):
            a = nn.functional.unfold(a, m.kernel_size, m.dilation, m.padding, m.stride)
            a, g = a.transpose(1, 2).flatten(0, 1), g.flatten(2).transpose(1, 2).flatten(0, 1)
        a, g = a.flatten(0, -2), g.flatten(0, -2)
        return torch.cat([a, a.new_ones(len(a), 1)], 1), g * n, n

    @torch.no_grad()
    def step(self):
        for m, (a, g) in self.data.items():
            a, g, n = self.rows(m, a, g)
            new = [a.T @ a / len(a), g.T @ g / n]
            old = self.state.get(m)
            keep = min(1 - 1 / (self.steps + 1), DECAY)
            self.state[m] = [f if old is None else old[i].mul_(keep).add_(f, alpha=1 - keep)
                             for i, f in enumerate(new)] + ([] if old is None else old[2:])
        if self.steps % self.every == 0:
            for m, (a, b, *_) in self.state.items():
                pi = ((a.trace() / len(a)) / (b.trace() / len(b))).sqrt()
                ia, ib = (torch.cholesky_inverse(torch.linalg.cholesky(
                    f + s * DAMPING**0.5 * torch.eye(len(f), device=f.device)))
                    for f, s in ((a, pi), (b, 1 / pi)))
                self.state[m] = [a, b, ia, ib]
        total = 0
        for m, (_, _, ia, ib) in self.state.items():
            grad = torch.cat([m.weight.grad.flatten(1), m.bias.grad[:, None]], 1)
            v = ib @ grad @ ia
            total = total + (v * grad).sum() * RATE**2
            m.weight.grad.copy_(v[:, :-1].view_as(m.weight))
            m.bias.grad.copy_(v[:, -1])
        nu = (CLIP / total.abs()).sqrt().clamp(max=1)
        for m in self.state:
            m.weight.grad.mul_(nu)
            m.bias.grad.mul_(nu)
        self.sgd.step()
        self.steps += 1


def gram_way(kind, **options):
    def make(model, every):
        return getattr(gram.optim, kind)(
            model, lr=RATE, momentum=MOMENTUM, damping=DAMPING, decay=DECAY, kl_clip=CLIP,
            refresh_every=every, **options,
        )  # fmt: skip

    return make


class Sgd:
    def __init__(self, model, every):
        self.step = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM).step


def package(method):
    class Package:
        def __init__(self, model, every):
            if "kfac" not in sys.modules:  # a folder of it has no version
                importlib.metadata.version = lambda name: "of a folder"
            from kfac.preconditioner import KFACPreconditioner

            self.sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
            self.kfac = KFACPreconditioner(
                model, factor_update_steps=1, inv_update_steps=every, damping=DAMPING,
                factor_decay=DECAY, kl_clip=CLIP, lr=RATE, compute_method=method,
            )  # fmt: skip

        def step(self):
            self.kfac.step()
            self.sgd.step()

    return Package


WAYS = {
    "SGD": Sgd,
    "plain PyTorch, Cholesky": Plain,
    "gram KFAC, f64": gram_way("KFAC"),
    "gram KFAC, f32": gram_way("KFAC", state_dtype="float32"),
    "gram KFAC exact, f32": gram_way("KFAC", exact=True, state_dtype="float32"),
    "gram EKFAC, f64": gram_way("EKFAC"),
    "gram EKFAC, f32": gram_way("EKFAC", state_dtype="float32"),
    "kfac-pytorch, inverse": package("inverse"),
    "kfac-pytorch, eigen": package("eigen"),
}


def iterate(model, optimizer, x, y):
    model.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def timed(run):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def waits(run):
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            run()
        return sum("synchronizing" in str(w.message) for w in seen)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def measure(way, problem, repeats, plain):
    """The row, and the parameters after three iterations less those before."""
    torch.manual_seed(0)
    model, x, y = (t.cuda() for t in problem())
    start = torch.cat([p.detach().flatten() for p in model.parameters()])
    optimizer = WAYS[way](model, 10)
    times, counts = [], []
    moved = None
    for step in range(10 * (1 + repeats)):
        if step == 3:
            moved = torch.cat([p.detach().flatten() for p in model.parameters()]) - start
        if step in (10, 11):
            counts.append(waits(lambda: iterate(model, optimizer, x, y)))
            continue
        times.append((step, timed(lambda: iterate(model, optimizer, x, y))))
    with_refresh = statistics.median(t for step, t in times if step > 11 and step % 10 == 0)
    without = statistics.median(t for step, t in times if step > 11 and step % 10)
    error = float("nan") if plain is None else float((moved - plain).norm() / plain.norm())
    ten = (with_refresh + 9 * without) / 10
    print(f"| {way} | {without:.2f} | {with_refresh:.2f} | {ten:.2f} | {counts[1]} | {counts[0]} | "
          f"{error:.1e} |", flush=True)  # fmt: skip
    return moved


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", choices=("conv", "block"))
    arguments = parser.parse_args()
    sys.path[:0] = [arguments.peers] if arguments.peers else []
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(torch.__version__, torch.cuda.get_device_name())
    for name, problem in (("conv", conv), ("block", block)):
        if arguments.only not in (None, name):
            continue
        print(f"\n{name}\n\n| way | ms | with refresh | of 10 | waits | with refresh | moved |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        plain = None
        for way in ("plain PyTorch, Cholesky", *(w for w in WAYS if not w.startswith("plain"))):
            try:
                moved = measure(way, problem, arguments.repeats, plain)
            except Exception as e:
                print(f"| {way} | {type(e).__name__}: {str(e)[:120]} |", flush=True)
                continue
            plain = moved if plain is None else plain
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
