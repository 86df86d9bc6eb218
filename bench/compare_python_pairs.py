"""compare_python_pairs.py - rows of bench/compare_python.py: distances, kernels, their gradients

A row is (functions, what, how it is made, the words behind `gram bench` or why there are none).
"""

import functools
import math

import gram
import numpy as np
import torch
from compare_python_place import Work

WIDTH = 64


def optional(module):
    """A module, or None where it is not installed."""
    import importlib

    try:
        return importlib.import_module(module)
    except Exception:  # noqa: BLE001 - a package that cannot load here is no peer
        return None


def points(place):
    n = place.size(3000, 6000)
    return place.normal(n, WIDTH), place.normal(n, WIDTH)


def bench_points(op, *words):
    return lambda place: (op, *(str(place.size(3000, 6000)),) * 2, str(WIDTH), *words)


def distances(p, scipy_name, sklearn_name, place):
    x, y = points(place)
    out = x.like(len(x.n), len(y.n))
    if p == 0:
        x, y = (place.operand(np.round(o.n)) for o in (x, y))
    peers = {}
    if place.on_cpu:
        from scipy.spatial.distance import cdist
        from sklearn.metrics import pairwise_distances

        power = {"p": p} if scipy_name == "minkowski" else {}
        share = 1 / WIDTH if p == 0 else 1
        peers["SciPy (f64)"] = lambda: cdist(x.n, y.n, scipy_name, **power) / share
        if share == 1:
            peers["scikit-learn"] = lambda: pairwise_distances(
                x.n, y.n, sklearn_name, n_jobs=place.threads, **power
            )
    return Work(
        lambda: gram.cdist(x.a, y.a, p=p, out=out), lambda a, b: torch.cdist(a, b, p), (x, y),
        exact=lambda: exact_distance(x, y, p), peers=peers)  # fmt: skip


def exact_distance(x, y, p):
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(x.w, y.w, p, mode)


def condensed(place):
    from gram.compat.scipy import pdist
    from scipy.spatial.distance import pdist as scipys

    x = place.operand(points(place)[0].n)
    wide = x.n.astype(np.float64)
    return Work(
        lambda: pdist(wide, "cityblock"), exact=lambda: scipys(wide, "cityblock"),
        peers={"SciPy (f64)": lambda: scipys(wide, "cityblock")})  # fmt: skip


def symmetric(place):
    x, _ = points(place)
    out = x.like(len(x.n), len(x.n))
    return Work(
        lambda: gram.cdist(x.a, p=1, out=out), lambda a: torch.cdist(a, a, 1), (x,)
    )


def through_sklearn(place):
    from gram.compat.sklearn import pairwise_distances
    from sklearn.metrics import pairwise_distances as theirs

    x, y = points(place)
    return Work(
        lambda: pairwise_distances(x.n, y.n, "l1"), exact=lambda: exact_distance(x, y, 1),
        peers={"scikit-learn": lambda: theirs(x.n, y.n, "l1", n_jobs=place.threads)})  # fmt: skip


def through_sklearn_kernel(place):
    from gram.compat.sklearn import pairwise_kernels
    from sklearn.metrics.pairwise import pairwise_kernels as theirs

    x, y = points(place)
    rbf = {"metric": "rbf", "gamma": 0.01}
    return Work(
        lambda: pairwise_kernels(x.n, y.n, **rbf),
        exact=lambda: torch.exp(-0.01 * exact_distance(x, y, 2) ** 2),
        peers={"scikit-learn": lambda: theirs(x.n, y.n, n_jobs=place.threads, **rbf)})  # fmt: skip


def through_torch(place):
    import gram.compat.torch

    x, y = points(place)
    return Work(
        lambda: gram.compat.torch.cdist(x.t, y.t, 1.0), lambda a, b: torch.cdist(a, b, 1.0), (x, y)
    )


def through_kermac(place):
    from gram.compat import kermac

    x, y = points(place)
    out = torch.empty(len(x.n), len(y.n), device=place.device)
    return Work(
        lambda: kermac.cdist(x.t, y.t, p=1.5, out=out), lambda a, b: torch.cdist(a, b, 1.5), (x, y)
    )


def median(place):
    x = place.normal(2000, WIDTH)
    peers = {}
    if place.on_cpu:
        from scipy.spatial.distance import pdist

        peers["SciPy (f64)"] = lambda: np.median(pdist(x.n))
    return Work(
        lambda: gram.median_distance(x.a, rows=2000),
        lambda a: middle(torch.pdist(a)), (x,), peers=peers)  # fmt: skip


