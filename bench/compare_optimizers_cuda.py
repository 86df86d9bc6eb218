#!/usr/bin/env python3
"""compare_optimizers_cuda.py - steps of Shampoo and Muon on a GPU beside PyTorch's, one run

    compare_optimizers_cuda.py build/libgram.so [--json FILE]

The shapes are those of a transformer of 124 million parameters (GPT-2 small), f32, blocks of 1024,
epsilon 1e-6 of the largest eigenvalue, random gradients.  PyTorch's Shampoo is written here from
the formula, blocks of one shape together: its roots by torch.linalg.eigh, one matrix after the
other as is usual, or by coupled Newton iterations of whole batches in f32.  Times are between
events of the stream, in milliseconds.
"""

import argparse
import ctypes as c
import json
import math

import torch
from gram_device import DeviceGram, tensor
from gram_library import Tensor

LAYER = [(768,), (768,), (768, 2304), (2304,), (768, 768), (768,), (768,), (768,), (768, 3072),
         (3072,), (3072, 768), (768,)]  # fmt: skip
SHAPES = [(50257, 768), (1024, 768), *(LAYER * 12), (768,), (768,)]
BLOCK, EPSILON, BETA = 1024, 1e-6, 0.95
EIGH, NEWTON, MINIMAX = 1, 2, 4


class OptimizerOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("method", c.c_int),
        ("bias_correction", c.c_int),
        *[(n, c.c_double) for n in "learning_rate beta1 beta2 beta3 shampoo_beta epsilon".split()],
        ("epsilon_relative", c.c_int),
        ("nesterov", c.c_int),
        *[(n, c.c_double) for n in "momentum dampening weight_decay".split()],
        ("decay", c.c_int),
        ("graft", c.c_int),
        *[(n, c.c_double) for n in "graft_beta2 graft_epsilon".split()],
        *[(n, c.c_int64) for n in "block start refresh".split()],
        ("merge", c.c_int),
        ("stagger", c.c_int),
        *[(n, c.c_double) for n in "exponent skip".split()],
        *[(n, c.c_int) for n in "root failures state packed steps one_dimensional".split()],
        ("normalize", c.c_int),
        ("not_finite", c.c_int),
        ("rank", c.c_int64),
        ("ranks", c.c_int64),
        *[(n, c.c_int) for n in "precision root_precision".split()],
        ("statistics", c.c_int64),
    ]


class Shampoo:
    def __init__(self, gram, parameters, gradients, method=0, **options):
        self.gram = gram
        self.lib = gram.lib
        self.given = OptimizerOptions(c.sizeof(OptimizerOptions))
        self.lib.gram_optimizer_defaults(method, c.byref(self.given))
        self.set(**options)
        count = len(parameters)
        self.tensors = [tensor(t) for t in (*parameters, *gradients)]
        pointers = [c.pointer(t) for t in self.tensors]
        self.parameters = (c.POINTER(Tensor) * count)(*pointers[:count])
        self.gradients = (c.POINTER(Tensor) * count)(*pointers[count:])
        self.optimizer = c.c_void_p()
        gram.check(self.lib.gram_optimizer_create(gram.context, c.byref(self.given),
                                                  self.parameters, c.c_int64(count),
                                                  c.byref(self.optimizer)))  # fmt: skip

    def set(self, **options):
        for name, value in options.items():
            setattr(self.given, name, value)

    def change(self, **options):
        self.set(**options)
        self.gram.check(
            self.lib.gram_optimizer_set(self.gram.context, self.optimizer, c.byref(self.given))
        )

    def step(self):
        self.gram.check(self.lib.gram_optimizer_step(self.gram.context, self.optimizer,
                                                     self.parameters, self.gradients,
                                                     None))  # fmt: skip

    def directions(self, out):
        tensors = [tensor(t) for t in out]
        pointers = (c.POINTER(Tensor) * len(out))(*[c.pointer(t) for t in tensors])
        self.gram.check(self.lib.gram_optimizer_direction(self.gram.context, self.optimizer,
                                                          self.parameters, self.gradients,
                                                          pointers, None))  # fmt: skip

    def close(self):
        self.lib.gram_optimizer_destroy(self.optimizer)


