"""Second derivatives of kernel matrices for PyTorch, composed of the library's weights.

A kernel of a distance has dk/dx = w phi(x - y) with phi(t) = sgn(t) |t|^(p - 1) in every
coordinate, and dw/dx = w2 phi(x - y).  w is gram.kernel's output "weight"; w2 is the weight of w
written as an expression.  As k depends on d / L alone, its derivatives by the bandwidth L follow
from w and w2 (Euler, homogeneous functions).  A kernel of the product has dk/dx = w y.
"""

import re

import torch

from gram import _core
from gram._second import OF_DISTANCE, OF_PRODUCT
from gram._torch_register import batch, operator, operators, plain, summed


def powers(t, p):
    """phi and its derivative, both 0 at 0; p is a number or a tensor."""
    size, tie = t.abs(), t == 0
    if isinstance(p, torch.Tensor):
        slope = torch.where(p == 1, 0, (p - 1) * size ** (p - 2))
        phi = torch.where(tie, 0, t.sign() * size ** (p - 1))
        return phi, torch.where(tie, (p == 2).to(t.dtype), slope)
    if p == 2:
        return t, torch.ones_like(t)
    phi = t.sign() if p == 1 else torch.where(tie, 0, t.sign() * size ** (p - 1))
    return phi, torch.zeros_like(t) if p == 1 else torch.where(tie, 0, (p - 1) * size ** (p - 2))


def curvature(t, p):
    """The second derivative of phi, 0 at 0."""
    if p in (1, 2):
        return torch.zeros_like(t)
    return torch.where(t == 0, 0, (p - 1) * (p - 2) * t.sign() * t.abs() ** (p - 3))


@operator(
    "(Tensor x, Tensor y, Tensor? bandwidth, str kernel, float[] numbers) -> Tensor",
    cores={0: 2, 1: 2, 2: 0},
    shapes=lambda x, y, l, *rest: x.new_empty(
        (*batch((x, 2), (y, 2), (l, 0)), x.shape[-2], y.shape[-2])
    ),
)
def second_weight(x, y, bandwidth, kernel, numbers):
    """w2 of a distance, d^2 k / ds^2 of a product; numbers as kernel_second makes them."""
    names = ("l", "p", "q", "a", "g", "c", "n")
    parameters = dict(zip(names, numbers, strict=True))
    product = kernel in OF_PRODUCT
    expression = (OF_PRODUCT if product else OF_DISTANCE)[kernel]
    if bandwidth is not None:
        parameters["l"] = bandwidth.detach()
    words = set(re.findall(r"\w+", expression))
    used = {name: value for name, value in parameters.items() if name in words}
    return _core.kernel(
        *plain(x, y),
        expression=expression,
        of="product" if product else "distance",
        **({} if product else {"p": parameters["p"]}),
        parameters=used,
        output="weight",
    )


@operator(
    "(Tensor x, Tensor y, Tensor u, Tensor v, float p) -> Tensor",
    cores={0: 2, 1: 2, 2: 2, 3: 2},
    shapes=lambda x, y, u, v, p: x.new_empty(
        (*batch((x, 2), (y, 2), (u, 2), (v, 2)), x.shape[-2], y.shape[-2])
    ),
)
def pair_slopes(x, y, u, v, p):
    """sum_k phi(x_ik - y_jk) (u_ik - v_jk)"""
    x, y, u, v = plain(x, y, u, v)
    if p == 2:
        own, others = (x * u).sum(-1)[..., None], (y * v).sum(-1)[..., None, :]
        return own + others - u @ y.mT - x @ v.mT
    total = 0
    for k in range(x.shape[-1]):
        phi, _ = powers(x[..., :, None, k] - y[..., None, :, k], p)
        total = total + phi * (u[..., :, None, k] - v[..., None, :, k])
    return total if x.shape[-1] else u @ y.mT


@operator(
    "(Tensor x, Tensor y, Tensor u, Tensor v, Tensor q, Tensor r, float p) -> (Tensor, Tensor)",
    cores={0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2},
    shapes=lambda x, y, u, v, q, r, p: tuple(
        x.new_empty((*batch((x, 2), (y, 2), (u, 2), (v, 2), (q, 2), (r, 2)), *t.shape[-2:]))
        for t in (x, y)
    ),
)
def pair_sums(x, y, u, v, q, r, p):
    """Of t_ijk = q_ij phi(x_ik - y_jk) + r_ij phi'(x_ik - y_jk) (u_ik - v_jk): the sums over j, and
    minus those over i."""
    x, y, u, v, q, r = plain(x, y, u, v, q, r)
    if p == 2:
        of_x = q.sum(-1)[..., None] * x - q @ y + r.sum(-1)[..., None] * u - r @ v
        of_y = q.sum(-2)[..., None] * y - q.mT @ x + r.sum(-2)[..., None] * v - r.mT @ u
        return of_x, of_y
    parts = []
    for k in range(x.shape[-1]):
        phi, slope = powers(x[..., :, None, k] - y[..., None, :, k], p)
        t = q * phi + r * slope * (u[..., :, None, k] - v[..., None, :, k])
        parts.append((t.sum(-1), -t.sum(-2)))
    if not parts:
        return (q @ y), (q.mT @ x)
    return torch.stack([t[0] for t in parts], -1), torch.stack([t[1] for t in parts], -1)


