"""tables/pairwise.py - distances, kernels, their products and derivatives

Problems lie in x [m, k] and y [n, k]; the first rows of y are near rows of x, where p = 2 by
products of matrices is wrong.  Errors are relative to the largest element of sampled rows.
"""

import functools
import math

import gram
import numpy as np
from core.place import host, relative
from core.tables import Call, Operation, Problem, Row, both, derived

NEAR, SAMPLES = 4, 8  # rows with a near neighbour; rows of the output that are checked


def points(place, m, n, k, dtype):
    x, y = place.normal(m, k, dtype=dtype), place.normal(n, k, dtype=dtype)
    near = min(NEAR, m, n)
    y[:near] = x[:near] + 1e-4 * (place.uniform(near, k, dtype=dtype) - 0.5)
    return x, y


def distances(x, y, p):
    """NumPy's, in float64, of a few rows of x."""
    rows = []
    for row in x:
        d = np.abs(y - row)
        if p == np.inf:
            rows.append(d.max(1))
        elif p == 0:
            rows.append((d != 0).sum(1).astype(float))
        else:
            rows.append((d**p).sum(1) ** (1 / p))
    return np.stack(rows)


def sampled(count):
    near = list(range(min(NEAR, count)))
    return sorted({*near, *range(0, count, max(1, count // SAMPLES))})


def of_points(q):
    """Some rows of x, and y, in float64."""
    rows = sampled(len(q.x))
    return rows, host(q.x[rows]), host(q.x if q.y is None else q.y)


class Pairs(Operation):
    """Whatever has an output [m, n] of x and y."""

    def work(self, q):
        return float(q.m) * q.n * q.k, "terms/s"

    def rows(self, q):
        return 0 if q.y is None else q.m

    def cut(self, q, rows):
        return derived(q, x=q.x[:rows], out=q.out[:rows], m=rows)


class Cdist(Pairs):
    name, covers = "cdist", ("cdist", "compat.scipy.cdist", "compat.torch.cdist",
                             "compat.kermac.cdist", "compat.sklearn.pairwise_distances")

    def make(self, place, m, n, k, p, dtype="float32", same=False):
        x, y = points(place, m, n, k, dtype)
        if p == 0:
            x, y = (place.array(np.round(host(t)), dtype) for t in (x, y))
        return Problem(x=x, y=None if same else y, out=place.empty(m, n, dtype=dtype))

    def ours(self, q):
        return lambda: gram.cdist(q.x, q.y, p=q.p, out=q.out)

    def error(self, q, got):
        rows, x, y = of_points(q)
        return relative(got[rows], distances(x, y, q.p))

    def words(self, q):
        return ("cdist", q.m, q.n, q.k, f"p={q.p:g}", *["symmetric=1"] * (q.y is None))


# Metrics in a peer's words, and their formulas in float64 for a row and all rows.
METRICS = {
    "weighted euclidean": ({"p": 2}, lambda x, y, w: np.sqrt((w * (x - y) ** 2).sum(1))),
    "seuclidean": ({}, lambda x, y, w: np.sqrt(((x - y) ** 2 / w).sum(1))),
    "cosine": ({}, lambda x, y, w: 1 - y @ x / np.sqrt((x @ x) * (y * y).sum(1))),
    "correlation": ({}, lambda x, y, w: 1 - np.corrcoef(x, y)[0, 1:]),
    "canberra": ({}, lambda x, y, w: (abs(x - y) / (abs(x) + abs(y))).sum(1)),
    "braycurtis": ({}, lambda x, y, w: abs(x - y).sum(1) / abs(x + y).sum(1)),
    "hamming": ({}, lambda x, y, w: (x != y).mean(1)),
    "jaccard": ({}, lambda x, y, w: ((x != 0) != (y != 0)).sum(1) / ((x != 0) | (y != 0)).sum(1)),
    "jensenshannon": ({}, lambda x, y, w: _jensen_shannon(x / x.sum(), y / y.sum(1)[:, None])),
    "chi2": ({}, lambda x, y, w: ((x - y) ** 2 / (x + y)).sum(1)),
    "nan-euclidean": ({}, lambda x, y, w: np.sqrt(np.nanmean((x - y) ** 2, axis=1) * x.size)),
    "haversine": ({}, lambda x, y, w: 2 * np.arcsin(np.sqrt(
        np.sin((x[0] - y[:, 0]) / 2) ** 2
        + np.cos(x[0]) * np.cos(y[:, 0]) * np.sin((x[1] - y[:, 1]) / 2) ** 2))),
}  # fmt: skip


def _jensen_shannon(x, y):
    m = (x + y) / 2
    return np.sqrt(((x * np.log(x / m)).sum(1) + (y * np.log(y / m)).sum(1)) / 2)


class Metric(Pairs):
    """Distances that are no p-norm, of positive numbers."""

    name, covers, limits = "metric", (), {"float32": 1e-4, "float64": 1e-7}

    def make(self, place, m, n, k, metric, dtype="float64"):
        k = 2 if metric == "haversine" else k
        x, y = (abs(host(place.normal(rows, k, dtype=dtype))) + 0.01 for rows in (m, n))
        if metric in ("hamming", "jaccard"):
            x, y = x > 0.7, y > 0.7
        if metric == "nan-euclidean":
            x[::3, 1], y[::4, 2] = np.nan, np.nan
        x, y = (place.array(t, dtype) for t in (x, y))
        weights = place.array(np.linspace(0.5, 2, k), "float64")
        return Problem(x=x, y=y, weights=weights, out=place.empty(m, n, dtype=dtype))

    def ours(self, q):
        options = dict(METRICS[q.metric][0])
        if q.metric != "weighted euclidean":
            options["metric"] = q.metric
        if q.metric in ("weighted euclidean", "seuclidean"):
            options["weights"] = q.weights
        return lambda: gram.cdist(q.x, q.y, out=q.out, **options)

    def error(self, q, got):
        rows, x, y = of_points(q)
        formula, w = METRICS[q.metric][1], host(q.weights)
        return relative(got[rows], np.stack([formula(row, y, w) for row in x]))


class Pdist(Pairs):
    """Condensed distances of SciPy's users."""

    name, covers, limits = "pdist", ("compat.scipy.pdist",), {"float64": 1e-12}

    def make(self, place, m, k, p, dtype="float64"):
        return Problem(x=place.normal(m, k, dtype=dtype), y=None)

    def ours(self, q):
        from gram.compat.scipy import pdist

        return lambda: pdist(q.x, "minkowski", p=q.p)

    def error(self, q, got):
        want = distances(host(q.x[:1]), host(q.x[1:]), q.p)
        return relative(got[: q.m - 1], want[0])

    def work(self, q):
        return q.m * (q.m - 1) / 2 * q.k, "terms/s"


LENGTH = 10.0
ROOT3, ROOT5 = math.sqrt(3), math.sqrt(5)
# A kernel's options, its formula, and what `gram bench` calls it.  In a formula v has the options,
# distances v.d(p), products v.dot() and cosines v.cos() of the points, and exp and tanh.
KERNELS = {
    "laplace": ({"bandwidth": LENGTH}, lambda v: v.exp(-v.d(2) / v.bandwidth),
                "function=laplace outer=0.5 bandwidth={bandwidth}"),
    "lpq-laplace": ({"bandwidth": LENGTH, "p": 1.3, "exponent": 1.2},
                    lambda v: v.exp(-((v.d(v.p) / v.bandwidth) ** v.exponent)),
                    "function=exponential_power p={p} outer={inverse} exponent={exponent} "
                    "bandwidth={bandwidth}"),
    "product-laplace": ({"bandwidth": 60.0, "exponent": 1.0},
                        lambda v: v.exp(-((v.d(v.exponent) / v.bandwidth) ** v.exponent)),
                        "function=laplace p={exponent} outer=1 bandwidth={bandwidth}"),
    "gaussian": ({"bandwidth": LENGTH}, lambda v: v.exp(-(v.d(2) ** 2) / (2 * v.bandwidth**2)),
                 "function=gaussian bandwidth={bandwidth}"),
    "matern32": ({"bandwidth": LENGTH},
                 lambda v: (lambda t: (1 + t) * v.exp(-t))(ROOT3 / v.bandwidth * v.d(2)),
                 "function=matern32 outer=0.5 bandwidth={bandwidth}"),
    "matern52": ({"bandwidth": LENGTH},
                 lambda v: (lambda t: (1 + t + t * t / 3) * v.exp(-t))(
                     ROOT5 / v.bandwidth * v.d(2)),
                 "function=matern52 outer=0.5 bandwidth={bandwidth}"),
    "rational-quadratic": ({"bandwidth": LENGTH, "alpha": 1.5},
                           lambda v: (1 + v.d(2) ** 2 / (2 * v.alpha * v.bandwidth**2)) ** -v.alpha,
                           "function=rational_quadratic alpha={alpha} bandwidth={bandwidth}"),
    "linear": ({}, lambda v: v.dot(), "function=identity inner=dot"),
    "polynomial": ({"gamma": 0.1, "coef0": 1.0, "degree": 3.0},
                   lambda v: (v.gamma * v.dot() + v.coef0) ** v.degree,
                   "function=polynomial inner=dot gamma={gamma} coef0={coef0} degree={degree}"),
    "sigmoid": ({"gamma": 0.01, "coef0": 0.5}, lambda v: v.tanh(v.gamma * v.dot() + v.coef0),
                "function=sigmoid inner=dot gamma={gamma} coef0={coef0}"),
    "cosine": ({}, lambda v: v.cos(), "function=cosine inner=dot"),
    "distance": ({"p": 3.0}, lambda v: v.d(v.p), "function=identity p={p} outer={inverse}"),
}  # fmt: skip


class KernelMatrix(Pairs):
    name, covers = "kernel", ("kernel", "compat.sklearn.pairwise_kernels")

    def make(self, place, m, n, k, kernel, dtype="float32", **options):
        x, y = points(place, m, n, k, dtype)
        given = {**KERNELS[kernel][0], **options}
        return Problem(x=x, y=y, out=place.empty(m, n, dtype=dtype), given=given,
                       formula=KERNELS[kernel][1])  # fmt: skip

    def tiny(self, parameters):
        return {k: min(v, 20) if k in "mnk" else v for k, v in parameters.items()}

    def ours(self, q):
        return lambda: gram.kernel(q.x, q.y, q.kernel, out=q.out, **q.given)

    def error(self, q, got):
        rows, x, y = of_points(q)

        def cosines():
            a, b = (t / np.linalg.norm(t, axis=1, keepdims=True) for t in (x, y))
            return a @ b.T

        want = q.formula(Problem(d=functools.partial(distances, x, y), dot=lambda: x @ y.T,
                                 cos=cosines, exp=np.exp, tanh=np.tanh, **q.given))  # fmt: skip
        if q.given.get("regularization"):
            want[range(len(rows)), rows] += q.given["regularization"]
        return relative(got[rows], want)

    def words(self, q):
        if q.given.get("regularization"):
            return None
        text = KERNELS[q.kernel][2].format(inverse=1 / q.given.get("p", 1), **q.given)
        return ("kernel", q.m, q.n, q.k, *text.split())


class Gradients(Operation):
    """a [k, m], b [n, k], c [o, k], d [n, m]: gradients of sums of distances to k points."""

    name, covers = "cdist_grad", ("cdist_grad",)
    limits = {"float32": 1e-3}

    def make(self, place, k, m, n, o, p, dtype="float32"):
        draw = functools.partial(place.uniform, dtype=dtype)
        q = Problem(a=draw(k, m), b=draw(n, k), c=draw(o, k) - 0.5, d=draw(n, m))
        q.out = place.empty(*self.shape(m, n, o), dtype=dtype)
        return q

    def shape(self, m, n, o):
        return o, n, m

    def rows(self, q):
        return q.n

    def cut(self, q, rows):
        return derived(q, b=q.b[:rows], d=q.d[:rows], out=q.out[:, :rows], n=rows)

    def ours(self, q):
        return lambda: gram.cdist_grad(q.a, q.b, q.c, q.d, p=q.p, out=q.out)

    def exact(self, q, columns):
        a, b, c, d = (host(t) for t in (q.a[:, columns], q.b, q.c, q.d[:, columns]))
        found = []
        for i in range(len(columns)):
            off = d[:, i, None] - b
            size = np.where(off == 0, 0, np.abs(off) ** (q.p - 1))
            found.append((c * a[:, i]) @ (np.sign(off) * size).T)
        return np.stack(found, 2)

    def error(self, q, got):
        columns = list(range(0, q.m, max(1, q.m // SAMPLES)))
        return relative(got[:, :, columns], self.exact(q, columns))

    def work(self, q):
        return float(q.k) * q.m * q.n, "terms/s"

    def words(self, q):
        return (self.name, q.k, q.m, q.n, q.o, f"p={q.p:g}")


class Agop(Gradients):
    """The average outer product of these gradients, beside the gradients alone."""

    name, covers = "agop", ("agop",)

    def shape(self, m, n, o):
        return n, n

    def rows(self, q):
        return 0

    def ours(self, q):
        grad = q.place.empty(q.o, q.n, q.m, dtype=q.dtype)
        return {
            "": lambda: gram.agop(q.a, q.b, q.c, q.d, p=q.p, out=q.out),
            "the gradient alone": Call(
                lambda: gram.cdist_grad(q.a, q.b, q.c, q.d, p=q.p, out=grad), error=lambda got: None
            ),
        }

    def error(self, q, got):
        """Against the product of the gradients, which have rows of their own."""
        g = host(gram.cdist_grad(q.a, q.b, q.c, q.d, p=q.p)).swapaxes(0, 1).reshape(q.n, -1)
        return relative(got, g @ g.T / q.m)


class KernelProduct(Operation):
    """K(x, y) v, the kernel's matrix never stored."""

    name, covers, limits = "kernel_matmul", ("kernel_matmul",), {"float32": 1e-3}

    def make(self, place, n, k, columns):
        return Problem(x=place.normal(n, k), y=place.normal(n, k),
                       v=place.normal(n, columns), out=place.empty(n, columns))  # fmt: skip

    def ours(self, q):
        return lambda: gram.kernel_matmul(q.x, q.y, "lpq-laplace", p=1.0, v=q.v, out=q.out)

    def error(self, q, got):
        rows = sampled(q.n)
        k = np.exp(-distances(host(q.x[rows]), host(q.y), 1))
        return relative(got[rows], k @ host(q.v))

    def work(self, q):
        return float(q.n) * q.n * (q.k + q.columns), "terms/s"

    def words(self, q):
        return ("kernel_matmul", q.n, q.n, q.k, q.columns, "p=1")


class KernelGradient(Operation):
    """The derivative of sum(grad * K(x, y)) to x, of the Laplace kernel of p = 1."""

    name, covers, limits = "kernel_vjp", ("kernel_vjp",), {"float32": 1e-3}

    def make(self, place, n, k):
        return Problem(x=place.normal(n, k), y=place.normal(n, k), grad=place.normal(n, n),
                       out=place.empty(n, k))  # fmt: skip

    def ours(self, q):
        return lambda: gram.kernel_vjp(q.x, q.y, "lpq-laplace", p=1.0, grad=q.grad, out=q.out)

    def error(self, q, got):
        rows, y, want = sampled(q.n), host(q.y), []
        for x, grad in zip(host(q.x[rows]), host(q.grad[rows]), strict=True):
            weight = -grad * np.exp(-np.abs(x - y).sum(1))
            want.append(weight @ np.sign(x - y))
        return relative(got[rows], np.stack(want))

    def work(self, q):
        return float(q.n) * q.n * q.k, "terms/s"

    def words(self, q):
        return ("kernel_vjp", q.n, q.n, q.k, "p=1")


class KernelProductGradient(Operation):
    """The derivative of sum(grad * (K(x, y) v)) to x, of the Laplace kernel of p = 1."""

    name, covers, limits = "kernel_matmul_vjp", ("kernel_matmul_vjp",), {"float32": 1e-3}

    def make(self, place, n, k, columns):
        return Problem(x=place.normal(n, k), y=place.normal(n, k), v=place.normal(n, columns),
                       grad=place.normal(n, columns), out=place.empty(n, k))  # fmt: skip

    def ours(self, q):
        return lambda: gram.kernel_matmul_vjp(
            q.x, q.y, "lpq-laplace", p=1.0, v=q.v, grad=q.grad, out=q.out
        )

    def error(self, q, got):
        rows, y, v, want = sampled(q.n), host(q.y), host(q.v), []
        for x, grad in zip(host(q.x[rows]), host(q.grad[rows]), strict=True):
            weight = -(v @ grad) * np.exp(-np.abs(x - y).sum(1))
            want.append(weight @ np.sign(x - y))
        return relative(got[rows], np.stack(want))

    def work(self, q):
        return float(q.n) * q.n * (2 * q.k + q.columns), "terms/s"

    def words(self, q):
        return ("kernel_matmul_vjp", q.n, q.n, q.k, q.columns, "p=1")


class Median(Operation):
    name, covers = "median_distance", ("median_distance",)

    def make(self, place, n, k):
        return Problem(x=place.normal(n, k))

    def ours(self, q):
        return lambda: gram.median_distance(q.x, rows=q.n)

    def error(self, q, got):
        x = host(q.x)
        upper = np.triu_indices(q.n, 1)
        return relative(got, np.median(distances(x, x, 2)[upper]))

    def words(self, q):
        return ("median", q.n, q.k, "p=2")


CDIST, KERNEL, GRAD, AGOP = Cdist(), KernelMatrix(), Gradients(), Agop()


def label(p):
    return "inf" if p == np.inf else f"{p:g}"


def cdist_rows():
    """The shapes of a CPU and of a GPU, and one that small functions of the package have."""
    for m, k, dtype, ps in (
        (4000, 256, "float32", (1, 1.3, 0.5, np.inf, 2)),
        (10000, 16, "float32", (1, 1.3, 2)),
        (4000, 256, "float64", (1, 1.3, 0.5, np.inf, 2)),
    ):
        for p in ps:
            given = {"m": m, "n": m, "k": k, "p": p, "dtype": dtype}
            yield Row(f"cdist {m} x {m} x {k} {dtype}, p = {label(p)}", CDIST, given)
    for m, k, dtype, ps in (
        (30000, 1024, "float32", (1, 2, 1.3, 0.5, 1.5, 3, 4)),
        (10000, 128, "float32", (1, 2)),
        (16384, 512, "float64", (1, 2)),
    ):
        for p in ps:
            given = {"m": m, "n": m, "k": k, "p": p, "dtype": dtype}
            yield Row(f"cdist {m} x {m} x {k} {dtype}, p = {label(p)}", CDIST, None, given)
    for p in (1, 1.3, 2):
        cpu, cuda = ({"m": m, "n": m, "k": k, "p": p, "same": True}
                     for m, k in ((4000, 256), (30000, 1024)))  # fmt: skip
        yield Row(f"cdist of x with itself, p = {label(p)}", CDIST, cpu, cuda)
    for p in (2, 1, 1.5, 3, np.inf, 0):
        cpu, cuda = ({"m": m, "n": m, "k": 64, "p": p} for m in (3000, 6000))
        yield Row(f"cdist of 64 features, p = {label(p)}", CDIST, cpu, cuda)
    for metric in METRICS:
        given = {"m": 2000, "n": 2000, "k": 2 if metric == "haversine" else 64, "metric": metric}
        yield Row(f"metric {metric}, 2000 rows", Metric(), given, given)
    yield Row("pdist 3000 x 64 float64, p = 1", Pdist(), {"m": 3000, "k": 64, "p": 1})
    yield both("median_distance 2000 x 64", Median(), n=2000, k=64)


def kernel_rows():
    wide = {"m": 10000, "n": 10000, "k": 16}
    yield Row("kernel product-laplace, 10000 x 10000 x 16", KERNEL,
              {**wide, "kernel": "product-laplace", "bandwidth": 4.0})  # fmt: skip
    yield Row("kernel gaussian, 10000 x 10000 x 16", KERNEL,
              {**wide, "kernel": "gaussian", "bandwidth": 4.0})  # fmt: skip
    large = {"m": 20000, "n": 20000, "k": 256}
    for title, options in (
        ("laplace", {"kernel": "laplace", "bandwidth": 3.0}),
        ("gaussian + 0.5 I", {"kernel": "gaussian", "bandwidth": 3.0, "regularization": 0.5}),
        ("product-laplace p = 1.3",
         {"kernel": "product-laplace", "bandwidth": 9.0, "exponent": 1.3}),
    ):  # fmt: skip
        yield Row(f"kernel {title}, 20000 x 20000 x 256", KERNEL, None, {**large, **options})
    for kernel in KERNELS:
        cpu, cuda = ({"m": m, "n": m, "k": 64, "kernel": kernel} for m in (3000, 6000))
        yield Row(f"kernel {kernel} of 64 features", KERNEL, cpu, cuda)
    yield Row("kernel_matmul p = 1, 16 features, 8 columns", KernelProduct(),
              {"n": 6000, "k": 16, "columns": 8}, {"n": 20000, "k": 16, "columns": 8})  # fmt: skip


def gradient_rows():
    for o in (1, 10):
        for p in (1, 1.3):
            given = {"k": 4000, "m": 4000, "n": 64, "o": o, "p": p}
            yield Row(f"cdist_grad of 4000 points, 64 features, outputs {o}, p = {p}", GRAD, given)
    for n, o in ((128, 1), (128, 10), (768, 16)):
        for operation in (GRAD, AGOP):
            for p in (1, 2, 1.3):
                given = {"k": 10000, "m": 10000, "n": n, "o": o, "p": p}
                title = f"{operation.name} of 10000 points, {n} features, outputs {o}, p = {p}"
                yield Row(title, operation, None, given)
    for operation in (GRAD, AGOP):
        cpu, cuda = ({"k": k, "m": k // 2, "n": 32, "o": 4, "p": 1.5} for k in (1000, 4000))
        yield Row(f"{operation.name} of 32 features, 4 outputs, p = 1.5", operation, cpu, cuda)
    yield Row("kernel_vjp p = 1, to x", KernelGradient(), {"n": 2000, "k": 64},
              {"n": 6000, "k": 64})  # fmt: skip
    yield Row("kernel_matmul_vjp p = 1, 8 columns, to x", KernelProductGradient(),
              {"n": 6000, "k": 16, "columns": 8}, {"n": 20000, "k": 16, "columns": 8})  # fmt: skip


SUBJECTS = {
    "cdist": list(cdist_rows()),
    "kernel": list(kernel_rows()),
    "gradients": list(gradient_rows()),
}
