#!/usr/bin/env python3
"""compare_threads.py - one thread and two, by the clock: Kronecker products, their gradients, and
batches of small eigenproblems and solves beside NumPy

    PYTHONPATH=build/python bench/compare_threads.py [--threads 2] [--rounds 9]

Prints least times on the clock, so the machine has to be quiet.  NumPy's batches use one thread.
"""

import argparse
import os
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import gram  # noqa: E402
import numpy as np  # noqa: E402

KRON = [  # rows, the order of the factors, their number
    (1024, 8, 5),
    (1024, 16, 4),
    (1024, 32, 3),
    (1024, 64, 2),
    (1024, 128, 2),
    (1, 8, 6),
    (1, 16, 5),
    (1, 32, 4),
    (1, 64, 3),
    (256, 5, 6),
    (256, 31, 3),
]


def least(calls, rounds):
    """The least time of each call, in turns; the first turn is not counted."""
    best = [float("inf")] * len(calls)
    for turn in range(rounds + 1):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            if turn > 0:
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def on(threads, call):
    def run():
        gram.set_threads(threads)
        call()

    return run


def kron(rng, threads, rounds):
    print("rows: factors, f32 | one thread, ms | more | ratio | gradients, one thread | ratio")
    for rows, order, count in KRON:
        x = rng.standard_normal((rows, order**count), dtype=np.float32)
        factors = [rng.standard_normal((order, order), dtype=np.float32) for _ in range(count)]
        y = np.empty_like(x)

        def product(x=x, factors=factors, y=y):
            gram.kron_matmul(x, factors, out=y)

        def gradients(x=x, factors=factors, y=y):
            gram.kron_matmul_vjp(x, factors, grad=y)

        one, more, back = least([on(1, product), on(threads, product), on(1, gradients)], rounds)
        print(
            f"| {rows}: {order}^{count} | {one * 1e3:.3f} | {more * 1e3:.3f} | {one / more:.2f} "
            f"| {back * 1e3:.3f} | {back / one:.1f} |"
        )


def small(rng, threads, rounds):
    print("4096 x 16 x 16 | one thread, ms | more | NumPy | NumPy to more")
    for dtype in np.float32, np.float64:
        a = rng.standard_normal((4096, 16, 16)).astype(dtype)
        a = a @ a.transpose(0, 2, 1) + 16 * np.eye(16, dtype=dtype)
        b = rng.standard_normal((4096, 16, 1)).astype(dtype)
        for name, ours, theirs in [
            ("eigh", lambda a=a: gram.eigh(a), lambda a=a: np.linalg.eigh(a)),
            (
                "Cholesky solve",
                lambda a=a, b=b: gram.solve_cholesky(a, b),
                lambda a=a, b=b: np.linalg.solve(a, b),
            ),
        ]:
            one, more, peer = least([on(1, ours), on(threads, ours), theirs], rounds)
            print(
                f"| {name}, {np.dtype(dtype).name} | {one * 1e3:.2f} | {more * 1e3:.2f} "
                f"| {peer * 1e3:.2f} | {peer / more:.1f} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    small(rng, args.threads, args.rounds)
    kron(rng, args.threads, args.rounds)


if __name__ == "__main__":
    main()
