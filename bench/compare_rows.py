"""compare_rows.py - what is measured: the problems, who else does them, and what libgram must reach

A row's targets are pairs (peers, factor): the fastest of those peers must take at least factor
times libgram's time.  Data are standard normal, seeded; answers are checked against SciPy or NumPy
in double on a few rows.
"""

import numpy as np

import compare_peers as peers
from gram_library import GAUSSIAN, LAPLACE, random

CDIST_PEERS = {
    "scipy": peers.scipy_cdist,
    "scikit-learn": peers.sklearn_cdist,
    "faiss": peers.faiss_cdist,
    "KeOps": peers.keops_cdist,
    "numpy GEMM": peers.numpy_gemm,
}
TOLERANCE = {"float32": 2e-5, "float64": 1e-6}  # KeOps keeps the exponent in f32


class Problem:
    """What a peer sees."""

    def __init__(self, **members):
        self.__dict__.update(members)


class Row:
    def __init__(self, key, title, targets=()):
        self.key, self.title, self.targets = key, title, targets

    def relative_error(self, got, want):
        return float(np.max(np.abs(got - want)) / np.max(np.abs(want)))


class Cdist(Row):
    def __init__(self, key, shape, p, dtype, names, targets):
        self.shape, self.p, self.dtype, self.names = shape, p, dtype, names
        label = "inf" if p == np.inf else f"{p:g}"
        super().__init__(
            key, f"cdist {list(shape)} p={label} {'f32' if dtype == 'float32' else 'f64'}", targets
        )
        self.work = float(np.prod(shape))
        self.rows = shape[0]

    def prepare(self, gram, threads):
        m, n, k = self.shape
        self.x, self.y = random((m, k), self.dtype, 1), random((n, k), self.dtype, 2)
        self.out = np.empty((m, n), self.dtype)
        self.peer_out = (
            np.empty((m, n), self.dtype) if {"faiss", "numpy GEMM"} & set(self.names) else None
        )
        q = Problem(x=self.x, y=self.y, p=self.p, out=self.peer_out, threads=threads)
        runs = {name: CDIST_PEERS[name](q) for name in self.names}
        if gram:
            runs["gram"] = lambda x: self.run_gram(gram, x)
        return runs

    def run_gram(self, gram, x):
        gram.cdist(x, self.y, self.p, self.out[: len(x)])
        return self.out

    def input(self, rows):
        return self.x[:rows]

    def error(self, name, got):
        from scipy.spatial.distance import cdist

        metric, extra = {1: ("cityblock", {}), 2: ("euclidean", {}), np.inf: ("chebyshev", {})}.get(
            self.p, ("minkowski", {"p": self.p})
        )
        want = cdist(self.x[:3].astype(np.float64), self.y.astype(np.float64), metric, **extra)
        if name == "KeOps":
            return self.relative_error(np.asarray(got)[:3].ravel(), want.sum(axis=1))
        if name == "faiss" and self.p != np.inf:
            want **= self.p
        return self.relative_error(got[:3], want)


class Symmetric(Row):
    """x with itself must take at most 0.58 of the time of x with y: both are libgram."""

    def __init__(self, key, shape, p, dtype):
        self.shape, self.p, self.dtype = shape, p, dtype
        super().__init__(
            key, f"cdist {list(shape)} x = y, p={p:g} {'f32' if dtype == 'float32' else 'f64'}"
        )
        self.targets = [(["gram, x and y"], 1 / 0.58)]
        self.work, self.rows = float(np.prod(shape)), shape[0]

    def prepare(self, gram, threads):
        m, n, k = self.shape
        self.x, self.y = random((m, k), self.dtype, 1), random((n, k), self.dtype, 2)
        self.out, self.other = np.empty((m, n), self.dtype), np.empty((m, n), self.dtype)
        if not gram:
            return {}
        return {
            "gram, x and y": lambda x: self.run(gram, self.y, self.other),
            "gram": lambda x: self.run(gram, None, self.out),
        }

    def run(self, gram, y, out):
        gram.cdist(self.x, y, self.p, out)
        return out

    def input(self, rows):
        return self.x[:rows]

    def error(self, name, got):
        from scipy.spatial.distance import cdist

        y = self.x if name == "gram" else self.y
        want = cdist(self.x[:3].astype(np.float64), y.astype(np.float64), "minkowski", p=self.p)
        return self.relative_error(got[:3], want)


class Kernel(Row):
    def __init__(self, key, shape, function, targets):
        self.shape, self.function, self.dtype, self.bandwidth = shape, function, "float32", 4.0
        super().__init__(key, f"{function} kernel {list(shape)} f32", targets)
        self.work, self.rows = float(np.prod(shape)), shape[0]

    def prepare(self, gram, threads):
        m, n, k = self.shape
        self.x, self.y = random((m, k), self.dtype, 1), random((n, k), self.dtype, 2)
        self.out = np.empty((m, n), self.dtype)
        q = Problem(y=self.y, function=self.function, bandwidth=self.bandwidth, threads=threads)
        runs = {
            "scikit-learn": peers.sklearn_kernel(q),
            "scikit-learn, n_jobs": peers.sklearn_kernel_jobs(q),
        }
        if gram:
            runs["gram"] = lambda x: self.run_gram(gram, x)
        return runs

    def run_gram(self, gram, x):
        if self.function == "laplace":
            gram.kernel(x, self.y, self.out, LAPLACE, self.bandwidth, p=1.0)
        else:
            gram.kernel(x, self.y, self.out, GAUSSIAN, self.bandwidth)
        return self.out

    def input(self, rows):
        return self.x[:rows]

    def error(self, name, got):
        d = self.x[:3, None, :].astype(np.float64) - self.y[None].astype(np.float64)
        if self.function == "laplace":
            want = np.exp(-np.abs(d).sum(axis=2) / self.bandwidth)
        else:
            want = np.exp(-(d**2).sum(axis=2) / (2 * self.bandwidth**2))
        return self.relative_error(got[:3], want)


