#!/usr/bin/env python3
"""compare_kron_vjp_cuda.py - gradients of Kronecker products and solves with them, on a GPU

    bench/compare_kron_vjp_cuda.py [--library PATH] [--dtypes float32 ...] [--rows TEXT]
                                   [--output FILE]

Times are those of CUDA events around calls one after the other, the median of rounds.  "ratio" is
the time of the gradients to x and to every factor over that of the product; "torch" differentiates
torch.matmul factor by factor.  "error" is the largest difference of a gradient to f64's, of its
largest element, where x has at most 2^26 elements; beside it torch's.  Solves are compared with
torch.linalg factor by factor; their error is |x K - b| over |b| in f64.  Needs torch.
"""

import argparse
import ctypes as c
import json
import math
from pathlib import Path

import compare_kron_cuda as kron
import gram_library as gl
import torch

SHAPES = [shape for shape in kron.SHAPES if shape[1] > 0 and "16: " not in shape[0][:4]]
METHODS = ["lu", "cholesky", "eigen"]
SOLVES = [  # name, rows, orders
    ("1024: 32^3", 1024, [32] * 3),
    ("64: 64^3", 64, [64] * 3),
    ("1024: 128^2", 1024, [128] * 2),
    ("1: 128^3", 1, [128] * 3),
    ("1: 1000^2", 1, [1000] * 2),
]


def view(t):
    v = gl.Tensor(data=t.data_ptr(), dtype=kron.DTYPES[str(t.dtype)[6:]], ndim=t.dim())
    v.device.type = 1
    for i in range(t.dim()):
        v.shape[i], v.stride[i] = t.shape[i], t.stride(i)
    return v


def pointers(views):
    return (c.c_void_p * len(views))(*[c.addressof(v) for v in views])


def backward(gram, x, factors, grad, to_x, to_factors):
    views = [view(t) for t in (x, grad, to_x)]
    of, to = [view(f) for f in factors], [view(f) for f in to_factors]
    of_at, to_at = pointers(of), pointers(to)
    grads = gl.KronGrads(c.pointer(views[2]), c.cast(to_at, c.c_void_p))

    def run(_keep=(of, to, views, to_at)):
        gram.check(
            gram.lib.gram_kron_matmul_vjp(
                gram.context,
                c.byref(views[0]),
                of_at,
                c.c_int64(len(of)),
                None,
                c.byref(views[1]),
                c.byref(grads),
            )
        )

    return run


def differentiate(x, factors, grad):
    inputs = [t.detach().requires_grad_() for t in (x, *factors)]
    y = kron.bmm(inputs[0], inputs[1:])
    return lambda: torch.autograd.grad(y, inputs, grad, retain_graph=True)


def error(got, want):
    return max(
        ((a.double() - b).abs().max() / b.abs().max()).item() for a, b in zip(got, want)
    )


def measure(gram, m, sizes, dtype):
    p, q = (math.prod(s[i] for s in sizes) for i in (0, 1))
    torch.manual_seed(1)
    result = {"us": {}}
    with torch.cuda.stream(gram.stream):
        x, grad = (torch.rand(m, k, dtype=dtype, device="cuda") * 2 - 1 for k in (p, q))
        factors = [torch.rand(s, dtype=dtype, device="cuda") * 2 - 1 for s in sizes]
        y, to_x = torch.empty_like(grad), torch.empty_like(x)
        to = [torch.empty_like(f) for f in factors]
        runs = {
            "forward": gram.runner(x, factors, y, False),
            "backward": backward(gram, x, factors, grad, to_x, to),
            "torch": differentiate(x, factors, grad),
        }
        runs["backward"]()
        if x.numel() <= 1 << 26:
            want = differentiate(x.double(), [f.double() for f in factors], grad.double())()
            result["error"] = error((to_x, *to), want)
            result["error of torch"] = error(runs["torch"](), want)
            del want
    for name in list(runs):
        result["us"][name] = 1e3 * kron.milliseconds(runs.pop(name), gram.stream, 3, 3.0)
    result["ratio"] = result["us"]["backward"] / result["us"]["forward"]
    return result