# ---- The same in PyTorch ----------------------------------------------------------------------


def eigh_roots(factors, exponent):
    roots = torch.empty_like(factors)
    for matrix, root in zip(factors, roots):
        values, vectors = torch.linalg.eigh(matrix)
        values = values.clamp(min=0) + EPSILON * values[-1]
        root.copy_((vectors * values**-exponent) @ vectors.mT)
    return roots


def newton_roots(factors, exponent):
    """Coupled Newton, as many steps as the condition 1e6 takes."""
    q = round(1 / exponent)
    n = factors.shape[-1]
    eye = torch.eye(n, device=factors.device, dtype=factors.dtype)
    x = torch.ones(factors.shape[0], n, 1, device=factors.device, dtype=factors.dtype)
    for _ in range(16):  # the largest eigenvalue
        x = factors @ (x / x.norm(dim=1, keepdim=True))
    most = x.norm(dim=1, keepdim=True)
    b = factors + EPSILON * most * eye
    z = (1 + q) / (2 * (most * 1.01 + EPSILON * most))
    m, root = b * z, z ** (1 / q) * eye
    for _ in range(math.ceil(math.log(1e6, (1 + 1 / q) ** q)) + 6):
        w = ((q + 1) * eye - m) / q
        root = root @ w
        power = w @ w if q > 1 else w
        for _ in range(int(math.log2(q)) - 1 if q > 1 else 0):
            power = power @ power
        m = power @ m
    return root


class TorchShampoo:
    """Blocks of one shape are stacked: statistics and directions are batches, too."""

    def __init__(self, parameters, gradients, roots, beta=BETA):
        self.parameters, self.gradients, self.take_roots = parameters, gradients, roots
        self.kinds, self.t, self.beta = {}, 0, beta
        for i, p in enumerate(parameters):
            rows, cols = p.shape if p.dim() > 1 else (p.shape[0], 1)
            if p.dim() > 1 and rows * cols <= BLOCK:
                rows, cols = rows * cols, 1
            for r in range(0, rows, BLOCK):
                for s in range(0, cols, BLOCK):
                    size = (min(BLOCK, rows - r), min(BLOCK, cols - s))
                    self.kinds.setdefault(size, []).append((i, rows, cols, r, s))
        self.factors = {size: self.zeros(size, len(at)) for size, at in self.kinds.items()}
        self.roots = {}

    def zeros(self, size, count):
        p = self.parameters[0]
        sides = size if size[1] > 1 else size[:1]
        return [torch.zeros(count, n, n, device=p.device, dtype=p.dtype) for n in sides]

    def stack(self, size, at):
        views = [self.gradients[i].view(rows, cols)[r : r + size[0], s : s + size[1]]
                 for i, rows, cols, r, s in at]  # fmt: skip
        return torch.stack(views)

    def step(self, lr=0.01, refresh=True, out=None):
        self.t += 1
        for size, at in self.kinds.items():
            g = self.stack(size, at)
            factors = self.factors[size]
            for k, factor in enumerate(factors):
                rows = g if k == 0 else g.mT
                factor.baddbmm_(rows, rows.mT, beta=self.beta, alpha=1 - self.beta)
            if refresh:
                by = 1 - self.beta**self.t
                self.roots[size] = [self.take_roots(f / by, 1 / (2 * len(factors)))
                                    for f in factors]  # fmt: skip
            p = self.roots[size][0] @ g
            if len(factors) > 1:
                p = p @ self.roots[size][1]
            for (i, rows, cols, r, s), step in zip(at, p):
                to = (out or self.parameters)[i].view(rows, cols)
                to = to[r : r + size[0], s : s + size[1]]
                to.copy_(step) if out else to.sub_(step, alpha=lr)


# ---- Runs -------------------------------------------------------------------------------------


def timed(run, times):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(times):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / times


def tell(rows, name, **values):
    rows.append({"name": name, **values})
    print(name, " ".join(f"{k} {v:.6g}" for k, v in values.items()), flush=True)


