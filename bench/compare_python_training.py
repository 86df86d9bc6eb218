"""compare_python_training.py - rows of bench/compare_python.py: layers, optimizers, estimators

A row is (functions, what, how it is made, the words behind `gram bench` or why there are none).
"""

import functools

import gram
import numpy as np
import torch
from compare_python_algebra import NO_BENCH
from compare_python_place import Work


def layer(place):
    n, steps, width = place.size(64, 256), 16, place.size(256, 512)
    return place.normal(n, steps, width), place.normal(n, steps, width)


def layer_words(op):
    return lambda place: (
        op, str(place.size(64, 256)), "16", *(str(place.size(256, 512)),) * 2, "bias=0"
    )  # fmt: skip


def sample_gradients(place):
    a, g = layer(place)
    return Work(
        lambda: gram.sample_grad(a.a, g.a, bias=False)[0],
        lambda a, g: torch.einsum("nso,nsi->noi", g, a), (a, g))  # fmt: skip


def sample_norms(place):
    a, g = layer(place)

    def formula(a, g):
        return (torch.bmm(a, a.mT) * torch.bmm(g, g.mT)).sum((1, 2)).sqrt()

    return Work(
        lambda: gram.sample_grad(a.a, g.a, bias=False, output="norm"), formula, (a, g), part=last
    )


def last(result):
    return result[-1] if isinstance(result, tuple) else result


def factors(place):
    a, g = layer(place)

    def formula(a, g):
        n, steps, _ = a.shape
        a, g = a.reshape(n * steps, -1), g.reshape(n * steps, -1)
        return a.T @ a / (n * steps), g.T @ g / n

    return Work(lambda: gram.kfac_factors(a.a, g.a, bias=False), formula, (a, g))


def natural(place):
    j, v = place.normal(256, 20000), place.normal(20000)
    n = len(j.n)

    def formula(j, v):
        small = j @ j.T + 0.1 * n * torch.eye(n, dtype=j.dtype, device=j.device)
        inner = torch.cholesky_solve((j @ v)[:, None], torch.linalg.cholesky(small))
        return (v - j.T @ inner[:, 0]) / 0.1

    return Work(lambda: gram.natural_gradient(j.a, v.a, 0.1), formula, (j, v))


def parameters(place, count=4):
    n = place.size(512, 1024)
    made = [torch.nn.Parameter(place.normal(n, n).t.clone()) for _ in range(count)]
    for p in made:
        p.grad = place.normal(n, n).t.clone()
    return made


def step(name, options, peer, place):
    """A step of one optimizer: nothing that could be compared in float64 comes out of it."""
    import gram.optim

    mine = getattr(gram.optim, name)(parameters(place), **options)
    peers = {}
    if peer and hasattr(torch.optim, peer):
        theirs = getattr(torch.optim, peer)(parameters(place))
        peers[f"torch.optim.{peer}"] = theirs.step
    return Work(mine.step, peers=peers)


def kfac_step(name, place):
    import gram.optim

    width = place.size(256, 512)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, width), torch.nn.Tanh(), torch.nn.Linear(width, 10)
    ).to(place.device)
    optimizer = getattr(gram.optim, name)(model, lr=1e-4)
    x = place.normal(256, 64).t
    y = torch.arange(256, device=place.device) % 10

    def ours():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return Work(ours)


def transformed(place):
    import gram.optim

    n = place.size(256, 512)
    w, g = place.normal(n, n), place.normal(n, n)
    rule = gram.optim.transform("shampoo", lr=0.01)
    state = rule.init(w.a)
    return Work(lambda: rule.update(g.a, state, w.a))


def ridge(place):
    from gram.sklearn import KernelRidge
    from sklearn.kernel_ridge import KernelRidge as Theirs

    x = place.normal(2000, 16)
    y = np.sin(x.n[:, 0]) + x.n[:, 1]
    mine = KernelRidge(kernel="gaussian", bandwidth=4.0, alpha=0.1)
    theirs = Theirs(kernel="rbf", gamma=1 / 32, alpha=0.1)
    wide = x.n.astype(np.float64)
    return Work(
        lambda: mine.fit(x.n, y).predict(x.n), exact=lambda: theirs.fit(wide, y).predict(wide),
        peers={"scikit-learn": lambda: theirs.fit(x.n, y).predict(x.n)})  # fmt: skip


def transformer(place):
    from gram.sklearn import KernelTransformer

    x = place.normal(4000, 64)
    return Work(lambda: KernelTransformer(kernel="gaussian", bandwidth=10.0).fit_transform(x.n))


def forest(name, place):
    import gram.sklearn

    x = place.normal(2000, 16)
    y = np.sin(x.n[:, 0]) + x.n[:, 1]
    y = (y > 0).astype(int) if name == "RFMClassifier" else y
    model = getattr(gram.sklearn, name)(iterations=1, device=place.device, random_state=0)
    return Work(lambda: model.fit(x.n, y))


OPTIMIZERS = [
    ("Shampoo", {"refresh": 10}, None),
    ("SOAP", {"refresh": 10}, None),
    ("Muon", {}, "Muon"),
]
C_STEP = "bench/bench_optimizer.c times steps in C"
XRFM = "bench/compare_xrfm.py has xRFM beside it"

ROWS = [
    ("sample_grad", "gradients of a linear layer", sample_gradients, "gram bench makes the norms"),
    ("sample_grad", "their norms", sample_norms, layer_words("sample_grad")),
    ("kfac_factors", "a linear layer", factors, layer_words("kfac_factors")),
    ("natural_gradient", "256 samples, 20,000 parameters", natural, NO_BENCH),
    *((f"optim.{name}", "a step of 4 matrices", functools.partial(step, name, *how), C_STEP)
      for name, *how in OPTIMIZERS),
    *((f"optim.{name}", "two layers: forward, backward, step", functools.partial(kfac_step, name),
       NO_BENCH) for name in ("KFAC", "EKFAC")),
    ("optim.transform", "a step of Shampoo, one matrix", transformed, C_STEP),
    ("sklearn.KernelRidge", "fit and predict, 2000 rows", ridge, NO_BENCH),
    ("sklearn.KernelTransformer", "4000 rows", transformer, NO_BENCH),
    *((f"sklearn.{name}", "fit, 2000 rows; " + XRFM, functools.partial(forest, name), NO_BENCH)
      for name in ("RFMRegressor", "RFMClassifier")),
]  # fmt: skip
