"""peers/torch.py - PyTorch: its own functions, or the formula in its operations"""

import functools

import torch
from core.place import NotOffered, tensor
from core.shared import chain
from core.tables import Call, Problem

NAME, PACKAGES, DEVICES = "PyTorch", ["torch"], ("cpu", "cuda")
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def of(*arrays):
    return [tensor(a) for a in arrays]


# ---- Distances and kernels ----------------------------------------------------------------------


def cdist(q):
    x, y = of(q.x, q.x if q.y is None else q.y)
    return lambda: torch.cdist(x, y, p=float(q.p))


def kernel(q):
    x, y = of(q.x, q.y)

    def run():
        def cosines():
            a, b = (t / t.norm(dim=1, keepdim=True) for t in (x, y))
            return a @ b.T

        v = Problem(d=lambda p: torch.cdist(x, y, p), dot=lambda: x @ y.T, cos=cosines,
                    exp=torch.exp, tanh=torch.tanh, **q.given)  # fmt: skip
        out = q.formula(v)
        if q.given.get("regularization"):
            out.diagonal().add_(q.given["regularization"])
        return out

    return run


def kernel_matmul(q):
    x, y, v = of(q.x, q.y, q.v)
    return lambda: torch.exp(-torch.cdist(x, y, 1)) @ v


def kernel_vjp(q):
    x, y, grad = of(q.x, q.y, q.grad)

    def run():
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(torch.exp(-torch.cdist(leaf, y, 1)), leaf, grad)[0]

    return run


def kernel_matmul_vjp(q):
    x, y, v, grad = of(q.x, q.y, q.v, q.grad)

    def run():
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(torch.exp(-torch.cdist(leaf, y, 1)) @ v, leaf, grad)[0]

    return run


def slopes(a, b, c, d, p, columns=64):
    """cdist_grad by PyTorch's operations, a block of points at a time."""
    parts = []
    for at in range(0, d.shape[1], columns):
        difference = d[:, None, at : at + columns] - b[:, :, None]
        power = difference.sign() * difference.abs() ** (p - 1)
        parts.append(torch.einsum("ok,km,nkm->onm", c, a[:, at : at + columns], power))
    return torch.cat(parts, 2)


def cdist_grad(q):
    a, b, c, d = of(q.a, q.b, q.c, q.d)
    if q.p == 2:  # two products of matrices: d (c a) - (c b) a

        def run():
            out = torch.mm((c[:, None, :] * b).reshape(-1, len(a)), a).view(q.o, q.n, -1)
            return torch.sub((c @ a)[:, None, :] * d, out, out=out)

        return {"products": run}
    if q.k > 4000:
        raise NotOffered("blocks of 64 points take minutes")
    return {"blocks": lambda: slopes(a, b, c, d, q.p)}


def agop(q):
    a, b, c, d = of(q.a, q.b, q.c, q.d)
    if q.k > 4000:
        raise NotOffered("blocks of 64 points take minutes")

    def run():
        g = slopes(a, b, c, d, q.p)
        return torch.einsum("onm,olm->nl", g, g) / d.shape[1]

    return {"blocks": run}


def median(q):
    (x,) = of(q.x)

    def run():  # the mean of the two middle ones, as NumPy's median is
        values = torch.sort(torch.pdist(x)).values
        return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2

    return run


def warm_call(q):
    x, y = of(q.x, q.y)
    return lambda: torch.cdist(x, y)


# ---- Linear algebra -----------------------------------------------------------------------------


def solve(q):
    a, b = of(q.a, q.b)
    if q.lu:
        return lambda: torch.linalg.solve(a, b)
    return lambda: torch.cholesky_solve(b, torch.linalg.cholesky(a))


def eigh(q):
    (a,) = of(q.a)
    return lambda: torch.linalg.eigh(a)


def eigh_top(q):
    (a,) = of(q.a)
    return {"all pairs": lambda: tuple(t[..., -q.count :] for t in torch.linalg.eigh(a))}


def eigh_kernel(q):
    if q.n > 20000:
        raise NotOffered("the matrix would have to be stored")
    (x,) = of(q.x)

    def run():
        k = torch.exp(-torch.cdist(x, x) / q.bandwidth)
        return tuple(t[..., -q.count :] for t in torch.linalg.eigh(k))

    return {"all pairs": run}


