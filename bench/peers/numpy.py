"""peers/numpy.py - NumPy, with the BLAS and LAPACK that it was built with"""

import numpy as np
from core.shared import chain

NAME, PACKAGES, DEVICES = "NumPy", ["numpy"], ("cpu",)


# ---- Distances ----------------------------------------------------------------------------------


def cdist(q):
    """|x|^2 + |y|^2 - 2 x.y in place, then the root."""
    if q.p != 2:
        return None
    y = q.x if q.y is None else q.y
    out = np.empty_like(q.out)

    def run():
        np.matmul(q.x, y.T, out=out)
        np.multiply(out, -2, out=out)
        np.add(out, np.einsum("ik,ik->i", q.x, q.x)[:, None], out=out)
        np.add(out, np.einsum("jk,jk->j", y, y), out=out)
        np.maximum(out, 0, out=out)
        return np.sqrt(out, out=out)

    return {"by products": run}


def cdist_grad(q, columns=64):
    """Blocks of columns of d that stay in cache (64 was the fastest of 16 to 4000).

    Each makes [K, columns] terms in place and contracts them with the coefficients by BLAS.
    """
    out = np.empty_like(q.out)

    def run():
        for start in range(0, q.d.shape[1], columns):
            part = slice(start, start + columns)
            a = q.a[:, part]
            for n in range(len(q.d)):
                difference = q.d[n, part] - q.b[n][:, None]
                terms = np.sign(difference)
                if q.p != 1:
                    np.abs(difference, out=difference)
                    terms *= np.power(difference, difference.dtype.type(q.p - 1), out=difference)
                terms *= a
                np.einsum("ok,km->om", q.c, terms, out=out[:, n, part], optimize=True)
        return out

    return run


# ---- Linear algebra -----------------------------------------------------------------------------


def solve(q):
    found = {"": lambda: np.linalg.solve(q.a, q.b)}
    if q.batch and not q.lu:

        def with_cholesky():
            low = np.linalg.cholesky(q.a)
            return np.linalg.solve(low.swapaxes(1, 2), np.linalg.solve(low, q.b))

        found["Cholesky and two solves"] = with_cholesky
    return found


def eigh(q):
    return lambda: np.linalg.eigh(q.a)


def matrix_power(q):
    def run():
        for item, to in zip(q.a, out, strict=True):  # NumPy computes f32 in double
            w, v = np.linalg.eigh(item)
            to[:] = (v * w**-0.25) @ v.T
        return out

    out = np.empty_like(q.a)
    return {"eigh, f64 inside": run}


def matmul(q):
    return lambda: np.matmul(q.a, q.b)


# ---- Kronecker products -------------------------------------------------------------------------


def kron_matmul(q):
    if not np.issubdtype(q.x.dtype, np.floating) or q.left:
        return None
    return {"GEMMs": lambda: chain(q.x, q.factors)}


def peak(q):
    return lambda: q.a @ q.a


def kron(q):
    a, b, c = q.factors
    return lambda: np.kron(np.kron(a, b), c)


CALLS = {
    "cdist": cdist,
    "cdist_grad": cdist_grad,
    "solve": solve,
    "eigh": eigh,
    "matrix_power": matrix_power,
    "matmul_batched": matmul,
    "matmul_chunked": matmul,
    "kron_matmul": kron_matmul,
    "peak": peak,
    "kron": kron,
}