class CdistGrad(Row):
    """a[K, M], b[N, K], c[O, K], d[N, M]; a peer may be measured on a part of the N features."""

    def __init__(self, key, k, n, m, o, p):
        self.k, self.n, self.m, self.o, self.p, self.dtype = k, n, m, o, p, "float32"
        super().__init__(
            key, f"cdist_grad K={k} M={m} N={n} O={o} p={p:g} f32", [(["NumPy einsum"], 20)]
        )
        self.work, self.rows = float(k * n * m), n

    def prepare(self, gram, threads):
        self.a, self.b = random((self.k, self.m), self.dtype, 1), random(
            (self.n, self.k), self.dtype, 2
        )
        self.c, self.d = random((self.o, self.k), self.dtype, 3), random(
            (self.n, self.m), self.dtype, 4
        )
        self.out = np.empty((self.o, self.n, self.m), self.dtype)
        q = Problem(a=self.a, b=self.b, c=self.c, p=self.p, out=np.empty_like(self.out))
        runs = {"NumPy einsum": peers.numpy_cdist_grad(q)}
        if gram:
            runs["gram"] = lambda d: self.run_gram(gram)
        return runs

    def run_gram(self, gram):
        gram.cdist_grad(self.a, self.b, self.c, self.d, self.p, self.out)
        return self.out

    def input(self, rows):
        return self.d[:rows]

    def error(self, name, got):
        d = self.d[:2, None, :5].astype(np.float64) - self.b[:2, :, None]
        terms = np.sign(d) * np.abs(d) ** (self.p - 1) * self.a[None, :, :5]
        return self.relative_error(
            got[:, :2, :5], np.einsum("ok,nkm->onm", self.c.astype(np.float64), terms)
        )


BIG, WIDE = (4000, 4000, 256), (10000, 10000, 16)
ALL = ["scipy", "scikit-learn", "faiss", "KeOps"]
DOUBLE = ["scipy", "scikit-learn", "KeOps"]

ROWS = [
    Cdist("cdist-p1", BIG, 1, "float32", ALL, [(["faiss"], 5), (["scikit-learn"], 15)]),
    Cdist("cdist-p1.3", BIG, 1.3, "float32", ALL, [(["KeOps"], 16), (["scikit-learn"], 35)]),
    Cdist("cdist-p0.5", BIG, 0.5, "float32", ALL, [(["KeOps"], 7)]),
    Cdist("cdist-inf", BIG, np.inf, "float32", ALL, [(["scikit-learn"], 15)]),
    Cdist("cdist-p2", BIG, 2, "float32", ALL + ["numpy GEMM"], [(["faiss"], 0.95)]),
    Cdist("cdist-wide-p1", WIDE, 1, "float32", ALL, [(ALL, 3.5)]),
    Cdist("cdist-wide-p1.3", WIDE, 1.3, "float32", ALL, [(ALL, 15)]),
    Cdist("cdist-wide-p2", WIDE, 2, "float32", ALL + ["numpy GEMM"], [(ALL + ["numpy GEMM"], 1.2)]),
    Cdist("cdist-f64-p1", BIG, 1, "float64", DOUBLE, [(DOUBLE, 8)]),
    Cdist("cdist-f64-p1.3", BIG, 1.3, "float64", DOUBLE, [(DOUBLE, 8)]),
    Cdist("cdist-f64-p0.5", BIG, 0.5, "float64", DOUBLE, [(DOUBLE, 5)]),
    Cdist("cdist-f64-inf", BIG, np.inf, "float64", DOUBLE, [(DOUBLE, 7)]),
    Cdist("cdist-f64-p2", BIG, 2, "float64", DOUBLE + ["numpy GEMM"], [(["numpy GEMM"], 1)]),
    Kernel("kernel-laplace", WIDE, "laplace", [(["scikit-learn", "scikit-learn, n_jobs"], 13)]),
    Kernel("kernel-gaussian", WIDE, "gaussian", [(["scikit-learn", "scikit-learn, n_jobs"], 9)]),
    CdistGrad("grad-o1-p1", 4000, 64, 4000, 1, 1),
    CdistGrad("grad-o1-p1.3", 4000, 64, 4000, 1, 1.3),
    CdistGrad("grad-o10-p1", 4000, 64, 4000, 10, 1),
    CdistGrad("grad-o10-p1.3", 4000, 64, 4000, 10, 1.3),
    Symmetric("symmetric-p1", BIG, 1, "float32"),
    Symmetric("symmetric-p1.3", BIG, 1.3, "float32"),
    Symmetric("symmetric-p2", BIG, 2, "float32"),
]