def plain_solve(method, factors, b, shift):
    """x (K + shift I) = b by torch.linalg, factor by factor."""
    if method == "eigen":
        pairs = [torch.linalg.eigh(f) for f in factors]
        values = pairs[0][0]
        for w, _ in pairs[1:]:
            values = torch.outer(values, w).reshape(-1)
        z = kron.bmm(b, [v for _, v in pairs]) / (values + shift)
        return kron.bmm(z, [v.T.contiguous() for _, v in pairs])
    x, shape = b.reshape(b.shape[0], *[f.shape[0] for f in factors]), b.shape
    for i, f in enumerate(factors):
        columns = x.movedim(i + 1, 0).reshape(f.shape[0], -1)
        if method == "lu":
            columns = torch.linalg.solve(f.T, columns)
        else:
            columns = torch.cholesky_solve(columns, torch.linalg.cholesky(f))
        rest = [x.shape[0]] + [n for k, n in enumerate(x.shape[1:]) if k != i]
        x = columns.reshape(f.shape[0], *rest).movedim(0, i + 1)
    return x.reshape(shape)


def measure_solve(gram, m, orders, dtype, method):
    torch.manual_seed(1)
    shift = 0.1 if method == "eigen" else 0.0
    with torch.cuda.stream(gram.stream):
        factors = []
        for n in orders:
            a = torch.rand(n, n, dtype=torch.float64, device="cuda") - 0.5
            factors.append((torch.eye(n, device="cuda") + (a + a.T) / n).to(dtype))
        b = torch.rand(m, math.prod(orders), dtype=dtype, device="cuda") - 0.5
        x = torch.empty_like(b)
        of, vb, vx = [view(f) for f in factors], view(b), view(x)
        options = gl.KronSolveOptions(size=c.sizeof(gl.KronSolveOptions))
        options.method, options.shift.value = METHODS.index(method), shift

        def run(at=pointers(of)):
            gram.check(
                gram.lib.gram_kron_solve(
                    gram.context,
                    at,
                    c.c_int64(len(of)),
                    c.byref(vb),
                    c.byref(options),
                    c.byref(vx),
                    None,
                )
            )

        run()
        wide = [f.double() for f in factors]
        rest = kron.bmm(x[:64].double(), wide) + shift * x[:64].double() - b[:64].double()
        other = plain_solve(method, factors, b, shift)[:64].double()
        other = kron.bmm(other, wide) + shift * other - b[:64].double()
        errors = [r.norm().item() / b[:64].double().norm().item() for r in (rest, other)]
    us = {
        "gram": 1e3 * kron.milliseconds(run, gram.stream, 3, 3.0),
        "torch": 1e3
        * kron.milliseconds(
            lambda: plain_solve(method, factors, b, shift), gram.stream, 3, 3.0
        ),
    }
    return {"us": us, "error": errors[0], "error of torch": errors[1]}


def show(name, shape, got):
    text = "  ".join(f"{k} {v:9.1f} us" for k, v in got["us"].items())
    for key in ("ratio", "error", "error of torch"):
        text += f"  {key} {got[key]:.2g}" if key in got else ""
    print(f"{name:8} {shape:28} {text}", flush=True)


def main():
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="gradients of Kronecker products on a GPU")
    parser.add_argument("--library", default=str(here.parent / "build" / "libgram.so"))
    parser.add_argument("--dtypes", nargs="*", default=["float32", "float64"])
    parser.add_argument("--rows", default="", help="those whose name has this text")
    parser.add_argument("--output", help="a JSON file to write")
    args = parser.parse_args()
    gram, result = kron.Gram(args.library), []
    for name in args.dtypes:
        dtype = getattr(torch, name)
        jobs = [(s, measure, (m, sizes, dtype)) for s, m, sizes in SHAPES]
        jobs += [
            (f"solve {s} {method}", measure_solve, (m, orders, dtype, method))
            for s, m, orders in SOLVES
            for method in METHODS
        ]
        for shape, run, sizes in jobs:
            if args.rows in shape:
                got = run(gram, *sizes)
                torch.cuda.empty_cache()
                result.append({"dtype": name, "shape": shape, **got})
                show(name, shape, got)
                if args.output:
                    Path(args.output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