def _unit(x):
    """Points of length 1, and their lengths; both 0, and 1, for points at 0."""
    length = x.norm(dim=-1, keepdim=True)
    zero = length == 0
    length = torch.where(zero, 1, length)
    return x / length, length, (~zero).to(x.dtype)


def cosine_second(x, y, grad, u, v):
    """The gradients to x and y of the sum of grad times slopes, and these, the derivative of the
    cosines of the angles along u and v."""
    (e, r, here), (f, s, there) = _unit(x), _unit(y)
    across = lambda unit, t: t - unit * (unit * t).sum(-1, keepdim=True)  # noqa: E731
    a, b = here * across(e, u) / r, there * across(f, v) / s

    def of(unit, length, here, u, a, m, own):
        """m is what meets the derivative of unit along u, which is a; own what meets unit."""
        along = (unit * u).sum(-1, keepdim=True) * across(unit, m)
        along = along + (unit * m).sum(-1, keepdim=True) * across(unit, u)
        total = across(unit, own) - unit * (m * a).sum(-1, keepdim=True) - along / length
        return here * total / length

    of_x = of(e, r, here, u, a, grad @ f, grad @ b)
    of_y = of(f, s, there, v, b, grad.mT @ e, grad.mT @ a)
    return (of_x, of_y), a @ f.mT + e @ b.mT


def _column(number):
    """A number of every item, to multiply matrices with."""
    return number[..., None, None] if isinstance(number, torch.Tensor) else number


def _name(options):
    kernel, _, outer_power, _, expression, *_ = options
    if expression is not None:
        raise NotImplementedError("gram.torch: an expression has no second derivative")
    if outer_power is not None and kernel not in ("distance", "cosine", *OF_PRODUCT):
        raise NotImplementedError("gram.torch: there is no second derivative with outer_power")
    return kernel.replace("_", "-")


def kernel_second(tensors, options, cotangents):
    """The gradients of kernel_vjp to x, y, bandwidth, regularization and grad."""
    cotangents = {name: u for name, u in cotangents.items() if u is not None}
    if not cotangents:
        return []
    x, y, bandwidth, regularization, grad = tensors
    kernel = _name(options)
    if options[1][1] == float("inf"):
        raise NotImplementedError("gram.torch: p = inf has no second derivative")
    other = x if y is None else y
    u = cotangents.get("x", torch.zeros_like(x))
    v = cotangents.get("y", torch.zeros_like(other))
    scale, p, q, alpha, gamma, coef0, degree, _ = options[1]
    by_scale = None
    if kernel == "cosine":
        found, slope = cosine_second(x, other, grad, u, v)
        return _second(tensors, cotangents, options, found, slope, None)
    weight = operators.kernel(x, other, bandwidth, None, [], *options, "weight")
    if kernel in OF_PRODUCT:
        second = second_weight(
            x, other, None, kernel, [scale, p, q, alpha, gamma, coef0, degree]
        )
        slope = u @ other.mT + x @ v.mT
        seen = weight * slope
        rows, sums = grad * second * slope, grad * weight
        found = rows @ other + sums @ v, rows.mT @ x + sums.mT @ u
    else:
        p = {"product-laplace": q, "gaussian": 2.0, "rational-quadratic": 2.0}.get(kernel, p)
        power = p * (1 / p if options[2] is None else options[2])
        second = second_weight(
            x, other, bandwidth, kernel, [scale, p, q, alpha, gamma, power, degree]
        )
        slope = pair_slopes(x, other, u, v, p)
        seen, rows = weight * slope, second * slope
        if kernel != "distance" and ("bandwidth" in cotangents or bandwidth is not None):
            length = _column(scale if bandwidth is None else bandwidth.to(x))
            distance = operators.cdist(x, other, None, p, False)
            # Derivatives by L: of w, of k, and of k twice.
            of_weight = -(p * weight + second * distance) / length
            of_kernel = -weight * distance / length
            twice = (-of_weight * distance - of_kernel) / length
            by_scale = of_weight * slope
            if "bandwidth" in cotangents:
                mine = _column(cotangents["bandwidth"].to(x))
                seen, rows = seen + mine * of_kernel, rows + mine * of_weight
                by_scale = by_scale + mine * twice
        found = pair_sums(x, other, u, v, grad * rows, grad * weight, p)
    return _second(tensors, cotangents, options, found, seen, by_scale)


def _second(tensors, cotangents, options, found, seen, by_scale):
    """found: to x and y; seen: to grad; by_scale: those of a kernel's elements to bandwidth."""
    x, y, bandwidth, regularization, grad = tensors
    if "regularization" in cotangents:
        seen = seen + _column(cotangents["regularization"].to(x)) * _diagonal(seen, options[3])
    of_x, of_y = found
    if y is None:
        of_x, of_y = of_x + of_y, None
    of_scale = None
    if bandwidth is not None and by_scale is not None:
        of_scale = summed((grad * by_scale).sum((-2, -1)), bandwidth)
    return [
        summed(of_x, x),
        None if y is None else summed(of_y, y),
        of_scale,
        None,
        summed(seen, grad),
    ]


def _diagonal(like, offsets):
    i = torch.arange(like.shape[-2], device=like.device) + offsets[0]
    j = torch.arange(like.shape[-1], device=like.device) + offsets[1]
    return (i[:, None] == j).to(like.dtype)
