"""tables/eigh.py - eigenvalues and vectors: all pairs, the largest ones, of matrices never stored

The error is the largest residual |A v - w v| over |A|, of the first matrix of a batch; where only
values are compared, their relative error.
"""

import gram
import numpy as np
from core.place import host, relative
from core.tables import Call, Operation, Problem, Row


def residual(a, w, v):
    a, w, v = host(a), host(w), host(v)
    return float(np.linalg.norm(a @ v - v * w, axis=0).max() / np.abs(w).max())


class Eigh(Operation):
    """All pairs of a matrix, or of a batch."""

    name, covers = "eigh", ("eigh",)

    def make(self, place, n, batch=0, dtype="float32"):
        lead = (batch,) if batch else ()
        return Problem(a=place.definite(n, *lead, dtype=dtype), batch=batch)

    def ours(self, q):
        return lambda: gram.eigh(q.a)

    def error(self, q, got):
        first = 0 if q.batch else slice(None)
        return residual(q.a[first], got[0][first], got[1][first])

    def words(self, q):
        return ("eigh", max(q.batch, 1), q.n)


def rbf(place, n, dtype):
    x = place.random.standard_normal((n, 4))
    squares = (x * x).sum(1)
    return place.array(
        np.exp(-np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0) / 4.5), dtype
    )


def symmetric(place, n, dtype):
    a = place.random.standard_normal((n, n))
    return place.array((a + a.T) / 2, dtype)


def definite(place, n, dtype):
    return place.definite(n, dtype=dtype)


MATRICES = {"RBF kernel": rbf, "random symmetric": symmetric, "definite": definite}


class Top(Operation):
    """The largest pairs of a stored matrix by the Krylov driver."""

    name, covers, limits = "eigh_top", (), {"float32": 1e-3, "float64": 1e-6}

    def make(self, place, n, count, matrix, dtype="float32", driver="krylov"):
        return Problem(a=MATRICES[matrix](place, n, dtype), driver=driver)

    def tiny(self, parameters):
        return {**parameters, "n": 60, "count": 3}

    def ours(self, q):
        report = {}
        return Call(
            lambda: gram.eigh(q.a, select="largest", count=q.count, driver=q.driver, report=report),
            tell=lambda got: {"products": report.get("products")},
        )

    def error(self, q, got):
        return residual(q.a, *got)

    def words(self, q):
        return ("eigh", 1, q.n, f"k={q.count}")


class TopOfKernel(Operation):
    """The largest pairs of a Laplace kernel's matrix of points, which is never stored."""

    name, covers, limits = "eigh_kernel", ("eigh_kernel",), {}

    def make(self, place, n, k, count, bandwidth, uniform=True):
        draw = place.uniform if uniform else place.normal
        return Problem(x=draw(n, k))

    def tiny(self, parameters):
        return {**parameters, "n": 60, "count": 3}

    def ours(self, q):
        report = {}
        return Call(
            lambda: gram.eigh_kernel(
                q.x, kernel="laplace", bandwidth=q.bandwidth, count=q.count, report=report
            ),
            tell=lambda got: {"products": report.get("products"),
                              "residual": report.get("residual")},
        )  # fmt: skip

    def error(self, q, got):
        if q.n > 6000:  # the matrix would have to be stored
            return None
        x, w, v = host(q.x), host(got[0]), host(got[1])
        squares = (x * x).sum(1)
        k = np.sqrt(np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0))
        return residual(np.exp(-k / q.bandwidth), w, v)

    def words(self, q):
        return ("eigh_kernel", q.n, q.k, f"k={q.count}")


class Many(Operation):
    name, covers = "eigh_many", ("eigh_many",)

    def make(self, place, orders):
        return Problem(parts=[place.definite(n) for n in orders])

    def tiny(self, parameters):
        return {"orders": [8, 12]}

    def ours(self, q):
        return lambda: gram.eigh_many(q.parts)

    def error(self, q, got):
        return relative(got[0][0], np.linalg.eigvalsh(host(q.parts[0])))


EIGH, TOP, KERNEL = Eigh(), Top(), TopOfKernel()


def rows():
    cpu, cuda = {"n": 700}, {"n": 2000}
    yield Row("all pairs", EIGH, cpu, cuda)
    for dtype in ("float32", "float64"):
        given = {"n": 16, "batch": 4096, "dtype": dtype}
        yield Row(f"4096 of order 16, {dtype}", EIGH, given)
        for n, batch in ((512, 32), (64, 256), (32, 1024), (3, 10**6)):
            given = {"n": n, "batch": batch, "dtype": dtype}
            yield Row(f"{batch} of order {n}, {dtype}", EIGH, None, given)
    yield Row("4096 of order 3", EIGH, {"n": 3, "batch": 4096})
    yield Row("256 of order 32", EIGH, *[{"n": 32, "batch": 256}] * 2)
    yield Row("one of order 10000", EIGH, None, {"n": 10000})
    for matrix in ("RBF kernel", "random symmetric"):
        for dtype in ("float32", "float64"):
            cpu, cuda = ({"n": n, "count": 10, "matrix": matrix, "dtype": dtype}
                         for n in (4000, 10000))  # fmt: skip
            yield Row(f"10 largest of {matrix}, {dtype}", TOP, cpu, cuda)
    cpu, cuda = ({"n": n, "count": 10, "matrix": "definite", "driver": "auto"}
                 for n in (2000, 4000))  # fmt: skip
    yield Row("10 largest", TOP, cpu, cuda)
    cpu, cuda = ({"n": n, "k": 8, "count": 10, "bandwidth": 1.0} for n in (3000, 5000))
    yield Row("10 largest of a Laplace kernel of points", KERNEL, cpu, cuda)
    cpu, cuda = ({"n": n, "k": 10, "count": 10, "bandwidth": 1.0, "uniform": False}
                 for n in (10**5, 10**6))  # fmt: skip
    yield Row("10 largest of a Laplace kernel of many points", KERNEL, cpu, cuda, apart=True)
    yield Row("three orders", Many(), {"orders": [256, 320, 384]}, {"orders": [512, 640, 768]})


SUBJECTS = {"eigh": list(rows())}
