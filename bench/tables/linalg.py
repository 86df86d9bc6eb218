"""tables/linalg.py - solves, powers of matrices, products

Errors: of a solve |A x - b| over |A| |x| + |b|, the largest row's; of powers and products relative
to the largest element of the first item.
"""


import gram
import gram.optim
import numpy as np
from core.place import host, relative
from core.tables import Call, Operation, Problem, Row, both


class Solve(Operation):
    """A x = b with r right-hand sides; batch: of so many systems, 0 for a matrix alone."""

    name, covers = "solve", ("solve_cholesky", "solve_lu")
    limits = {"float32": 1e-4, "float64": 1e-10}

    def make(self, place, n, r, batch=0, lu=False, dtype="float32", refine=False):
        lead = (batch,) if batch else ()
        a = place.normal(*lead, n, n, dtype=dtype) if lu else place.definite(n, *lead, dtype=dtype)
        return Problem(a=a, b=place.normal(*lead, n, r, dtype=dtype), batch=batch, lu=lu,
                       x=place.empty(*lead, n, r, dtype=dtype), refine=refine)  # fmt: skip

    def ours(self, q):
        call = gram.solve_lu if q.lu else gram.solve_cholesky
        found = {"": lambda: call(q.a, q.b, out=q.x)}
        if q.refine:
            found["refine"] = lambda: call(q.a, q.b, refine=True, out=q.x)
        return found

    def error(self, q, got):
        first = 0 if q.batch else slice(None)
        a, b, x = host(q.a[first]), host(q.b[first]), host(got[first])
        rest = np.abs(b - a @ x).max(axis=0)
        return float((rest / (np.abs(a).sum(1).max() * np.abs(x).max(0) + np.abs(b).max(0))).max())

    def work(self, q):
        return max(q.batch, 1) * (2 if q.lu else 1) / 3 * q.n**3, "flop/s"

    def words(self, q):
        if q.batch:
            return None
        return ("solve_lu" if q.lu else "solve_cholesky", q.n, q.r)


def spectrum(place, n, condition, count):
    """Symmetric matrices with eigenvalues from 1 to 1 / condition, and their roots, in float64."""
    q = np.linalg.qr(place.random.standard_normal((n, n)))[0]
    w = np.logspace(0, -np.log10(condition), n)
    a, root = (q * w) @ q.T, (q * w**-0.25) @ q.T
    return np.repeat(((a + a.T) / 2)[None], count, 0), root


class Power(Operation):
    """A^(-1/4) of a batch of matrices of the given condition number, by each method."""

    name, covers, limits = "matrix_power", ("matrix_power", "optim.matrix_inverse_root"), {}

    def make(self, place, n, batch, condition, methods=("auto",), precisions=()):
        a, root = spectrum(place, n, condition, batch)
        return Problem(a=place.array(a), root=root, out=place.empty(batch, n, n))

    def ours(self, q):
        def call(**how):
            return lambda: gram.matrix_power(
                q.a, -1, 4, condition=1.01 * q.condition, out=q.out, **how
            )

        found = {m: call(method=m) for m in q.methods}
        found |= {f"minimax, {p}": call(method="minimax", precision=p) for p in q.precisions}
        if q.condition <= 10:
            found["optim.matrix_inverse_root"] = lambda: gram.optim.matrix_inverse_root(q.a)
        return found

    def error(self, q, got):
        return relative(got[0], q.root)

    def words(self, q):
        return ("matrix_power", q.n, q.batch, f"condition={q.condition:g}")


class PowerMany(Operation):
    name, covers, limits = "matrix_power_many", ("matrix_power_many",), {"float32": 1e-2}

    def make(self, place, orders):
        return Problem(parts=[place.definite(n) for n in orders])

    def tiny(self, parameters):
        return {"orders": [8, 12]}

    def ours(self, q):
        return lambda: gram.matrix_power_many(q.parts, -1, 4)

    def error(self, q, got):
        w, v = np.linalg.eigh(host(q.parts[0]))
        return relative(got[0], (v * w**-0.25) @ v.T)


class Batched(Operation):
    name, covers = "matmul_batched", ("matmul_batched",)

    def make(self, place, n, batch):
        return Problem(a=place.normal(batch, n, n), b=place.normal(batch, n, n),
                       out=place.empty(batch, n, n))  # fmt: skip

    def ours(self, q):
        return lambda: gram.matmul_batched(q.a, q.b, out=q.out)

    def error(self, q, got):
        return relative(got[0], host(q.a[0]) @ host(q.b[0]))

    def work(self, q):
        return 2.0 * q.batch * q.n**3, "flop/s"

    def words(self, q):
        return ("matmul_batched", q.n, q.n, q.n, q.batch)


