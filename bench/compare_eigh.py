"""compare_eigh.py - the top pairs of a symmetric matrix: libgram's Krylov driver beside SciPy

  bench/compare_eigh.py [--n 4000] [--k 10] [--threads 2] [--rounds 3]
  bench/compare_eigh.py --points 100000 --dimensions 10   a Laplace kernel that is never stored

SciPy's eigh(subset_by_index) is LAPACK's syevr.  Both take turns; printed are the least wall time
and the least processor time of the rounds, and the largest residual |A v - w v| / |A| in f64.  On a
machine that others use too, compare the processor times with --threads 1.
"""

import argparse
import ctypes as c
import os
import resource
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--n", type=int, default=4000)
parser.add_argument("--k", type=int, default=10)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--points", type=int)
parser.add_argument("--dimensions", type=int, default=10)
parser.add_argument("--bandwidth", type=float, default=1.0)
parser.add_argument("--library", default="build/libgram.so")
arguments = parser.parse_args()
os.environ["OPENBLAS_NUM_THREADS"] = str(arguments.threads)  # read when NumPy is loaded

import numpy as np  # noqa: E402
from gram_library import (  # noqa: E402
    LAPLACE,
    EighOptions,
    EighReport,
    Gram,
    KernelOptions,
    number,
    random,
    tensor,
)

LARGEST, KRYLOV = 3, 5


def largest(gram, x, kernel=None):
    """The k largest pairs of x, or of a kernel's matrix of the rows of x, and the report."""
    k = arguments.k
    report = EighReport(size=c.sizeof(EighReport))
    options = EighOptions(size=c.sizeof(EighOptions), select=LARGEST, count=k, driver=KRYLOV)
    options.report = c.pointer(report)
    w, v = np.empty(k, x.dtype), np.empty((len(x), k), x.dtype)
    inputs = [c.byref(tensor(x))] + ([c.byref(kernel)] if kernel else [])
    call = gram.lib.gram_eigh_kernel if kernel else gram.lib.gram_eigh
    outputs = [c.byref(tensor(w)), c.byref(tensor(v)), None]
    gram.check(call(gram.context, *inputs, c.byref(options), *outputs))
    return w, v, report


def seconds(work):
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, np.array([time.perf_counter() - wall, time.process_time() - cpu])


def random_symmetric(n):
    a = random((n, n), np.float64, 0)
    return (a + a.T) / 2


def rbf(n):
    x = random((n, 4), np.float64, 1)
    squares = (x * x).sum(1)
    return np.exp(-np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0) / 4.5)


def residual(a, w, v):
    w, v = np.asarray(w, np.float64), np.asarray(v, np.float64)
    return np.linalg.norm(a @ v - v * w, axis=0).max() / np.abs(w).max()


def compare(gram, name, a, dtype):
    from scipy.linalg import eigh

    n, k = len(a), arguments.k
    a = a.astype(dtype)
    exact = a.astype(np.float64)
    ours, theirs = np.full(2, np.inf), np.full(2, np.inf)
    for _ in range(arguments.rounds):
        (w, v, report), took = seconds(lambda: largest(gram, a))
        ours = np.minimum(ours, took)
        (w2, v2), took = seconds(lambda: eigh(a, subset_by_index=[n - k, n - 1]))
        theirs = np.minimum(theirs, took)
    print(
        f"| {name} {np.dtype(dtype).name} | {theirs[0]:.3f} / {theirs[1]:.3f} | "
        f"{ours[0]:.3f} / {ours[1]:.3f} | {theirs[0] / ours[0]:.1f} / {theirs[1] / ours[1]:.1f} | "
        f"{report.products} | {residual(exact, w2, v2):.1e} | {residual(exact, w, v):.1e} |",
        flush=True,
    )


def implicit(gram, n, d):
    x = random((n, d), np.float32, 2)
    kernel = KernelOptions(size=c.sizeof(KernelOptions), inner=1, function=LAPLACE)
    kernel.p, kernel.outer_power = number(2), number(0.5)
    kernel.bandwidth = kernel.exponent = kernel.alpha = number(arguments.bandwidth)
    kernel.degree = number(3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (w, _, report), took = seconds(lambda: largest(gram, x, kernel))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"n = {n}, d = {d}: {took[0]:.1f} s, processor {took[1]:.1f} s, "
        f"{report.products} products, {took[1] / report.products / n / n * 1e9:.3f} ns a pair of "
        f"points and product, residual {report.residual:.1e}, "
        f"memory {(after - before) / 1024:.0f} MiB, values {w[-1]:.6g} to {w[0]:.6g}"
    )


def main():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    gram = Gram(arguments.library, arguments.threads)
    print(gram.info)
    if arguments.points:
        implicit(gram, arguments.points, arguments.dimensions)
        return
    print("| matrix | syevr wall / cpu s | Krylov | ratio | products | residual syevr | Krylov |")
    print("|---|---|---|---|---|---|---|")
    for name, make in (("RBF", rbf), ("random", random_symmetric)):
        a = make(arguments.n)
        for dtype in (np.float32, np.float64):
            compare(gram, name, a, dtype)


if __name__ == "__main__":
    main()
