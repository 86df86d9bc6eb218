"""tables/kron.py - products with Kronecker factors, their gradients, solves, and small functions

Rates count a multiply-add as two.  Errors are relative to the largest element of the first rows.
"""

import functools
import math

import gram
import numpy as np
from core.place import host, relative
from core.tables import Call, Operation, Problem, Row, both

FEW = 4  # rows that are checked


def chain(x, factors):
    """x times the Kronecker product, factor by factor."""
    m = x.shape[0]
    for f in reversed(factors):
        x = (x.reshape(m, -1, f.shape[0]) @ f).swapaxes(1, 2).reshape(m, -1)
    return x


def flop(m, sizes):
    total, elements = 0, m * math.prod(p for p, _ in sizes)
    for p, q in reversed(sizes):
        total, elements = total + 2 * elements * q, elements // p * q
    return float(total)


class Kron(Operation):
    """What all of them share: rows, and factors as pairs of sizes."""

    def tiny(self, parameters):
        few = [tuple(min(n, 5) for n in pair) for pair in parameters["sizes"][:3]]
        return {**parameters, "m": min(parameters["m"], 6), "sizes": few}

    def operands(self, place, m, sizes, dtype, left=False):
        whole = dtype.startswith("int")
        draw = place.integers if whole else place.normal
        p, q = (math.prod(s[i] for s in sizes) for i in (0, 1))
        factors = [draw(*s, dtype=dtype) for s in sizes]
        if not whole:
            factors = [f / math.sqrt(f.shape[0]) for f in factors]
        x = draw(*((p, m) if left else (m, p)), dtype=dtype)
        return Problem(x=x, factors=factors, left=left, sizes=sizes, dtype=dtype,
                       out=place.empty(*((q, m) if left else (m, q)), dtype=dtype))  # fmt: skip

    def work(self, q):
        return flop(q.m, q.sizes), "flop/s"

    @staticmethod
    def equal(q):
        """m, the number of factors and their sizes as words, or None where they differ."""
        (p, r), *rest = q.sizes
        return None if any(s != (p, r) for s in rest) else (q.m, len(q.sizes), p, r)


class Product(Kron):
    name, covers = "kron_matmul", ("kron_matmul",)

    def make(self, place, m, sizes, dtype="float32", left=False):
        return self.operands(place, m, sizes, dtype, left)

    def ours(self, q):
        if q.left:
            turned = [f.T for f in q.factors]
            return lambda: gram.kron_matmul(q.x, turned, side="left", out=q.out)
        return lambda: gram.kron_matmul(q.x, q.factors, out=q.out)

    def error(self, q, got):
        x, got = (q.x[:, :FEW].T, got[:, :FEW].T) if q.left else (q.x[:FEW], got[:FEW])
        return relative(got, chain(host(x), [host(f) for f in q.factors]))

    def words(self, q):
        words = self.equal(q)
        if words is None or q.left:
            return None
        m, count, p, r = words
        return ("kron_matmul", m, p, r, count)


class ProductGradient(Kron):
    """Gradients to x and to every factor, beside the product alone."""

    name, covers = "kron_matmul_vjp", ("kron_matmul_vjp",)

    def make(self, place, m, sizes, dtype="float32"):
        q = self.operands(place, m, sizes, dtype)
        q.grad = place.normal(*q.out.shape, dtype=dtype)
        return q

    def ours(self, q):
        product = Call(lambda: gram.kron_matmul(q.x, q.factors, out=q.out), error=lambda got: None)
        return {"": lambda: gram.kron_matmul_vjp(q.x, q.factors, grad=q.grad),
                "the product": product}  # fmt: skip

    def error(self, q, got):
        to_x = got[0]
        return relative(to_x[:FEW], chain(host(q.grad[:FEW]), [host(f).T for f in q.factors]))

    def words(self, q):
        words = self.equal(q)
        return words and ("kron_matmul_vjp", *words)


