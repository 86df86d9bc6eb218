"""compare_python_algebra.py - rows of bench/compare_python.py: solves, eigenproblems, products

A row is (functions, what, how it is made, the words behind `gram bench` or why there are none).
"""

import functools

import gram
import numpy as np
import torch
from compare_python_place import Work, as_tensor


def cupys(place, make):
    """A peer by CuPy, on a GPU that has it; make takes the module."""
    if place.on_cpu:
        return {}
    try:
        import cupy
    except ImportError:
        return {}
    return {"CuPy": lambda: make(cupy)}


# ---- Solves and eigenproblems -------------------------------------------------------------------


def cholesky(place):
    n, columns = place.size(2000, 8000), 10
    a, b = place.definite(n), place.normal(n, columns)
    out = a.like(n, columns)
    peers = cupys(place, lambda c: c.linalg.solve(a.c, b.c))
    if place.on_cpu:
        from scipy.linalg import cho_factor, cho_solve

        peers["SciPy"] = lambda: cho_solve(cho_factor(a.n, lower=True, check_finite=False), b.n)
        peers["NumPy"] = lambda: np.linalg.solve(a.n, b.n)
    return Work(
        lambda: gram.solve_cholesky(a.a, b.a, out=out),
        lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)), (a, b), peers=peers
    )


def lu(place):
    n, columns = place.size(2000, 8000), 10
    a, b = place.normal(n, n), place.normal(n, columns)
    out = a.like(n, columns)
    peers = cupys(place, lambda c: c.linalg.solve(a.c, b.c))
    if place.on_cpu:
        from scipy.linalg import lu_factor, lu_solve

        peers["SciPy"] = lambda: lu_solve(lu_factor(a.n, check_finite=False), b.n)
        peers["NumPy"] = lambda: np.linalg.solve(a.n, b.n)
    return Work(
        lambda: gram.solve_lu(a.a, b.a, out=out), torch.linalg.solve, (a, b), peers=peers
    )


def values(pair):
    return pair[0]


def eigen(batch, orders, place):
    n = place.size(*orders)
    a = place.definite(n, *batch)
    peers = cupys(place, lambda c: c.linalg.eigh(a.c))
    if place.on_cpu:
        peers["NumPy"] = lambda: np.linalg.eigh(a.n)
        if not batch:
            from scipy.linalg import eigh

            peers["SciPy"] = lambda: eigh(a.n, check_finite=False, driver="evd")
    return Work(lambda: gram.eigh(a.a), torch.linalg.eigh, (a,), peers=peers, part=values)


def eigen_top(place):
    n, count = place.size(2000, 4000), 10
    a = place.definite(n)
    peers = cupys(place, lambda c: top_of_cupy(a.c, count))
    if place.on_cpu:
        from scipy.sparse.linalg import eigsh

        peers["SciPy"] = lambda: tuple(p[..., ::-1] for p in eigsh(a.n, count))
    peers["PyTorch"] = lambda: last(torch.linalg.eigh(a.t), count)
    return Work(
        lambda: gram.eigh(a.a, select="largest", count=count), peers=peers,
        exact=lambda: (torch.linalg.eigvalsh(a.w).flip(0)[:count],), part=descending)  # fmt: skip


def descending(pair):
    """The eigenvalues, the largest first, whichever way they came."""
    return torch.sort(as_tensor(pair[0]), descending=True).values


def top_of_cupy(a, count):
    from cupyx.scipy.sparse.linalg import eigsh

    return eigsh(a, count)


def last(pair, count):
    """The last of all pairs."""
    return tuple(part[..., -count:] for part in pair)


def laplace(x):
    return torch.exp(-torch.cdist(x, x))


def eigen_kernel(place):
    n, count = place.size(3000, 5000), 10
    x = place.uniform(n, 8)
    peers = cupys(place, lambda c: top_of_cupy(c.from_dlpack(laplace(x.t)), count))
    if place.on_cpu:
        from scipy.sparse.linalg import eigsh

        peers["SciPy"] = lambda: eigsh(laplace(x.t).numpy(), count)
    peers["PyTorch"] = lambda: last(torch.linalg.eigh(laplace(x.t)), count)
    return Work(
        lambda: gram.eigh_kernel(x.a, kernel="laplace", count=count), peers=peers,
        exact=lambda: (torch.linalg.eigvalsh(laplace(x.w)).flip(0)[:count],), part=descending
    )


