"""compare_peers.py - the same work done by other packages, each by its fastest way known here

Every function takes a problem (y, p, out, threads or a, b, c, p, out) and returns a callable that
does the work once, for the rows of x (or features d) that it is given, and returns the result.
"""

import numpy as np


def scipy_cdist(q):
    from scipy.spatial.distance import cdist

    names = {1: "cityblock", 2: "euclidean", np.inf: "chebyshev"}
    if q.p in names:
        return lambda x: cdist(x, q.y, names[q.p])
    return lambda x: cdist(x, q.y, "minkowski", p=q.p)


def sklearn_cdist(q):
    from sklearn.metrics import pairwise_distances

    names = {1: "manhattan", 2: "euclidean", np.inf: "chebyshev"}
    if q.p in names:
        return lambda x: pairwise_distances(x, q.y, metric=names[q.p], n_jobs=q.threads)
    return lambda x: pairwise_distances(x, q.y, metric="minkowski", p=q.p, n_jobs=q.threads)


def faiss_cdist(q):
    """Sums without the root, written into a reused output by faiss's C++ functions."""
    import faiss

    faiss.omp_set_num_threads(q.threads)
    pointer = faiss.swig_ptr

    def squared(x):
        faiss.pairwise_L2sqr(x.shape[1], len(x), pointer(x), len(q.y), pointer(q.y), pointer(q.out))
        return q.out[: len(x)]

    metric, arg = {1: (faiss.METRIC_L1, 0), np.inf: (faiss.METRIC_Linf, 0)}.get(
        q.p, (faiss.METRIC_Lp, q.p)
    )

    def extra(x):
        faiss.pairwise_extra_distances(
            x.shape[1], len(x), pointer(x), len(q.y), pointer(q.y), metric, arg, pointer(q.out)
        )
        return q.out[: len(x)]

    return squared if q.p == 2 else extra


def keops_cdist(q):
    """Sums over each row of the distance matrix, which is never stored."""
    import pykeops

    pykeops.set_verbose(False)
    from pykeops.numpy import LazyTensor

    yj = LazyTensor(q.y[None, :, :])

    def run(x):
        difference = LazyTensor(x[:, None, :]) - yj
        if q.p == 1:
            s = difference.abs().sum(-1)
        elif q.p == 2:
            s = difference.sqnorm2().sqrt()
        elif q.p == 0.5:
            s = difference.abs().sqrt().sum(-1).square()
        elif q.p == np.inf:
            s = difference.abs().max(-1)
        else:
            s = (difference.abs() ** q.p).sum(-1) ** (1 / q.p)
        return s.sum(axis=1)

    return run


def numpy_gemm(q):
    """|x|^2 + |y|^2 - 2 x.y in place, then the root."""

    def run(x):
        out = q.out[: len(x)]
        np.matmul(x, q.y.T, out=out)
        out *= -2
        out += np.einsum("ik,ik->i", x, x)[:, None]
        out += np.einsum("jk,jk->j", q.y, q.y)
        np.maximum(out, 0, out=out)
        return np.sqrt(out, out=out)

    return run


def sklearn_kernel(q):
    from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

    if q.function == "laplace":
        return lambda x: laplacian_kernel(x, q.y, gamma=1 / q.bandwidth)
    return lambda x: rbf_kernel(x, q.y, gamma=1 / (2 * q.bandwidth**2))


def sklearn_kernel_jobs(q):
    from sklearn.metrics.pairwise import pairwise_kernels

    name, gamma = (
        ("laplacian", 1 / q.bandwidth)
        if q.function == "laplace"
        else ("rbf", 1 / (2 * q.bandwidth**2))
    )
    return lambda x: pairwise_kernels(x, q.y, metric=name, n_jobs=q.threads, gamma=gamma)


def numpy_cdist_grad(q, columns=64):
    """Blocks of columns of d that stay in cache (64 was the fastest of 16 to 4000).

    Each makes [K, columns] terms in place and contracts them with the coefficients by BLAS.
    """

    def run(d):
        out = q.out[:, : len(d)]
        for start in range(0, d.shape[1], columns):
            part = slice(start, start + columns)
            a = q.a[:, part]
            for n in range(len(d)):
                difference = d[n, part] - q.b[n][:, None]
                terms = np.sign(difference)
                if q.p != 1:
                    np.abs(difference, out=difference)
                    terms *= np.power(difference, difference.dtype.type(q.p - 1), out=difference)
                terms *= a
                np.einsum("ok,km->om", q.c, terms, out=out[:, n, part], optimize=True)
        return out

    return run