def options_of(root, refresh=1):
    return {"beta1": 0, "beta2": BETA, "block": BLOCK, "epsilon": EPSILON, "epsilon_relative": 1,
            "root": root, "refresh": refresh, "start": 1, "graft": 0}  # fmt: skip


ROOTS = [("minimax", MINIMAX), ("coupled Newton", NEWTON), ("eigh", EIGH)]


def truth(gram, rows):
    """Directions of the third step beside eigendecompositions in f64."""
    torch.manual_seed(1)
    shapes = [(1500, 768), (768, 768), (768,), (300, 1024)]
    parameters = [torch.randn(s, device="cuda") for s in shapes]
    gradients = [torch.randn(s, device="cuda") for s in shapes]
    wide = [g.double() for g in gradients]
    expected = [torch.empty_like(g) for g in wide]
    for name, root in [*ROOTS, ("torch, eigh in f32", eigh_roots), ("torch, Newton", newton_roots)]:
        got = [torch.empty_like(g) for g in gradients]
        torch.manual_seed(2)
        reference = TorchShampoo([p.double() for p in parameters], wide, eigh_roots)
        other = (TorchShampoo(parameters, gradients, root) if callable(root)
                 else Shampoo(gram, parameters, gradients, **options_of(root)))  # fmt: skip
        for _ in range(3):
            for g, w in zip(gradients, wide):
                g.normal_()
                w.copy_(g)
            reference.step(out=expected)
            other.step(out=got) if callable(root) else other.directions(got)
        errors = [((a.double() - b).norm() / b.norm()).item() for a, b in zip(got, expected)]
        tell(rows, f"error of {name}", most=max(errors))
        if not callable(root):
            other.close()


def times(gram, rows):
    torch.manual_seed(0)
    parameters = [torch.randn(s, device="cuda") * 0.02 for s in SHAPES]
    gradients = [torch.randn(s, device="cuda") for s in SHAPES]
    copies = [torch.nn.Parameter(p.clone()) for p in parameters]
    for p, g in zip(copies, gradients):
        p.grad = g
    adamw = torch.optim.AdamW(copies, fused=True)
    adamw.step()
    tell(rows, "AdamW, fused", ms=timed(adamw.step, 20))
    del adamw, copies
    for name, root in ROOTS:
        own = Shampoo(gram, parameters, gradients, **options_of(root))
        own.step()
        torch.cuda.synchronize()
        tell(rows, f"gram, {name}, every step", ms=timed(own.step, 2))
        if name == "minimax":
            own.change(refresh=1000, start=1)
            own.step()
            tell(rows, "gram, no roots", ms=timed(own.step, 5))
            own.change(refresh=10)
            tell(rows, "gram, minimax, every 10 steps", ms=timed(own.step, 10))
        own.close()
        torch.cuda.empty_cache()
    matrices = [i for i, s in enumerate(SHAPES) if len(s) == 2]
    own = Shampoo(gram, *[[t[i] for i in matrices] for t in (parameters, gradients)], method=2)
    own.step()
    tell(rows, "gram, Muon of all matrices", ms=timed(own.step, 3))
    own.close()
    copies = [torch.nn.Parameter(parameters[i].clone()) for i in matrices]
    for p, i in zip(copies, matrices):
        p.grad = gradients[i]
    other = torch.optim.Muon(copies)
    other.step()
    tell(rows, "torch, Muon of all matrices, bf16", ms=timed(other.step, 3))
    del other, copies
    for name, roots in [("coupled Newton in f32", newton_roots), ("eigh", eigh_roots)]:
        other = TorchShampoo(parameters, gradients, roots)
        if roots is newton_roots:
            other.step()
            tell(rows, f"torch, {name}, every step", ms=timed(other.step, 1))
            tell(rows, "torch, no roots", ms=timed(lambda o=other: o.step(refresh=False), 3))
        else:
            tell(rows, f"torch, {name}, every step", ms=timed(other.step, 1))
        del other
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    gram, rows = DeviceGram(arguments.library), []
    print(torch.__version__, torch.cuda.get_device_name())
    truth(gram, rows)
    times(gram, rows)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