def root(a, power=-0.25):
    found, vectors = torch.linalg.eigh(a)
    return (vectors * found[..., None, :] ** power) @ vectors.mT


def powers(place):
    n, batch = place.size(256, 1024), 4
    a = place.definite(n, batch)
    out = a.like(batch, n, n)
    return Work(lambda: gram.matrix_power(a.a, -1, 4, out=out), root, (a,))


def inverse_root(place):
    a = place.definite(place.size(256, 1024), 4)
    return Work(lambda: gram.optim.matrix_inverse_root(a.a), root, (a,))


def list_of(place, orders):
    return [place.definite(n) for n in orders]


def eigen_list(place):
    parts = list_of(place, place.size([256, 320, 384], [512, 640, 768]))
    return Work(
        lambda: [pair[0] for pair in gram.eigh_many([p.a for p in parts])],
        lambda *parts: [torch.linalg.eigh(p)[0] for p in parts], parts)  # fmt: skip


def power_list(place):
    parts = list_of(place, place.size([256, 320, 384], [512, 640, 768]))
    return Work(
        lambda: gram.matrix_power_many([p.a for p in parts], -1, 4),
        lambda *parts: [root(p) for p in parts], parts)  # fmt: skip


# ---- Products -----------------------------------------------------------------------------------


def batched(place):
    n, batch = place.size(256, 1024), 32
    a, b = place.normal(batch, n, n), place.normal(batch, n, n)
    out = a.like(batch, n, n)
    peers = cupys(place, lambda c: c.matmul(a.c, b.c))
    if place.on_cpu:
        peers["NumPy"] = lambda: np.matmul(a.n, b.n)
    return Work(
        lambda: gram.matmul_batched(a.a, b.a, out=out), torch.matmul, (a, b), peers=peers
    )


def chunked(place):
    n = place.size(2000, 8000)
    a, b = place.normal(n, n), place.normal(n, n)
    out = a.like(n, n)
    peers = cupys(place, lambda c: c.matmul(a.c, b.c))
    if place.on_cpu:
        peers["NumPy"] = lambda: np.matmul(a.n, b.n)
    return Work(
        lambda: gram.matmul_chunked(a.a, b.a, out=out), torch.matmul, (a, b), peers=peers
    )


def average(place):
    m, k, batch = place.size(512, 1024), 512, 8
    x, start = place.normal(batch, m, k), place.definite(m, batch)
    l = place.operand(start.n.copy())

    def formula(x, l):
        return torch.baddbmm(l, x, x.mT, beta=0.5, alpha=0.5)

    def ours():
        l.a[:] = start.a  # as torch.baddbmm reads its first argument
        return gram.syrk_ema(x.a, l.a, beta=0.5)

    return Work(ours, formula, (x, start))


def kron_words(op, last):
    def words(place):
        m, (p, count) = place.size(256, 1024), (16, place.size(3, 4))
        sizes = {"kron_matmul": (m, p, p, count), "kron_matmul_vjp": (m, count, p, p)}
        return (op, *map(str, sizes.get(op, (m, count, p))), *last)

    return words


def factors_of(place, definite=False):
    count, m = place.size(3, 4), place.size(256, 1024)
    make = (lambda: place.definite(16)) if definite else lambda: place.normal(16, 16, scale=0.25)
    return place.normal(m, 16**count), [make() for _ in range(count)]


def shuffle(x, *factors):
    """x times the Kronecker product, one factor at a time."""
    m = x.shape[0]
    for f in reversed(factors):
        x = (x.reshape(m, -1, f.shape[0]) @ f).transpose(1, 2).reshape(m, -1)
    return x


def kron_product(place):
    x, factors = factors_of(place)
    out, views = x.like(*x.n.shape), [f.a for f in factors]
    return Work(lambda: gram.kron_matmul(x.a, views, out=out), shuffle, (x, *factors))


def kron_gradient(place):
    x, factors = factors_of(place)
    grad, views = place.normal(*x.n.shape), [f.a for f in factors]

    def autograd(grad, *inputs):
        inputs = [t.clone().requires_grad_() for t in inputs]
        return torch.autograd.grad(shuffle(*inputs), inputs, grad)

    return Work(
        lambda: gram.kron_matmul_vjp(x.a, views, grad=grad.a), autograd, (grad, x, *factors)
    )


