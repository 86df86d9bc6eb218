#!/usr/bin/env python3
"""compare_muon_cuda.py - Muon's products of bf16, and AUTO's powers, on a GPU, one run

    compare_muon_cuda.py build/libgram.so [--json FILE]

The 48 matrices are those of the 12 layers of GPT-2 small (width 768).  Directions are compared
with those in f64, singular values with the interval that the polynomial leaves them in, and steps
are timed beside torch.optim.Muon (bf16 too) on the same gradients.  Powers are of 32 matrices of
order 512 of f32, condition 1e6: AUTO beside EIGH and COUPLED_NEWTON, errors against PyTorch's eigh
in f64.  Times are between events of the stream, in milliseconds, the best of three rounds.
"""

import argparse
import ctypes as c
import json

import torch
from compare_optimizers_cuda import Shampoo, timed
from gram_device import DeviceGram, tensor
from gram_library import Tensor

LAYER = [(2304, 768), (768, 768), (3072, 768), (768, 3072)]
AUTO, F32, TF32 = 0, 2, 4
MUON = 2
ODD = [(1, 9), (9, 1), (257, 131), (131, 257), (64, 65), (1024, 1024)]


class PowerOptions(c.Structure):
    class Scalar(c.Structure):
        _fields_ = [("value", c.c_double), ("tensor", c.c_void_p)]

    _fields_ = [
        ("size", c.c_size_t),
        *[(n, c.c_int) for n in "numerator denominator method uplo".split()],
        ("ridge", Scalar),
        ("ridge_relative", c.c_int),
        ("condition", c.c_double),
        ("iterations", c.c_int),
        ("error", c.c_void_p),
        ("tolerance", c.c_double),
        ("keep", c.c_int),
        ("precision", c.c_int),
    ]


def tell(rows, name, **values):
    rows.append({"name": name, **values})
    print(f"{name}: " + ", ".join(f"{k} {v:.4g}" for k, v in values.items()), flush=True)


def best(call):
    return min(timed(call, 10) for _ in range(3))


def directions(gram, gradients, precision):
    weights = [torch.zeros_like(g) for g in gradients]
    out = [torch.empty_like(g) for g in gradients]
    own = Shampoo(gram, weights, gradients, method=MUON, precision=precision)
    own.directions(out)
    torch.cuda.synchronize()
    own.close()
    return out


def truth(gram, rows, shapes):
    """Of every precision: |there - f64| / |f64|, the most, and the extreme singular values."""
    torch.manual_seed(0)
    gradients = [torch.randn(s, device="cuda") for s in shapes]
    exact = directions(gram, [g.double() for g in gradients], AUTO)
    worst = 0
    for name, precision in (("bf16 (auto)", AUTO), ("f32", F32), ("tf32", TF32)):
        there = directions(gram, gradients, precision)
        errors = [((a - b).norm() / b.norm()).item() for a, b in zip(there, exact)]
        scaled = [t / max(1, t.shape[0] / t.shape[1]) ** 0.5 for t in there]
        values = torch.cat([torch.linalg.svdvals(t.double()) for t in scaled])
        tell(rows, f"Muon, {name}", error=max(errors), least=values.min().item(),
             most=values.max().item())  # fmt: skip
        worst = max(worst, max(errors) if precision == AUTO else 0)
    assert worst < 0.05, "products of bf16 are off"


def times(gram, rows):
    torch.manual_seed(0)
    shapes = LAYER * 12
    parameters = [torch.randn(s, device="cuda") * 0.02 for s in shapes]
    gradients = [torch.randn(s, device="cuda") for s in shapes]
    for name, precision in (("bf16 (auto)", AUTO), ("tf32", TF32), ("f32", F32)):
        own = Shampoo(gram, parameters, gradients, method=MUON, precision=precision)
        own.step()
        torch.cuda.synchronize()
        tell(rows, f"gram, {name}, a step", ms=best(own.step))
        own.change(steps=1)
        own.step()
        tell(rows, f"gram, {name}, of it with one Newton-Schulz step", ms=best(own.step))
        own.close()
    copies = [torch.nn.Parameter(p.clone()) for p in parameters]
    for p, g in zip(copies, gradients):
        p.grad = g
    other = torch.optim.Muon(copies)
    other.step()
    tell(rows, "torch.optim.Muon, a step", ms=best(other.step))


def powers(gram, rows):
    torch.manual_seed(0)
    n, count = 512, 32
    basis = torch.linalg.qr(torch.randn(count, n, n, device="cuda", dtype=torch.float64))[0]
    a = ((basis * torch.logspace(-6, 0, n, device="cuda", dtype=torch.float64)) @ basis.mT).float()
    values, vectors = torch.linalg.eigh(a.double())
    roots = values.clamp(min=0).add(1e-6 * values[:, -1:]) ** -0.25
    exact = (vectors * roots[:, None, :]) @ vectors.mT
    out = torch.empty_like(a)
    ta, to = tensor(a), tensor(out)
    for name, method in (("auto", 0), ("eigh", 1), ("coupled Newton", 2)):
        options = PowerOptions(c.sizeof(PowerOptions), -1, 4, method)
        options.ridge.value, options.ridge_relative = 1e-6, 1
        options.condition = 2e6
        call = gram.ready("gram_matrix_power", c.byref(ta), c.byref(options), c.byref(to),
                          c.POINTER(Tensor)())  # fmt: skip
        call()
        torch.cuda.synchronize()
        error = ((out - exact).norm() / exact.norm()).item()
        tell(rows, f"32 x 512^2 to the power of -1/4, {name}", ms=best(call), error=error)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    gram, rows = DeviceGram(arguments.library), []
    print(torch.__version__, torch.cuda.get_device_name())
    truth(gram, rows, LAYER + ODD)
    times(gram, rows)
    powers(gram, rows)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