class Chunked(Operation):
    """A product within a part of its matrices' bytes, where the operands may lie elsewhere."""

    name, covers = "matmul_chunked", ("matmul_chunked",)

    def make(self, place, n, parts=()):
        q = Problem(a=place.normal(n, n), b=place.normal(n, n), out=place.empty(n, n), hosts={})
        q.memory = 3 * n * n * 4
        if not place.on_cpu:
            q.hosts = {kind: self.on_host(q, kind == "pinned") for kind in ("pinned", "pageable")}
        return q

    @staticmethod
    def on_host(q, pinned):
        import torch

        a, b, out = (torch.empty(t.shape, pin_memory=pinned) for t in (q.a, q.b, q.out))
        return a.copy_(q.a), b.copy_(q.b), out

    def ours(self, q):
        def call(a, b, out, memory):
            where = {} if q.place.on_cpu else {"device": "cuda"}
            return lambda: gram.matmul_chunked(a, b, out=out, memory=memory, **where)

        found = {"whole": call(q.a, q.b, q.out, 4 * q.memory)}
        for part in q.parts:
            found[f"1/{part}"] = call(q.a, q.b, q.out, q.memory // part)
            for kind, of in q.hosts.items():
                found[f"1/{part}, all {kind}"] = call(*of, q.memory // part)
        for kind, of in q.hosts.items():
            found[f"1/4, b {kind}"] = call(q.a, of[1], q.out, q.memory // 4)
        return found

    def error(self, q, got):
        rows = slice(0, q.n, max(1, q.n // 4))
        return relative(got[rows], host(q.a[rows]) @ host(q.b))

    def work(self, q):
        return 2.0 * q.n**3, "flop/s"


class Average(Operation):
    """L = L / 2 + X X^T / 2 of a batch."""

    name, covers = "syrk_ema", ("syrk_ema",)

    def make(self, place, m, k, batch):
        x, start = place.normal(batch, m, k), place.definite(m, batch)
        return Problem(x=x, start=start, l=start.copy() if place.on_cpu else start.clone())

    def ours(self, q):
        def prepare():
            q.l[:] = q.start

        return Call(lambda: gram.syrk_ema(q.x, q.l, beta=0.5), prepare=prepare)

    def error(self, q, got):
        x = host(q.x[0])
        return relative(got[0], host(q.start[0]) / 2 + x @ x.T / 2)

    def words(self, q):
        return ("syrk_ema", q.m, q.k, q.batch)


class Natural(Operation):
    """(J^T J / n + damping I)^-1 v by Woodbury's identity, of n samples."""

    name, covers, limits = "natural_gradient", ("natural_gradient",), {"float32": 1e-2}

    def make(self, place, samples, parameters, damping):
        return Problem(j=place.normal(samples, parameters), v=place.normal(parameters))

    def ours(self, q):
        return lambda: gram.natural_gradient(q.j, q.v, q.damping)

    def error(self, q, got):
        j, v, u = host(q.j), host(q.v), host(got)
        return relative(j.T @ (j @ u) / len(j) + q.damping * u, v)


SOLVE, POWER = Solve(), Power()
METHODS = ("eigh", "coupled-newton", "newton-schulz", "minimax")


def solve_rows():
    for dtype in ("float32", "float64"):
        given = {"n": 16, "r": 1, "batch": 4096, "dtype": dtype}
        yield Row(f"Cholesky, 4096 of order 16, {dtype}", SOLVE, given)
    for lu, r in ((False, 1), (False, 10), (True, 10)):
        given = {"n": 4000, "r": r, "lu": lu, "dtype": "float64", "refine": True}
        name = "LU" if lu else "Cholesky"
        yield Row(f"{name}, 4000^2 float64, right-hand sides {r}, refined too", SOLVE, given)
    for lu in (False, True):
        name = "LU" if lu else "Cholesky"
        cpu, cuda = ({"n": n, "r": 10, "lu": lu} for n in (2000, 8000))
        yield Row(f"{name}, 10 right-hand sides", SOLVE, cpu, cuda)
        for n, batch, r in ((2000, 16, 1), (512, 64, 1)):
            given = {"n": n, "r": r, "batch": batch, "lu": lu}
            yield Row(f"{name}, {batch} of order {n}", SOLVE, None, given)
    for dtype in ("float32", "float64"):
        given = {"n": 10000, "r": 10, "dtype": dtype, "refine": dtype == "float64"}
        yield Row(f"Cholesky, 10000^2 {dtype}, 10 right-hand sides", SOLVE, None, given)


def power_rows():
    for n, batch in ((512, 2), (512, 32), (1024, 8), (2048, 1)):
        given = {"n": n, "batch": batch, "condition": 1e6,
                 "methods": METHODS if n * batch <= 2048 else ("eigh",)}  # fmt: skip
        yield Row(f"A^(-1/4), {batch} of order {n}, condition 1e6", POWER, given)
    for n, batch in ((512, 32), (1024, 8), (4096, 1)):
        given = {"n": n, "batch": batch, "condition": 1e6, "methods": ("auto", *METHODS),
                 "precisions": ("f32", "tf32")}  # fmt: skip
        yield Row(f"A^(-1/4), {batch} of order {n}, condition 1e6", POWER, None, given)
    cpu, cuda = ({"n": n, "batch": 4, "condition": 10.0} for n in (256, 1024))
    yield Row("A^(-1/4), 4 matrices, condition 10", POWER, cpu, cuda)
    yield Row("A^(-1/4), three orders", PowerMany(), {"orders": [256, 320, 384]},
              {"orders": [512, 640, 768]})  # fmt: skip


SUBJECTS = {
    "solve": list(solve_rows()),
    "power": list(power_rows()),
    "products": [
        Row("matmul_batched, 32 products", Batched(), {"n": 256, "batch": 32},
            {"n": 1024, "batch": 32}),
        Row("matmul_chunked, one piece", Chunked(), {"n": 2000}, {"n": 8000}),
        Row("matmul_chunked, a quarter and a sixteenth of the memory", Chunked(),
            {"n": 4000, "parts": (4, 16)}, {"n": 32768, "parts": (4, 16)}),
        Row("syrk_ema, 8 matrices", Average(), {"m": 512, "k": 512, "batch": 8},
            {"m": 1024, "k": 512, "batch": 8}),
        both("natural_gradient, 256 samples, 20,000 parameters", Natural(), samples=256,
             parameters=20000, damping=0.1),
    ],
}  # fmt: skip
