#!/usr/bin/env python3
"""compare_kron.py - products with Kronecker factors: libgram against FastKron and strided GEMMs

    bench/compare_kron.py [--library PATH] [--seconds S] [--dtypes float32 ...] [--output FILE]

One thread; all contenders of a row are warmed up, checked and then run in turn, round after round;
times are the least processor time of the process (not the clock's, so that what else runs takes no
part of it, apart from caches and memory).  "gemm" is NumPy's matmul factor by factor, without a
transposition; "peak" is its product of two 1500 x 1500 matrices.  Needs numpy and pyfastkron 1.1.0
(whose f32 results of odd sizes are NaN after an f64 call in the same process: f32 comes first).
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import ctypes as c  # noqa: E402

import gram_library as gl  # noqa: E402
import numpy as np  # noqa: E402

gl.DTYPES.update(int32=5, int64=6)

SHAPES = [  # rows, the factors
    (1024, [(8, 8)] * 5),
    (1024, [(16, 16)] * 4),
    (1024, [(32, 32)] * 3),
    (1024, [(64, 64)] * 2),
    (1024, [(128, 128)] * 2),
    (1, [(8, 8)] * 6),
    (1, [(16, 16)] * 5),
    (1, [(32, 32)] * 4),
    (1, [(64, 64)] * 3),
    (256, [(5, 5)] * 6),
    (256, [(31, 31)] * 3),
    (256, [(127, 127)] * 2),
    (256, [(12, 10), (20, 24), (30, 25)]),
    (256, [(8, 16)] * 4),
    (32, [(32, 8)] * 4),
]


def gram_run(gram, x, factors, y):
    tx, ty = gl.tensor(x), gl.tensor(y)
    ts = [gl.tensor(f) for f in factors]
    pointers = (c.c_void_p * len(ts))(*[c.addressof(t) for t in ts])
    count = c.c_int64(len(ts))

    def run(_keep=ts):
        gram.check(
            gram.lib.gram_kron_matmul(
                gram.context, c.byref(tx), pointers, count, None, c.byref(ty)
            )
        )
        return y

    return run


def gemm_run(x, factors):
    def run():
        y, after = x, 1
        for f in reversed(factors):
            if after == 1:
                y = y.reshape(-1, f.shape[0]) @ f
            else:
                y = np.matmul(f.T, y.reshape(-1, f.shape[0], after))
            after *= f.shape[1]
        return y.reshape(x.shape[0], -1)

    return run


def fastkron_run(x, factors):
    from pyfastkron import fastkronnumpy

    return lambda: fastkronnumpy.gemkm(x, factors)


def measure(runs, seconds):
    best = dict.fromkeys(runs, float("inf"))
    for run in runs.values():
        run()
    for name in list(runs) * 3:  # rounds
        spent = 0.0
        while spent < seconds / 3:
            start = time.process_time()
            runs[name]()
            took = time.process_time() - start
            spent += took
            best[name] = min(best[name], took)
    return best


def peak_of(dtype):
    a = np.ones((1500, 1500), dtype)
    return 2 * 1500**3 / measure({"peak": lambda: a @ a}, 0.6)["peak"]


def describe(m, factors):
    first = factors[0]
    if any(f != first for f in factors):
        return f"{m}: " + ", ".join(f"{p}x{q}" for p, q in factors)
    size = f"{first[0]}" if first[0] == first[1] else f"{first[0]}->{first[1]}"
    return f"{m}: {size}^{len(factors)}"


def row(gram, m, sizes, dtype, seconds):
    rng = np.random.default_rng(1)
    draw = (
        (lambda s: rng.integers(-9, 9, s).astype(dtype))
        if np.issubdtype(dtype, np.integer)
        else (lambda s: rng.standard_normal(s).astype(dtype))
    )
    p, q = (int(np.prod([s[i] for s in sizes])) for i in (0, 1))
    x, factors = draw((m, p)), [draw(s) for s in sizes]
    y = np.zeros((m, q), dtype)
    runs = {"gram": gram_run(gram, x, factors, y)}
    flop, elements = 0, m * p
    for a, b in reversed(sizes):
        flop, elements = flop + 2 * elements * b, elements // a * b
    if not np.issubdtype(dtype, np.integer):
        runs["gemm"] = gemm_run(x, factors)
        runs["fastkron"] = fastkron_run(x, factors)
        want = runs["gemm"]().astype(np.float64)
        scale = np.abs(want).max()
        for name, run in runs.items():
            error = np.abs(run() - want).max() / scale
            if not error < 1e-4:
                print(f"  {name} is off by {error:.2g}", file=sys.stderr)
    best = measure(runs, seconds)
    return {name: flop / t / 1e9 for name, t in best.items()}


def main():
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Kronecker products, one thread")
    parser.add_argument("--library", default=str(here.parent / "build" / "libgram.so"))
    parser.add_argument("--dtypes", nargs="*", default=["float32", "float64", "int32", "int64"])
    parser.add_argument("--seconds", type=float, default=0.5, help="a contender and row")
    parser.add_argument("--output", help="a JSON file to write")
    args = parser.parse_args()
    gram = gl.Gram(args.library, 1)
    result = {"gram": gram.info, "rows": []}
    for dtype in (np.dtype(name).type for name in args.dtypes):
        name = np.dtype(dtype).name
        integer = np.issubdtype(dtype, np.integer)
        if not integer:
            result[f"peak {name}"] = peak_of(dtype) / 1e9
            print(f"{name}: peak {result[f'peak {name}']:.1f}", flush=True)
        for m, sizes in SHAPES[:5] if integer else SHAPES:
            speeds = row(gram, m, sizes, dtype, args.seconds)
            result["rows"].append({"dtype": name, "shape": describe(m, sizes), "gflops": speeds})
            text = "  ".join(f"{k} {v:6.1f}" for k, v in speeds.items())
            print(f"{name} {describe(m, sizes):34} {text}", flush=True)
    if args.output:
        Path(args.output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
