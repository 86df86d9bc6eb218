#!/usr/bin/env python3
"""compare_batches_cuda.py - milliseconds of every operation on batches of small items, on a GPU

    PYTHONPATH=build/python python bench/compare_batches_cuda.py [--counts 1 1000 10000 100000]
        [--size 8] [--only TEXT] [--large] [--output FILE]

Items are of --size by --size.  Times are those of CUDA events around calls one after the other, the
least of rounds, with the time that the host takes to queue them.  Before it is timed each of the
operations that go through a batch in rounds is compared with the same call item by item.  --large
times one large item and a few too, and compares a batch that takes several rounds of scratch.
"""

import argparse
import json
import time
from pathlib import Path

import gram
import torch

ROUNDS = 5


def uniform(*shape, seed=0, dtype=torch.float32):
    rng = torch.Generator(device="cuda").manual_seed(seed + sum(shape))
    return torch.rand(shape, generator=rng, device="cuda", dtype=dtype)


def spd(count, n):
    a = uniform(count, n, n, seed=5)
    return a @ a.mT / n + torch.eye(n, device="cuda")


def operations(count, n):
    """A call of each on so many items."""
    x, y, v = uniform(count, n, n), uniform(count, n, n, seed=1), uniform(count, n, 1, seed=2)
    grad, c = uniform(count, n, n, seed=3), uniform(count, 1, n, seed=4)
    a, b = spd(count, n), uniform(count, n, 1, seed=6)
    f = [uniform(count, 2, 2, seed=7), uniform(count, n // 2, n // 2, seed=8)]
    s = [spd(count, 2), spd(count, n // 2)]
    vjp = {"grad": grad, "wrt": ("x", "y", "bandwidth")}
    return {
        "cdist": lambda: gram.cdist(x, y, 1.3),
        "kernel": lambda: gram.kernel(x, y, "gaussian"),
        "median_distance": lambda: gram.median_distance(x),
        "kernel_matmul": lambda: gram.kernel_matmul(x, y, "gaussian", v=v),
        "kernel_matmul, one set": lambda: gram.kernel_matmul(x, kernel="gaussian", v=v),
        "kernel_vjp": lambda: gram.kernel_vjp(x, y, "gaussian", **vjp),
        "kernel_vjp, laplace": lambda: gram.kernel_vjp(x, y, "laplace", **vjp),
        "cdist_grad": lambda: gram.cdist_grad(x, y, c, grad, 1.3),
        "agop": lambda: gram.agop(x, y, c, grad, 2),
        "agop, diagonal": lambda: gram.agop(x, y, c, grad, 1, diagonal=True),
        "solve_cholesky": lambda: gram.solve_cholesky(a, b),
        "solve_lu": lambda: gram.solve_lu(a, b),
        "matmul_batched": lambda: gram.matmul_batched(x, y),
        "eigh": lambda: gram.eigh(a),
        "eigh, largest": lambda: gram.eigh(a, select="largest", count=2),
        "matrix_power": lambda: gram.matrix_power(a),
        "kron": lambda: gram.kron(f),
        "kron_matmul": lambda: gram.kron_matmul(x, f),
        "kron_trace": lambda: gram.kron_trace(f),
        "kron_logdet": lambda: gram.kron_logdet(s),
        "kron_solve": lambda: gram.kron_solve(s, grad),
    }


def tensors(found):
    return [t for t in (found if isinstance(found, (tuple, list)) else [found]) if t is not None]


def measure(call):
    """Milliseconds of a call on the device, and of the host."""
    call()
    torch.cuda.synchronize()
    best, host = float("inf"), float("inf")
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin = time.perf_counter()
        start.record()
        call()
        end.record()
        host = min(host, 1e3 * (time.perf_counter() - begin))
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end))
    return best, host


def worst(found, wanted):
    return max(
        ((f - w).abs().max() / w.abs().max().clamp_min(1e-30)).item()
        for f, w in zip(tensors(found), tensors(wanted), strict=True)
    )


TOUCHED = {  # name: a call on these items of four arrays
    "kernel_matmul": lambda x, y, g, v: gram.kernel_matmul(x, y, "gaussian", v=v),
    "kernel_matmul, one set": lambda x, y, g, v: gram.kernel_matmul(x, kernel="gaussian", v=v),
    "kernel_vjp": lambda x, y, g, v: gram.kernel_vjp(x, y, "laplace", grad=g, wrt=("x", "y")),
    "kernel_vjp, cosine": lambda x, y, g, v: gram.kernel_vjp(x, y, "cosine", grad=g, wrt=("x",)),
    "kernel_vjp, L": lambda x, y, g, v: gram.kernel_vjp(
        x, y, "gaussian", grad=g, wrt=("bandwidth", "regularization")
    ),
    "agop": lambda x, y, g, v: gram.agop(g.mT, y.mT, v.mT, x.mT, 2),
    "agop, diagonal": lambda x, y, g, v: gram.agop(g.mT, y.mT, v.mT, x.mT, 1.3, diagonal=True),
    "median_distance": lambda x, y, g, v: gram.median_distance(x),
    "median_distance, rows": lambda x, y, g, v: gram.median_distance(x, rows=5),
}


def check(count, m, n, k, dtype):
    """The largest differences of a batch from its items one by one."""
    x, y = uniform(3, count, m, k, dtype=dtype), uniform(count, n, k, seed=1, dtype=dtype)
    grad, v = uniform(3, 1, m, n, seed=2, dtype=dtype), uniform(3, count, n, 2, seed=3, dtype=dtype)
    for name, call in TOUCHED.items():
        if "one set" in name and m != n:
            continue
        found = tensors(call(x, y, grad, v))
        bad = 0.0
        for i in range(3):
            for j in range(0, count, max(1, count // 7)):
                bad = max(
                    bad, worst([f[i, j] for f in found], call(x[i, j], y[j], grad[i, 0], v[i, j]))
                )
        print(f"check 3x{count} items of {m} {n} {k} {dtype}: {name}: {bad:.1e}", flush=True)
        assert bad < (2e-4 if dtype == torch.float32 else 1e-9), name


def large():
    """Single items of the sizes that matter, and batches that take several rounds."""
    rows = []
    for count, n, k in ((1, 1000, 8), (1, 4000, 8), (1, 10000, 8), (1, 4000, 128), (16, 2000, 8)):
        x, v = uniform(count, n, k), uniform(count, n, 10)
        grad, c, z = uniform(count, n, n), uniform(count, 3, n), uniform(count, k, n)
        calls = {
            "kernel_matmul": lambda: gram.kernel_matmul(x, x + 1, "gaussian", v=v),
            "kernel_vjp": lambda: gram.kernel_vjp(
                x, x, "gaussian", grad=grad, wrt=("x", "y", "bandwidth")
            ),
            "agop": lambda: gram.agop(grad, z, c, z, 2),
            "median_distance": lambda: gram.median_distance(x),
        }
        for name, call in calls.items():
            ms, _ = measure(call)
            rows.append({"op": name, "count": count, "n": n, "k": k, "ms": ms})
            print(f"{name:24s}{count:4d} x {n} x {k}: {ms:9.3f} ms", flush=True)
        del x, v, grad, c, z
        torch.cuda.empty_cache()
    check(20, 1500, 1500, 2, torch.float64)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 1000, 10000, 100000])
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--only", default="")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    print(torch.cuda.get_device_name())
    check(50, 7, 5, 3, torch.float32)
    check(400, 8, 8, 8, torch.float64)
    print("milliseconds:".ljust(24) + "".join(f"{count:>12d}" for count in args.counts))
    rows = []
    for name in operations(1, args.size):
        if args.only not in name:
            continue
        line = name.ljust(24)
        for count in args.counts:
            ms, host = measure(operations(count, args.size)[name])
            rows.append({"op": name, "count": count, "ms": ms, "host_ms": host})
            line += f"{ms:12.3f}"
        print(line, flush=True)
    if args.large:
        rows += large()
    if args.output:
        what = {"device": torch.cuda.get_device_name(), "size": args.size, "rows": rows}
        args.output.write_text(json.dumps(what, indent=1) + "\n")


if __name__ == "__main__":
    main()