def kron_solution(place):
    b, factors = factors_of(place, definite=True)
    out, views = b.like(*b.n.shape), [f.a for f in factors]

    def inverses(b, *factors):
        m = b.shape[0]
        for f in reversed(factors):
            x = b.reshape(-1, f.shape[0])
            b = torch.linalg.solve(f.mT, x.mT).mT.reshape(m, -1, f.shape[0])
            b = b.transpose(1, 2).reshape(m, -1)
        return b

    return Work(lambda: gram.kron_solve(views, b.a, out=out), inverses, (b, *factors))


def three(place):
    n = place.size(12, 20)
    return [place.definite(n) for _ in range(3)]


def kron_explicit(place):
    factors = three(place)
    a, b, c = factors
    peers = cupys(place, lambda m: m.kron(m.kron(a.c, b.c), c.c))
    if place.on_cpu:
        peers["NumPy"] = lambda: np.kron(np.kron(a.n, b.n), c.n)
    return Work(
        lambda: gram.kron([f.a for f in factors]),
        lambda a, b, c: torch.kron(torch.kron(a, b), c), factors, peers=peers)  # fmt: skip


def kron_scalar(name, formula, place):
    factors = three(place)
    call = getattr(gram, name)
    return Work(lambda: call([f.a for f in factors]), formula, factors)


def logdet(*factors):
    total = np.prod([f.shape[0] for f in factors])
    parts = [torch.linalg.slogdet(f) for f in factors]
    signs = [s ** (total // f.shape[0]) for (s, _), f in zip(parts, factors, strict=True)]
    size = sum(v * (total // f.shape[0]) for (_, v), f in zip(parts, factors, strict=True))
    return functools.reduce(torch.mul, signs), size


def trace(*factors):
    return functools.reduce(torch.mul, [f.trace() for f in factors])


def diagonal(*factors):
    return functools.reduce(lambda d, f: torch.outer(d, f.diagonal()).reshape(-1), factors[1:],
                            factors[0].diagonal())  # fmt: skip


NO_BENCH = "gram bench has no such operation"
LIST = "a list of calls, which gram bench does not make"

ROWS = [
    ("solve_cholesky", "10 right-hand sides", cholesky,
     lambda place: ("solve_cholesky", str(place.size(2000, 8000)), "10")),
    ("solve_lu", "10 right-hand sides", lu,
     lambda place: ("solve_lu", str(place.size(2000, 8000)), "10")),
    ("eigh", "all pairs", functools.partial(eigen, (), (700, 2000)),
     lambda place: ("eigh", "1", str(place.size(700, 2000)))),
    ("eigh", "256 of order 32", functools.partial(eigen, (256,), (32, 32)),
     lambda place: ("eigh", "256", "32")),
    ("eigh", "10 largest", eigen_top,
     lambda place: ("eigh", "1", str(place.size(2000, 4000)), "k=10")),
    ("eigh_kernel", "Laplace, 10 largest", eigen_kernel,
     lambda place: ("eigh_kernel", str(place.size(3000, 5000)), "8", "k=10")),
    ("eigh_many", "three orders", eigen_list, LIST),
    ("matrix_power", "-1/4, 4 matrices", powers,
     lambda place: ("matrix_power", str(place.size(256, 1024)), "4", "condition=10")),
    ("matrix_power_many", "-1/4, three orders", power_list, LIST),
    ("optim.matrix_inverse_root", "4 matrices", inverse_root, "gram.matrix_power's call"),
    ("matmul_batched", "32 products", batched,
     lambda place: ("matmul_batched", *(str(place.size(256, 1024)),) * 3, "32")),
    ("matmul_chunked", "one piece", chunked, NO_BENCH),
    ("syrk_ema", "8 matrices", average,
     lambda place: ("syrk_ema", str(place.size(512, 1024)), "512", "8")),
    ("kron_matmul", "factors of 16 x 16", kron_product, kron_words("kron_matmul", ())),
    ("kron_matmul_vjp", "factors of 16 x 16", kron_gradient, kron_words("kron_matmul_vjp", ())),
    ("kron_solve", "factors of 16 x 16", kron_solution, kron_words("kron_solve", ())),
    ("kron", "three factors", kron_explicit, NO_BENCH),
    ("kron_logdet", "three factors", functools.partial(kron_scalar, "kron_logdet", logdet),
     NO_BENCH),
    ("kron_trace", "three factors", functools.partial(kron_scalar, "kron_trace", trace), NO_BENCH),
    ("kron_diagonal", "three factors", functools.partial(kron_scalar, "kron_diagonal", diagonal),
     NO_BENCH),
]  # fmt: skip