class Solution(Kron):
    """x (K + shift I) = b."""

    name, covers, limits = "kron_solve", ("kron_solve",), {"float32": 1e-3}

    def make(self, place, m, sizes, method="lu", dtype="float32"):
        factors = []
        for n, _ in sizes:
            a = place.random.random((n, n)) - 0.5
            factors.append(place.array(np.eye(n) + (a + a.T) / n, dtype))
        b = place.uniform(m, math.prod(n for n, _ in sizes), dtype=dtype) - 0.5
        return Problem(b=b, factors=factors, shift=0.1 if method == "eigen" else 0.0,
                       method=method, out=place.empty(*b.shape, dtype=dtype))  # fmt: skip

    def ours(self, q):
        return lambda: gram.kron_solve(
            q.factors, q.b, method=q.method, shift=q.shift, out=q.out
        )

    def error(self, q, got):
        x, b = host(got[:FEW]), host(q.b[:FEW])
        rest = chain(x, [host(f) for f in q.factors]) + q.shift * x - b
        return float(np.linalg.norm(rest) / np.linalg.norm(b))

    def words(self, q):
        words = self.equal(q)
        return words and ("kron_solve", *words[:3], f"method={q.method}")


class Tuned(Product):
    """The choice of the library against the tuned one: each in processes with an empty cache."""

    name, covers = "kron_tune", ("tune_kron",)

    def ours(self, q):
        given = {"side": "left"} if q.left else {}
        factors = [f.T for f in q.factors] if q.left else q.factors
        told = {}

        def tune():
            if not told:
                told.update(gram.tune_kron(q.x, factors, out=q.out, **given))

        def run():
            return gram.kron_matmul(q.x, factors, out=q.out, **given)

        return {
            "": run,
            "tuned": Call(run, prepare=tune, tell=lambda got: {
                "candidates": told["candidates"],
                "launches": f"{told['table_launches']} and {told['launches']}",
                "ratio seen": told["table_ms"] / told["ms"]}),
        }  # fmt: skip


class Peak(Operation):
    """A product of two large matrices: what the machine can do."""

    name = "peak"

    def make(self, place, n, dtype):
        return Problem(a=place.uniform(n, n, dtype=dtype))

    def ours(self, q):
        return lambda: gram.matmul_batched(q.a[None], q.a[None])

    def work(self, q):
        return 2.0 * q.n**3, "flop/s"


class Small(Operation):
    """Functions of three factors alone."""

    def __init__(self, name, exact):
        self.name, self.covers, self.exact = name, (name,), exact

    def make(self, place, n):
        return Problem(factors=[place.definite(n) for _ in range(3)])

    def tiny(self, parameters):
        return {"n": 4}

    def ours(self, q):
        call = getattr(gram, self.name)
        return lambda: call(q.factors)

    def error(self, q, got):
        if self.name == "kron" and q.n > 15:
            return None
        return max(map(relative, *(v if isinstance(v, tuple) else (v,)
                       for v in (got, self.exact(*(host(f) for f in q.factors))))))  # fmt: skip


def logdet(*factors):
    n = factors[0].shape[0] ** (len(factors) - 1)
    parts = [np.linalg.slogdet(f) for f in factors]
    return math.prod(s**n for s, _ in parts), n * sum(v for _, v in parts)


SMALL = {
    "kron": lambda *f: functools.reduce(np.kron, f),
    "kron_logdet": logdet,
    "kron_trace": lambda *f: math.prod(np.trace(m) for m in f),
    "kron_diagonal": lambda *f: functools.reduce(np.kron, [np.diag(m) for m in f]),
}


def powers(*groups):
    """(rows, size, number) as (title, rows, sizes)."""
    return [(f"{m}: {n}^{count}", m, [(n, n)] * count) for m, n, count in groups]


