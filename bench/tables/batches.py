"""tables/batches.py - every operation on batches of small items, and a few large ones, on a GPU

The error is the largest difference of some items from the same call on each item alone: many
operations go through a batch in rounds.
"""

import gram
import numpy as np
from core.place import host
from core.tables import Operation, Problem, Row

CHECKED = 7  # items


def operands(place, count, n):
    """All that the operations take, by name."""
    f = {k: place.uniform(count, n, n) for k in ("x", "y", "grad")}
    f |= {k: place.uniform(count, n, 1) for k in ("v", "b")}
    f["c"], f["a"] = place.uniform(count, 1, n), place.definite(n, count)
    f["small"], f["rest"] = place.uniform(count, 2, 2), place.uniform(count, n // 2, n // 2)
    f["sure"], f["surer"] = place.definite(2, count), place.definite(n // 2, count)
    return f


WRT = ("x", "y", "bandwidth")
OPERATIONS = {
    "cdist": lambda f: gram.cdist(f["x"], f["y"], 1.3),
    "kernel": lambda f: gram.kernel(f["x"], f["y"], "gaussian"),
    "median_distance": lambda f: gram.median_distance(f["x"]),
    "kernel_matmul": lambda f: gram.kernel_matmul(f["x"], f["y"], "gaussian", v=f["v"]),
    "kernel_matmul of one set": lambda f: gram.kernel_matmul(f["x"], kernel="gaussian", v=f["v"]),
    "kernel_vjp gaussian": lambda f: gram.kernel_vjp(f["x"], f["y"], "gaussian", grad=f["grad"],
                                                     wrt=WRT),
    "kernel_vjp laplace": lambda f: gram.kernel_vjp(f["x"], f["y"], "laplace", grad=f["grad"],
                                                    wrt=WRT),
    "kernel_vjp cosine": lambda f: gram.kernel_vjp(f["x"], f["y"], "cosine", grad=f["grad"],
                                                   wrt=("x",)),
    "cdist_grad": lambda f: gram.cdist_grad(f["x"], f["y"], f["c"], f["grad"], 1.3),
    "agop": lambda f: gram.agop(f["x"], f["y"], f["c"], f["grad"], 2),
    "agop diagonal": lambda f: gram.agop(f["x"], f["y"], f["c"], f["grad"], 1, diagonal=True),
    "solve_cholesky": lambda f: gram.solve_cholesky(f["a"], f["b"]),
    "solve_lu": lambda f: gram.solve_lu(f["a"], f["b"]),
    "matmul_batched": lambda f: gram.matmul_batched(f["x"], f["y"]),
    "eigh": lambda f: gram.eigh(f["a"], vectors=False),
    "eigh largest": lambda f: gram.eigh(f["a"], select="largest", count=2, vectors=False),
    "matrix_power": lambda f: gram.matrix_power(f["a"]),
    "kron": lambda f: gram.kron([f["small"], f["rest"]]),
    "kron_matmul": lambda f: gram.kron_matmul(f["x"], [f["small"], f["rest"]]),
    "kron_trace": lambda f: gram.kron_trace([f["small"], f["rest"]]),
    "kron_logdet": lambda f: gram.kron_logdet([f["sure"], f["surer"]]),
    "kron_solve": lambda f: gram.kron_solve([f["sure"], f["surer"]], f["grad"]),
}  # fmt: skip


def parts(found):
    found = found if isinstance(found, tuple | list) else [found]
    return [host(t) for t in found if t is not None]


class Batch(Operation):
    """One operation on count items of n by n."""

    limits = {"float32": 1e-3}

    def __init__(self, what):
        self.name, self.call = f"batch of {what}", OPERATIONS[what]

    def make(self, place, count, n):
        return Problem(operands=operands(place, count, n))

    def tiny(self, parameters):
        return {"count": 3, "n": 4}

    def ours(self, q):
        return lambda: self.call(q.operands)

    def error(self, q, got):
        worst, got = 0.0, parts(got)
        for i in range(0, q.count, max(1, q.count // CHECKED)):
            alone = parts(self.call({k: v[i] for k, v in q.operands.items()}))
            for whole, item in zip(got, alone, strict=True):
                scale = max(np.abs(item).max(), 1e-30)
                worst = max(worst, np.nan_to_num(np.abs(whole[i] - item).max() / scale, nan=1e9))
        return float(worst)


class Large(Operation):
    """A few large items of n points with k features."""

    def __init__(self, what):
        self.what, self.name = what, f"{what} of large items"

    def make(self, place, count, n, k):
        f = {"x": place.uniform(count, n, k), "v": place.uniform(count, n, 10)}
        if self.what in ("kernel_vjp", "agop"):
            f |= {"grad": place.uniform(count, n, n), "c": place.uniform(count, 3, n),
                  "z": place.uniform(count, k, n)}  # fmt: skip
        return Problem(**f)

    def ours(self, q):
        return {
            "kernel_matmul": lambda: gram.kernel_matmul(q.x, q.x + 1, "gaussian", v=q.v),
            "kernel_vjp": lambda: gram.kernel_vjp(q.x, q.x, "gaussian", grad=q.grad, wrt=WRT),
            "agop": lambda: gram.agop(q.grad, q.z, q.c, q.z, 2),
            "median_distance": lambda: gram.median_distance(q.x),
        }[self.what]


def rows():
    for what in OPERATIONS:
        operation = Batch(what)
        for count in (1, 1000, 10000, 100000):
            cpu = {"count": count, "n": 8} if count == 1000 else None
            yield Row(f"{what}, {count} of 8 x 8", operation, cpu, {"count": count, "n": 8})
    for what in ("kernel_matmul", "kernel_vjp", "agop", "median_distance"):
        operation = Large(what)
        for count, n, k in ((1, 1000, 8), (1, 4000, 8), (1, 10000, 8), (1, 4000, 128),
                            (16, 2000, 8)):  # fmt: skip
            yield Row(f"{what}, {count} of {n} x {k}", operation, None,
                      {"count": count, "n": n, "k": k})  # fmt: skip


SUBJECTS = {"batches": list(rows())}
