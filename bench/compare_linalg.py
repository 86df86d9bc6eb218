#!/usr/bin/env python3
"""compare_linalg.py - inverse roots and solves of libgram beside NumPy and SciPy, in one run

    OPENBLAS_NUM_THREADS=1 bench/compare_linalg.py build/libgram.so --threads 1 [--json FILE]

Every row runs its contenders in turn, several times, and takes each one's least processor time and
least time on the clock: on a machine that others use, the first is what repeats.
"""

import argparse
import json
import os
import platform
import time

import numpy as np
import scipy.linalg
from gram_library import Gram

EIGH, NEWTON, SCHULZ, MINIMAX = 1, 2, 3, 4


def spectrum(rng, n, condition):
    """A symmetric matrix with eigenvalues from 1 to 1 / condition, in f64."""
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    a = (q * np.logspace(0, -np.log10(condition), n)) @ q.T
    return (a + a.T) / 2


def least(contenders, repeats):
    """{name: (processor seconds, seconds)}, the least of repeats rounds."""
    best = {name: (np.inf, np.inf) for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            clock, cpu = time.perf_counter(), time.process_time()
            run()
            taken = (time.process_time() - cpu, time.perf_counter() - clock)
            best[name] = tuple(min(pair) for pair in zip(best[name], taken))
    return best


def numpy_root(a, out):
    for item, to in zip(a, out):  # NumPy computes f32 in double
        w, v = np.linalg.eigh(item)
        to[:] = (v * w**-0.25) @ v.T


def scipy_root(a, out):
    for item, to in zip(a, out):
        w, v = scipy.linalg.eigh(item, check_finite=False)
        to[:] = (v * np.maximum(w, 1e-7 * w[-1]) ** -0.25) @ v.T


def roots(gram, rng, n, batch, condition, repeats):
    exact = [spectrum(rng, n, condition) for _ in range(min(batch, 2))]
    a = np.stack([exact[i % len(exact)] for i in range(batch)]).astype(np.float32)
    w, v = np.linalg.eigh(a[0].astype(np.float64))
    truth = (v * w**-0.25) @ v.T
    out = np.empty_like(a)
    methods = {"eigh": EIGH, "coupled_newton": NEWTON, "newton_schulz": SCHULZ, "minimax": MINIMAX}
    contenders = {
        f"gram {name}": lambda m=m: gram.matrix_power(a, out, method=m, condition=condition * 1.01)
        for name, m in methods.items()
        if name == "eigh" or n * batch <= 2048
    }
    contenders["numpy eigh (f64 inside)"] = lambda: numpy_root(a, out)
    contenders["scipy eigh (f32)"] = lambda: scipy_root(a, out)
    errors = {}
    for name, run in contenders.items():
        out.fill(np.nan)
        run()
        errors[name] = float(np.linalg.norm(out[0] - truth) / np.linalg.norm(truth))
    return {
        "work": f"A^(-1/4), {batch} x {n}^2 f32, condition {condition:g}",
        "times": least(contenders, repeats),
        "errors": errors,
    }


def small_solves(gram, rng, n, batch, repeats):
    a = rng.standard_normal((batch, n, n))
    a = (a @ a.transpose(0, 2, 1) + n * np.eye(n)).astype(np.float32)
    b, x = rng.standard_normal((batch, n, 1)).astype(np.float32), np.empty((batch, n, 1), "f4")

    def with_cholesky():
        low = np.linalg.cholesky(a)
        return np.linalg.solve(low.transpose(0, 2, 1), np.linalg.solve(low, b))

    contenders = {
        "gram cholesky": lambda: gram.solve(a, b, x),
        "numpy solve": lambda: np.linalg.solve(a, b),
        "numpy cholesky and two solves": with_cholesky,
    }
    gram.solve(a, b, x)
    error = np.abs(x - np.linalg.solve(a.astype("f8"), b.astype("f8"))).max()
    return {
        "work": f"Cholesky solve, {batch} x {n}^2 f32",
        "times": least(contenders, repeats),
        "errors": {"gram cholesky": float(error)},
    }


def refined(gram, rng, n, rhs, lu, repeats):
    a = rng.standard_normal((n, n))
    if not lu:
        a = a @ a.T / n + 0.01 * np.eye(n)
    b, x = rng.standard_normal((n, rhs)), np.empty((n, rhs))

    def backward():
        r = np.abs(b - a @ x).max(axis=0)
        scale = np.abs(a).sum(axis=1).max() * np.abs(x).max(axis=0) + np.abs(b).max(axis=0)
        return float((r / scale).max())

    contenders = {
        "gram f64": lambda: gram.solve(a, b, x, lu=lu),
        "gram refine": lambda: gram.solve(a, b, x, lu=lu, refine=True),
        "scipy f64": lambda: scipy.linalg.solve(
            a, b, assume_a="gen" if lu else "pos", check_finite=False
        ),
    }
    errors = {}
    for name in ("gram f64", "gram refine"):
        contenders[name]()
        errors[name] = backward()
    return {
        "work": f"{'LU' if lu else 'Cholesky'} solve, {n}^2 f64, {rhs} right-hand sides",
        "times": least(contenders, repeats),
        "errors": errors,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--json")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of libgram")
    parser.add_argument("--order", type=int, default=4000, help="of the refined systems")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    gram = Gram(os.path.abspath(args.library), args.threads)
    n, repeats = args.order, args.repeats
    rows = []
    for row in (
        lambda: roots(gram, rng, 512, 2, 1e6, repeats),
        lambda: roots(gram, rng, 512, 32, 1e6, repeats),
        lambda: roots(gram, rng, 1024, 8, 1e6, repeats),
        lambda: roots(gram, rng, 2048, 1, 1e6, repeats),
        lambda: small_solves(gram, rng, 16, 4096, 10 * repeats),
        lambda: refined(gram, rng, n, 1, False, repeats),
        lambda: refined(gram, rng, n, 10, False, repeats),
        lambda: refined(gram, rng, n, 10, True, repeats),
    ):
        rows.append(row())
        print(rows[-1]["work"])
        for name, (cpu, clock) in rows[-1]["times"].items():
            error = rows[-1]["errors"].get(name)
            end = "" if error is None else f"  error {error:.2g}"
            print(f"  {name:32s} {cpu:9.4f} s processor {clock:9.4f} s{end}", flush=True)
    if args.json:
        machine = {"gram": gram.info, "processor": platform.processor(), "load": os.getloadavg()}
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"machine": machine, "numpy": np.__version__, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