ON_CPU = [
    *powers((1024, 8, 5), (1024, 16, 4), (1024, 32, 3), (1024, 64, 2), (1024, 128, 2), (1, 8, 6),
            (1, 16, 5), (1, 32, 4), (1, 64, 3), (256, 5, 6), (256, 31, 3), (256, 127, 2)),
    ("256: 12x10, 20x24, 30x25", 256, [(12, 10), (20, 24), (30, 25)]),
    ("256: 8->16^4", 256, [(8, 16)] * 4),
    ("32: 32->8^4", 32, [(32, 8)] * 4),
]  # fmt: skip
ON_GPU = [
    *powers((1024, 8, 5), (1024, 8, 6), (1024, 16, 4), (1024, 16, 5), (1024, 32, 3), (1024, 32, 4),
            (1024, 64, 2), (1024, 64, 3), (1024, 128, 2), (320, 128, 3), (16, 8, 8), (16, 16, 6),
            (16, 32, 5), (16, 64, 4), (16, 128, 3), (1, 8, 7), (1, 32, 4), (1, 64, 3),
            (256, 31, 3)),
    ("1024: 8->16^4", 1024, [(8, 16)] * 4),
    ("1024: 64->32^2", 1024, [(64, 32)] * 2),
    ("256: 12x10, 20x24, 30x25", 256, [(12, 10), (20, 24), (30, 25)]),
]  # fmt: skip
LEFT = powers((1024, 8, 5), (1024, 16, 4), (1024, 32, 3), (1024, 128, 2))
PRODUCT, GRADIENT, SOLUTION, TUNED = Product(), ProductGradient(), Solution(), Tuned()
REAL, WHOLE = ("float32", "float64"), ("int32", "int64")


def product_rows(operation=PRODUCT, apart=False):
    for dtype in REAL:
        if operation is PRODUCT:
            yield both(f"peak, {dtype}", Peak(), n=1500, dtype=dtype)
        for shapes, at in ((ON_CPU, 0), (ON_GPU, 1)):
            for title, m, sizes in shapes if operation is PRODUCT or at else []:
                places = [None, None]
                places[at] = {"m": m, "sizes": sizes, "dtype": dtype}
                yield Row(f"{title}, {dtype}", operation, *places, apart)
        for title, m, sizes in LEFT:
            given = {"m": m, "sizes": sizes, "dtype": dtype, "left": True}
            yield Row(f"left {title}, {dtype}", operation, None, given, apart)


def whole_rows():
    for dtype in WHOLE:
        for title, m, sizes in ON_CPU[:5]:
            yield both(f"{title}, {dtype}", PRODUCT, m=m, sizes=sizes, dtype=dtype)


def gradient_rows():
    for dtype in REAL:
        for shapes, at in ((ON_CPU[:11], 0), ([s for s in ON_GPU if s[1] != 16], 1)):
            for title, m, sizes in shapes:
                places = [None, None]
                places[at] = {"m": m, "sizes": sizes, "dtype": dtype}
                yield Row(f"gradients of {title}, {dtype}", GRADIENT, *places)


def solve_rows():
    groups = [(256, 16, 3), (1024, 32, 3), (64, 64, 2), (1, 16, 4), (256, 5, 6)]
    for title, m, sizes in powers(*groups):
        yield Row(f"solve {title} by lu, float32", SOLUTION, {"m": m, "sizes": sizes})
    groups = [(1024, 32, 3), (64, 64, 3), (1024, 128, 2), (1, 128, 3), (1, 1000, 2)]
    for dtype in REAL:
        for title, m, sizes in powers(*groups):
            for method in ("lu", "cholesky", "eigen"):
                given = {"m": m, "sizes": sizes, "method": method, "dtype": dtype}
                yield Row(f"solve {title} by {method}, {dtype}", SOLUTION, None, given)


def package_rows():
    sizes = [(16, 16)]
    cpu, cuda = {"m": 256, "sizes": sizes * 3}, {"m": 1024, "sizes": sizes * 4}
    for operation in (PRODUCT, GRADIENT, SOLUTION):
        yield Row(f"{operation.name}, factors of 16 x 16", operation, cpu, cuda)
    for name, exact in SMALL.items():
        yield Row(f"{name}, three factors", Small(name, exact), {"n": 12}, {"n": 20})


SUBJECTS = {
    "kron": [*product_rows(), *whole_rows(), *package_rows()],
    "kron_vjp": list(gradient_rows()),
    "kron_solve": list(solve_rows()),
    "kron_tune": list(product_rows(TUNED, apart=True)),
}
