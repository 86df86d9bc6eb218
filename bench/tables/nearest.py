"""tables/nearest.py - nearest neighbours, and reductions of the rows of kernel matrices

The results that are compared are the distances of sampled rows, or the reduced numbers.
"""

import gram
import numpy as np
from core.place import host, relative
from core.tables import Operation, Problem, both

from tables.pairwise import distances, sampled


class Nearest(Operation):
    name, covers = "nearest", ("nearest",)

    def make(self, place, m, n, k, count, p):
        x, y = place.normal(m, k), place.normal(n, k)
        return Problem(x=x, y=y, count=count, p=p)

    def ours(self, q):
        return lambda: gram.nearest(q.x, q.y, count=q.count, p=q.p)[0]

    def error(self, q, got):
        rows = sampled(len(q.x))
        want = np.sort(distances(host(q.x[rows]), host(q.y), q.p), 1)[:, : q.count]
        return relative(host(got)[rows], want)

    def work(self, q):
        return float(q.m) * q.n * q.k, "terms/s"

    def words(self, q):
        return ("nearest", q.m, q.n, q.k, q.count, f"p={q.p}")


class Reduce(Operation):
    name, covers = "kernel_reduce", ("kernel_reduce",)

    def make(self, place, m, n, k, columns):
        return Problem(x=place.normal(m, k), y=place.normal(n, k), v=place.normal(n, columns))

    def ours(self, q):
        return lambda: gram.kernel_reduce(q.x, q.y, "gaussian", what="softmax", v=q.v)

    def error(self, q, got):
        rows = sampled(len(q.x))
        squares = distances(host(q.x[rows]), host(q.y), 2) ** 2
        weights = np.exp(np.exp(-squares / 2))
        return relative(host(got)[rows], weights @ host(q.v) / weights.sum(1)[:, None])

    def work(self, q):
        return float(q.m) * q.n, "pairs/s"

    def words(self, q):
        return ("kernel_reduce", q.m, q.n, q.k, q.columns, "p=2")


class ReduceGradient(Reduce):
    name, covers = "kernel_reduce_vjp", ("kernel_reduce_vjp",)

    def make(self, place, m, n, k, columns):
        return Problem(x=place.normal(m, k), y=place.normal(n, k), v=place.normal(n, columns),
                       grad=place.normal(m, columns), out=place.empty(m, k))  # fmt: skip

    def ours(self, q):
        return lambda: gram.kernel_reduce_vjp(
            q.x, q.y, "gaussian", what="softmax", v=q.v, grad=q.grad, out=q.out
        )

    def error(self, q, got):
        rows, y, v, want = sampled(len(q.x)), host(q.y), host(q.v), []
        for x, grad in zip(host(q.x[rows]), host(q.grad[rows]), strict=True):
            k = np.exp(-((x - y) ** 2).sum(1) / 2)
            w = np.exp(k) / np.exp(k).sum()
            d = w * (v @ grad - w @ (v @ grad))
            want.append((d * k) @ (y - x))
        return relative(got[rows], np.stack(want))

    def words(self, q):
        return ("kernel_reduce_vjp", q.m, q.n, q.k, q.columns, "p=2")


def rows():
    for p in (2, 1):
        yield both(f"nearest 10 of 10000 x 64, 10000 rows, p = {p}", Nearest(),
                   m=10000, n=10000, k=64, count=10, p=p)  # fmt: skip
    yield both("nearest 100 of 20000 x 8, 2000 rows, p = 2", Nearest(),
               m=2000, n=20000, k=8, count=100, p=2)  # fmt: skip
    yield both("softmax of a Gaussian, 5000 x 5000 x 16, 8 columns", Reduce(),
               m=5000, n=5000, k=16, columns=8)  # fmt: skip
    yield both("its gradient to x", ReduceGradient(), m=5000, n=5000, k=16,
               columns=8)  # fmt: skip


SUBJECTS = {"nearest": list(rows())}