def root(a, power=-0.25):
    found, vectors = torch.linalg.eigh(a)
    return (vectors * found.clamp(min=1e-30)[..., None, :] ** power) @ vectors.mT


def matrix_power(q):
    (a,) = of(q.a)
    return {"eigh": lambda: root(a)}


def eigh_many(q):
    parts = of(*q.parts)
    return lambda: [torch.linalg.eigh(p) for p in parts]


def power_many(q):
    parts = of(*q.parts)
    return lambda: [root(p) for p in parts]


def matmul(q):
    a, b = of(q.a, q.b)
    return lambda: torch.matmul(a, b)


def matmul_chunked(q):
    if q.place.on_cpu:
        return matmul(q)
    a, b = of(q.a, q.b)
    out = torch.empty_like(a)
    found = {"mm": lambda: torch.mm(a, b, out=out)}
    for kind, host in q.hosts.items():

        def copies(h=host):
            out.copy_(h[0])
            out.copy_(h[1])
            h[2].copy_(out)

        found[f"{kind} copies alone"] = Call(copies, error=lambda got: None)
    return found


def syrk_ema(q):
    x, start = of(q.x, q.start)
    return lambda: torch.baddbmm(start, x, x.mT, beta=0.5, alpha=0.5)


def natural_gradient(q):
    j, v = of(q.j, q.v)
    n = len(j)

    def run():
        small = j @ j.T + q.damping * n * torch.eye(n, dtype=j.dtype, device=j.device)
        inner = torch.cholesky_solve((j @ v)[:, None], torch.linalg.cholesky(small))
        return (v - j.T @ inner[:, 0]) / q.damping

    return run


# ---- Kronecker products -------------------------------------------------------------------------


def kron_matmul(q):
    x, *factors = of(q.x, *q.factors)
    if q.left or not x.is_floating_point():
        raise NotOffered("left products and integers")
    return {"GEMMs": lambda: chain(x, factors)}


def kron_vjp(q):
    x, grad, *factors = of(q.x, q.grad, *q.factors)
    inputs = [t.detach().clone().requires_grad_() for t in (x, *factors)]
    y = chain(inputs[0], inputs[1:])
    return lambda: torch.autograd.grad(y, inputs, grad, retain_graph=True)


def kron_solve(q):
    """x (K + shift I) = b by torch.linalg, factor by factor."""
    b, *factors = of(q.b, *q.factors)
    if q.method == "eigen":
        return lambda: by_vectors(b, factors, q.shift)

    def run():
        x = b.reshape(b.shape[0], *[f.shape[0] for f in factors])
        for i, f in enumerate(factors):
            columns = x.movedim(i + 1, 0).reshape(f.shape[0], -1)
            if q.method == "lu":
                columns = torch.linalg.solve(f.T, columns)
            else:
                columns = torch.cholesky_solve(columns, torch.linalg.cholesky(f))
            rest = [x.shape[0]] + [n for k, n in enumerate(x.shape[1:]) if k != i]
            x = columns.reshape(f.shape[0], *rest).movedim(0, i + 1)
        return x.reshape(b.shape)

    return run


def by_vectors(b, factors, shift):
    pairs = [torch.linalg.eigh(f) for f in factors]
    values = functools.reduce(lambda v, w: torch.outer(v, w).reshape(-1), [w for w, _ in pairs])
    z = chain(b, [v for _, v in pairs]) / (values + shift)
    return chain(z, [v.T.contiguous() for _, v in pairs])


def kron(q):
    factors = of(*q.factors)
    return lambda: functools.reduce(torch.kron, factors)