def middle(values):
    """The mean of the two middle ones, as NumPy's median is."""
    half, n = torch.sort(values).values, len(values)
    return (half[(n - 1) // 2] + half[n // 2]) / 2


LENGTH = 10.0


def l2(x, y):
    return torch.cdist(x, y)


def unit(x):
    return x / x.norm(dim=1, keepdim=True)


# The kernel, its options, the formula in PyTorch, scikit-learn's name for it with its options, and
# the same for gram bench.
KERNELS = [
    ("laplace", {"bandwidth": LENGTH}, lambda x, y: torch.exp(-l2(x, y) / LENGTH), None,
     "function=laplace outer=0.5 bandwidth=10"),
    ("lpq-laplace", {"bandwidth": LENGTH, "p": 1.3, "exponent": 1.2},
     lambda x, y: torch.exp(-((torch.cdist(x, y, 1.3) / LENGTH) ** 1.2)), None,
     f"function=exponential_power p=1.3 outer={1 / 1.3} exponent=1.2 bandwidth=10"),
    ("product-laplace", {"bandwidth": 60.0, "exponent": 1.0},
     lambda x, y: torch.exp(-torch.cdist(x, y, 1) / 60), ("laplacian", {"gamma": 1 / 60}),
     "function=laplace p=1 outer=1 bandwidth=60"),
    ("gaussian", {"bandwidth": LENGTH},
     lambda x, y: torch.exp(-(l2(x, y) ** 2) / (2 * LENGTH**2)),
     ("rbf", {"gamma": 0.5 / LENGTH**2}), "function=gaussian bandwidth=10"),
    ("matern32", {"bandwidth": LENGTH},
     lambda x, y: (lambda t: (1 + t) * torch.exp(-t))(math.sqrt(3) / LENGTH * l2(x, y)), None,
     "function=matern32 outer=0.5 bandwidth=10"),
    ("matern52", {"bandwidth": LENGTH},
     lambda x, y: (lambda t: (1 + t + t * t / 3) * torch.exp(-t))(math.sqrt(5) / LENGTH * l2(x, y)),
     None, "function=matern52 outer=0.5 bandwidth=10"),
    ("rational-quadratic", {"bandwidth": LENGTH, "alpha": 1.5},
     lambda x, y: (1 + l2(x, y) ** 2 / (3 * LENGTH**2)) ** -1.5, None,
     "function=rational_quadratic alpha=1.5 bandwidth=10"),
    ("linear", {}, lambda x, y: x @ y.T, ("linear", {}), "function=identity inner=dot"),
    ("polynomial", {"gamma": 0.1, "coef0": 1.0, "degree": 3.0},
     lambda x, y: (0.1 * (x @ y.T) + 1) ** 3, ("poly", {"gamma": 0.1, "coef0": 1, "degree": 3}),
     "function=polynomial inner=dot gamma=0.1 coef0=1 degree=3"),
    ("sigmoid", {"gamma": 0.01, "coef0": 0.5},
     lambda x, y: torch.tanh(0.01 * (x @ y.T) + 0.5), ("sigmoid", {"gamma": 0.01, "coef0": 0.5}),
     "function=sigmoid inner=dot gamma=0.01 coef0=0.5"),
    ("cosine", {}, lambda x, y: unit(x) @ unit(y).T, ("cosine", {}), "function=cosine inner=dot"),
    ("distance", {"p": 3.0}, lambda x, y: torch.cdist(x, y, 3), None,
     f"function=identity p=3 outer={1 / 3}"),
]  # fmt: skip


def kernel(row, place):
    name, options, formula, sklearns, _ = row
    x, y = points(place)
    out = x.like(len(x.n), len(y.n))
    peers = {}
    if place.on_cpu and sklearns:
        from sklearn.metrics.pairwise import pairwise_kernels

        peers["scikit-learn"] = lambda: pairwise_kernels(
            x.n, y.n, sklearns[0], n_jobs=place.threads, **sklearns[1])  # fmt: skip
    xrfm = optional("xrfm.rfm_src.kernels") if name in XRFM else None
    if xrfm:
        theirs = XRFM[name](xrfm)
        peers["xrfm"] = lambda: theirs.get_kernel_matrix(x.t, y.t)
    return Work(
        lambda: gram.kernel(x.a, y.a, name, out=out, **options), formula, (x, y), peers=peers
    )


XRFM = {
    "laplace": lambda m: m.LaplaceKernel(bandwidth=LENGTH, exponent=1.0),
    "product-laplace": lambda m: m.ProductLaplaceKernel(bandwidth=60.0, exponent=1.0),
    "lpq-laplace": lambda m: m.LpqLaplaceKernel(bandwidth=LENGTH, p=1.3, q=1.2),
}


def kernel_product(place):
    n, d, columns = place.size(6000, 20000), 16, 8
    x, y, v = place.normal(n, d), place.normal(n, d), place.normal(n, columns)
    out = x.like(n, columns)
    peers = {}
    keops = optional("pykeops.torch") if place.keops else None
    if keops:
        a, b = keops.LazyTensor(x.t[:, None, :]), keops.LazyTensor(y.t[None, :, :])
        peers["pykeops"] = lambda: (-(a - b).abs().sum(-1)).exp() @ v.t
    return Work(
        lambda: gram.kernel_matmul(x.a, y.a, "lpq-laplace", p=1.0, v=v.a, out=out),
        lambda a, b, c: torch.exp(-torch.cdist(a, b, 1)) @ c, (x, y, v), peers=peers)  # fmt: skip


def kernel_gradient(place):
    n, d = place.size(2000, 6000), 64
    x, y, grad = place.normal(n, d), place.normal(n, d), place.normal(n, n)
    out = x.like(n, d)

    def autograd(x, y, grad):
        x = x.clone().requires_grad_()
        k = torch.exp(-torch.cdist(x, y, 1))
        return torch.autograd.grad(k, x, grad)[0]

    return Work(
        lambda: gram.kernel_vjp(x.a, y.a, "lpq-laplace", p=1.0, grad=grad.a, out=out),
        autograd, (x, y, grad))  # fmt: skip


def slopes(a, b, c, d, columns=64):
    """cdist_grad at p = 1.5 by PyTorch's operations, a block of points at a time."""
    parts = []
    for at in range(0, d.shape[1], columns):
        difference = d[:, None, at : at + columns] - b[:, :, None]
        power = difference.sign() * difference.abs().sqrt()
        parts.append(torch.einsum("ok,km,nkm->onm", c, a[:, at : at + columns], power))
    return torch.cat(parts, 2)


def gradient_operands(place):
    k, m, n = place.size(1000, 4000), place.size(500, 2000), 32
    a, b = place.uniform(k, m), place.normal(n, k)
    return a, b, place.normal(4, k), place.normal(n, m)


def gradients(place):
    a, b, c, d = gradient_operands(place)
    out = a.like(4, d.n.shape[0], d.n.shape[1])
    return Work(
        lambda: gram.cdist_grad(a.a, b.a, c.a, d.a, p=1.5, out=out), slopes, (a, b, c, d)
    )


def outer_products(place):
    a, b, c, d = gradient_operands(place)
    out = a.like(d.n.shape[0], d.n.shape[0])

    def formula(a, b, c, d):
        g = slopes(a, b, c, d)
        return torch.einsum("onm,olm->nl", g, g) / d.shape[1]

    return Work(
        lambda: gram.agop(a.a, b.a, c.a, d.a, p=1.5, out=out), formula, (a, b, c, d)
    )


def gradient_words(op):
    return lambda place: (
        op, str(place.size(1000, 4000)), str(place.size(500, 2000)), "32", "4", "p=1.5"
    )  # fmt: skip


CDIST = [(2, "euclidean", "euclidean"), (1, "cityblock", "manhattan"),
         (1.5, "minkowski", "minkowski"), (3, "minkowski", "minkowski"),
         (np.inf, "chebyshev", "chebyshev"), (0, "hamming", None)]  # fmt: skip
MANY = "the call is gram_cdist's or gram_kernel's, in the rows above"

ROWS = [
    *(("cdist", f"p = {row[0]:g}", functools.partial(distances, *row),
       bench_points("cdist", f"p={row[0]:g}")) for row in CDIST),
    ("cdist", "p = 1, x with itself", symmetric, bench_points("cdist", "p=1", "symmetric=1")),
    ("compat.scipy.cdist", None, None, "gram.cdist, with pdist below"),
    ("compat.scipy.pdist", "cityblock, f64", condensed, MANY),
    ("compat.sklearn.pairwise_distances", "l1", through_sklearn, MANY),
    ("compat.sklearn.pairwise_kernels", "rbf", through_sklearn_kernel, MANY),
    ("compat.torch.cdist", "p = 1", through_torch, MANY),
    ("compat.kermac.cdist", "p = 1.5", through_kermac, MANY),
    ("median_distance", "2000 x 64", median, lambda _: ("median", "2000", str(WIDTH), "p=2")),
    *(("kernel", row[0], functools.partial(kernel, row), bench_points("kernel", *row[4].split()))
      for row in KERNELS),
    ("kernel_matmul", "p = 1, 16 features, 8 columns", kernel_product,
     lambda place: ("kernel_matmul", *(str(place.size(6000, 20000)),) * 2, "16", "8", "p=1")),
    ("kernel_vjp", "p = 1, to x", kernel_gradient,
     lambda place: ("kernel_vjp", *(str(place.size(2000, 6000)),) * 2, "64", "p=1")),
    ("cdist_grad", "p = 1.5", gradients, gradient_words("cdist_grad")),
    ("agop", "p = 1.5", outer_products, gradient_words("agop")),
]  # fmt: skip