def kron_logdet(q):
    factors = of(*q.factors)
    total = functools.reduce(lambda n, f: n * len(f), factors, 1)

    def run():
        parts = [torch.linalg.slogdet(f) for f in factors]
        signs = [s ** (total // len(f)) for (s, _), f in zip(parts, factors, strict=True)]
        size = sum(v * (total // len(f)) for (_, v), f in zip(parts, factors, strict=True))
        return functools.reduce(torch.mul, signs), size

    return run


def kron_trace(q):
    factors = of(*q.factors)
    return lambda: functools.reduce(torch.mul, [f.trace() for f in factors])


def kron_diagonal(q):
    factors = of(*q.factors)
    return lambda: functools.reduce(
        lambda d, f: torch.outer(d, f.diagonal()).reshape(-1), factors[1:], factors[0].diagonal()
    )


# ---- Layers and optimizers ----------------------------------------------------------------------


def sample_gradients(q):
    a, g = of(q.a, q.g)
    return lambda: torch.einsum("nso,nsi->noi", g, a)


def sample_norms(q):
    a, g = of(q.a, q.g)
    return lambda: (torch.bmm(a, a.mT) * torch.bmm(g, g.mT)).sum((1, 2)).sqrt()


def kfac_factors(q):
    a, g = of(q.a, q.g)

    def run():
        n, steps, _ = a.shape
        rows, slopes = a.reshape(n * steps, -1), g.reshape(n * steps, -1)
        return rows.T @ rows / (n * steps), slopes.T @ slopes / n

    return run


def kfac_layer(q):
    from core.torch_formulas import LayerKfac

    return q.parts_of({f"state {t}": functools.partial(LayerKfac, q, t)
                       for t in ("float64", "float32")})  # fmt: skip


def step(q):
    from core.torch_formulas import shampoo_steps

    parameters = [p for p in q.leaves() if p.ndim == 2 or q.method != "Muon"]
    if q.method == "Muon":
        return {"torch.optim.Muon": q.steps(torch.optim.Muon(parameters))}
    if q.method == "AdamW":
        fused = not q.place.on_cpu
        return {"AdamW": q.steps(torch.optim.AdamW(parameters, fused=fused))}
    return shampoo_steps(q) if q.method == "Shampoo" else None


def direction(q):
    from core.torch_formulas import shampoo_directions

    return shampoo_directions(q) if q.method == "Shampoo" else None


def sample_grad_model(q):
    """torch.func.vmap of grad, and passes without a gradient of a sample."""
    from gram import torch as gt

    def call(what, **more):
        function = gt.per_sample_norms if what == "norms" else gt.per_sample_gradients
        return lambda: function(*q.model, method="func", **more)

    few = (*q.model[:2], q.model[2][:1], q.model[3][:1])
    gt.per_sample_norms(*few, method="func")  # what is loaded once, whatever the batch
    half = -(-q.model[2].shape[0] // 2)
    found = {f"vmap, {what}": call(what) for what in ("norms", "gradients")}
    found["vmap, norms in two parts"] = call("norms", chunk=half)
    if not q.place.on_cpu:
        found["vmap, norms as a graph"] = q.captured(call("norms"))
    model, loss, x, y = q.model

    def least():
        model.requires_grad_(False)
        try:
            loss(model(x.detach().requires_grad_()), y).backward()
        finally:
            model.requires_grad_(True)

    quiet = {"error": lambda got: None}
    found["forward and backward pass"] = Call(lambda: loss(model(x), y).backward(), **quiet)
    found["passes without gradients of weights"] = Call(least, **quiet)
    return found


def training(q):
    from core.torch_formulas import PlainKfac

    def sgd(model):
        return torch.optim.SGD(model.parameters(), lr=q.rate, momentum=q.momentum)

    return q.ways({"SGD": sgd, "K-FAC's formulas": lambda model: PlainKfac(model, q)})


CALLS = {
    "cdist": cdist,
    "kernel": kernel,
    "kernel_matmul": kernel_matmul,
    "kernel_vjp": kernel_vjp,
    "kernel_matmul_vjp": kernel_matmul_vjp,
    "cdist_grad": cdist_grad,
    "agop": agop,
    "median_distance": median,
    "warm_call": warm_call,
    "solve": solve,
    "eigh": eigh,
    "eigh_top": eigh_top,
    "eigh_kernel": eigh_kernel,
    "eigh_many": eigh_many,
    "matrix_power": matrix_power,
    "matrix_power_many": power_many,
    "matmul_batched": matmul,
    "matmul_chunked": matmul_chunked,
    "syrk_ema": syrk_ema,
    "natural_gradient": natural_gradient,
    "kron_matmul": kron_matmul,
    "kron_matmul_vjp": kron_vjp,
    "kron_solve": kron_solve,
    "kron": kron,
    "kron_logdet": kron_logdet,
    "kron_trace": kron_trace,
    "kron_diagonal": kron_diagonal,
    "sample_gradients": sample_gradients,
    "sample_norms": sample_norms,
    "kfac_factors": kfac_factors,
    "kfac_layer": kfac_layer,
    "step": step,
    "direction": direction,
    "sample_grad_model": sample_grad_model,
    "training": training,
}
