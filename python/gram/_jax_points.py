"""Distances, kernels, their products and gradients for JAX."""

import functools
import math

import jax
import jax.numpy as jnp

from gram import _core
from gram._jax_call import batched, call, cotangent, result_type, summed, values, wanted

_NAMES = ("x", "y", "bandwidth", "regularization")
_ROW, _COLUMN = 3, 4  # where the offsets are among the integers of a kernel
_BLOCK = 1 << 22  # elements of the matrices that a block of rows makes


def settled(kernel, expression, of, parameters, output, **numbers):
    """A kernel as the foreign function takes it: integers, numbers, text; it can be hashed."""
    words = {name: value for name, value in numbers.items() if value is not None}
    if expression is None:
        words["kernel"] = kernel
    else:
        words |= {"expression": expression, "of": of, "parameters": parameters or {}}
    integers, numbers = _core.kernel_numbers(output=output, **words)
    text = "" if expression is None else expression.replace("\n", " ")
    return integers, numbers, "\n".join([text, *(parameters or {})])


def _check_columns(function, x, y):
    if y is not None and x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"gram.jax.{function}: x has {x.shape[-1]} columns but y has {y.shape[-1]}"
        )


# ---- Distances -------------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def cdist(p, root, x, y):
    _check_columns("cdist", x, y)
    pairs = [(x, 2)] if y is None else [(x, 2), (y, 2)]
    shape, arrays = batched(*pairs)
    rows = (x if y is None else y).shape[-2]
    (out,) = call(
        "cdist", [((*shape, x.shape[-2], rows), result_type(x))], *arrays,
        integers=[root], numbers=[p],
    )  # fmt: skip
    return out


def _cdist_forward(p, root, *primals):
    x, y = values(primals)
    return cdist(p, root, x, y), (x, y, wanted(x=primals[0], y=primals[1]))


def _cdist_backward(p, root, kept, grad):
    x, y, wrt = kept
    if p == math.inf:
        raise NotImplementedError("gram.jax.cdist: p = inf has no gradient; take a finite p")
    if p == 0:
        return None, None
    options = settled("distance", None, "", None, "value", p=p, outer_power=1 / p if root else 1.0)
    one = jnp.ones((), grad.dtype)
    return _points_vjp(options, x, y, one, 0 * one, cotangent(grad), wrt)[:2]


cdist.defvjp(_cdist_forward, _cdist_backward, symbolic_zeros=True)


# ---- Kernels ---------------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def kernel(options, x, y, bandwidth, regularization):
    _check_columns("kernel", x, y)
    integers, numbers, text = options
    pairs = [(bandwidth, 0), (regularization, 0), (x, 2)] + ([] if y is None else [(y, 2)])
    shape, arrays = batched(*pairs)
    rows = (x if y is None else y).shape[-2]
    (out,) = call(
        "kernel", [((*shape, x.shape[-2], rows), result_type(x))], *arrays,
        integers=integers, numbers=numbers, text=text,
    )  # fmt: skip
    return out


def _kernel_forward(options, *primals):
    inputs = values(primals)
    if options[0][2] != 0:
        raise NotImplementedError("gram.jax.kernel: only output='value' has a gradient")
    names = wanted(**dict(zip(_NAMES, primals, strict=True)))
    return kernel(options, *inputs), (*inputs, names)


def _kernel_backward(options, kept, grad):
    *inputs, wrt = kept
    return _points_vjp(options, *inputs, cotangent(grad), wrt)


kernel.defvjp(_kernel_forward, _kernel_backward, symbolic_zeros=True)


def _points_vjp(options, x, y, bandwidth, regularization, grad, wrt):
    """The gradients of a kernel matrix to those of its inputs that are wanted, None for others."""
    inputs = dict(zip(_NAMES, (x, y, bandwidth, regularization), strict=True))
    both = y is None and "x" in wrt
    names = [name for name in _NAMES if name in wrt or (both and name == "y")]
    # Halves are differentiated in the precision of the result.
    wide = [None if a is None else a.astype(grad.dtype) for a in (x, y)]
    found = _kernel_vjp(options, names, *wide, bandwidth, regularization, grad)
    if both:
        found["x"] = found["x"] + found.pop("y")
    return tuple(summed(found[n], a) if n in found else None for n, a in inputs.items())


def _kernel_vjp(options, names, x, y, bandwidth, regularization, grad):
    """A gradient by each of the names, each with the batch of all."""
    if not names:
        return {}
    integers, numbers, text = options
    pairs = [(bandwidth, 0), (regularization, 0), (grad, 2), (x, 2)]
    shape, arrays = batched(*pairs, *([] if y is None else [(y, 2)]))
    own = {"x": x.shape[-2:], "y": (x if y is None else y).shape[-2:]}
    found = call(
        "kernel_vjp", [((*shape, *own.get(name, ())), grad.dtype) for name in names], *arrays,
        integers=[*integers, sum(1 << _NAMES.index(name) for name in names)], numbers=numbers,
        text=text, broadcast=True,
    )  # fmt: skip
    return dict(zip(names, found, strict=True))


# ---- Products with a kernel matrix that is never stored --------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def kernel_matmul(options, x, y, bandwidth, regularization, v):
    _check_columns("kernel_matmul", x, y)
    rows = (x if y is None else y).shape[-2]
    if v.shape[-2] != rows:
        raise ValueError(
            f"gram.jax.kernel_matmul: v has {v.shape[-2]} rows, expected {rows}, one a point"
        )
    integers, numbers, text = options
    pairs = [(bandwidth, 0), (regularization, 0), (v, 2), (x, 2)]
    shape, arrays = batched(*pairs, *([] if y is None else [(y, 2)]))
    (out,) = call(
        "kernel_matmul", [((*shape, x.shape[-2], v.shape[-1]), result_type(x))], *arrays,
        integers=integers, numbers=numbers, text=text,
    )  # fmt: skip
    return out


def _matmul_forward(options, *primals):
    inputs = values(primals)
    names = wanted(**dict(zip((*_NAMES, "v"), primals, strict=True)))
    return kernel_matmul(options, *inputs), (*inputs, names)


def _turned(options):
    """Of the transposed matrix."""
    integers, numbers, text = options
    turned = (*integers[:_ROW], integers[_COLUMN], integers[_ROW])
    return turned, numbers, text


def _matmul_backward(options, kept, grad):
    x, y, bandwidth, regularization, v, wrt = kept
    grad = cotangent(grad)
    grads = dict.fromkeys((*_NAMES, "v"))
    if "v" in wrt:
        a, b = (x, None) if y is None else (y, x)
        product = kernel_matmul(_turned(options), a, b, bandwidth, regularization, grad)
        grads["v"] = summed(product, v)
    if "regularization" in wrt:
        grads["regularization"] = summed(_diagonal_product(options, grad, v), regularization)
    inputs = {"x": x, "y": y, "bandwidth": bandwidth}
    names = [name for name in inputs if name in wrt or (name == "y" and y is None and "x" in wrt)]
    if names:
        wide = [None if a is None else a.astype(grad.dtype) for a in (x, y)]
        found = _blocks_vjp(options, names, *wide, bandwidth, grad, v)
        if y is None and "x" in found:
            found["x"] = found["x"] + found.pop("y")
        grads |= {name: summed(g, inputs[name]) for name, g in found.items()}
    return tuple(grads.values())


kernel_matmul.defvjp(_matmul_forward, _matmul_backward, symbolic_zeros=True)


def _diagonal_product(options, grad, v):
    """sum of grad_i . v_j where row_offset + i == column_offset + j, one an item"""
    shift = options[0][_ROW] - options[0][_COLUMN]
    begin, end = max(0, -shift), max(0, -shift, min(grad.shape[-2], v.shape[-2] - shift))
    return (grad[..., begin:end, :] * v[..., begin + shift : end + shift, :]).sum((-1, -2))


def _blocks_vjp(options, names, x, y, bandwidth, grad, v):
    """In blocks of rows of x, whose cotangents grad v^T are all that is stored."""
    y = x if y is None else y
    none = jnp.zeros((), grad.dtype)
    batch, _ = batched((x, 2), (y, 2), (bandwidth, 0), (grad, 2), (v, 2))
    m = x.shape[-2]
    rows = min(m, max(1, _BLOCK // max(1, y.shape[-2] * math.prod(batch))))
    whole = m // rows * rows if rows else 0

    def block(part):
        rows_of_x, rows_of_grad = part
        cotangents = rows_of_grad @ v.mT
        found = _kernel_vjp(options, names, rows_of_x, y, bandwidth, none, cotangents)
        # kernel_vjp has the batch of its own arguments.
        own = {"x": rows_of_x.shape[-2:], "y": y.shape[-2:]}
        return {n: jnp.broadcast_to(g, (*batch, *own.get(n, ()))) for n, g in found.items()}

    def step(total, part):
        found = block(part)
        of_x = found.pop("x", None)
        return {name: total[name] + g for name, g in found.items()}, of_x

    def split(a):
        return jnp.moveaxis(a[..., :whole, :].reshape(*a.shape[:-2], -1, rows, a.shape[-1]), -3, 0)

    if whole == rows == m:
        return block((x, grad))
    own = {"y": y.shape[-2:], "bandwidth": ()}
    total = {name: jnp.zeros((*batch, *own[name]), grad.dtype) for name in names if name in own}
    total, of_x = jax.lax.scan(step, total, (split(x), split(grad)))
    if of_x is not None:
        of_x = [jnp.moveaxis(of_x, 0, -3).reshape(*batch, whole, x.shape[-1])]
    if whole < m:
        total, rest = step(total, (x[..., whole:, :], grad[..., whole:, :]))
        of_x = of_x and [*of_x, rest]
    return total | ({} if of_x is None else {"x": jnp.concatenate(of_x, -2)})


# ---- The median distance ---------------------------------------------------------------------


def median_distance(x, p, root, rows, seed):
    shape = x.shape[:-2]
    (out,) = call(
        "median_distance", [(shape, result_type(x))], jax.lax.stop_gradient(x),
        integers=[root, rows, seed], numbers=[p],
    )  # fmt: skip
    return out


# ---- Gradients of kernel expansions ----------------------------------------------------------


def _powers(t, p):
    """sgn(t) |t|^(p - 1) and its derivative, both 0 at 0."""
    if p == 2:
        return t, jnp.ones_like(t)
    if p == 1:
        return jnp.sign(t), jnp.zeros_like(t)
    tie = t == 0
    size = jnp.where(tie, 1, jnp.abs(t))
    phi = jnp.where(tie, 0, jnp.sign(t) * size ** (p - 1))
    return phi, jnp.where(tie, 0, (p - 1) * size ** (p - 2))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def cdist_grad(p, a, b, c, d):
    shape, arrays = batched((a, 2), (b, 2), (c, 2), (d, 2))
    (out,) = call(
        "cdist_grad", [((*shape, c.shape[-2], *d.shape[-2:]), a.dtype)], *arrays, numbers=[p]
    )
    return out


def _grad_forward(p, *inputs):
    return cdist_grad(p, *inputs), inputs


def _grad_backward(p, inputs, grad):
    """A feature after the other: each is a matrix of centres by points."""
    a, b, c, d = inputs

    def step(total, feature):
        of_a, of_c = total
        centre, point, g = feature
        phi, slope = _powers(point[..., None, :] - centre[..., :, None], p)
        back = c.mT @ g
        t = back * a * slope
        total = of_a + back * phi, of_c + g @ (a * phi).mT
        return total, (t.sum(-2), -t.sum(-1))

    batch, _ = batched((a, 2), (b, 2), (c, 2), (d, 2))
    zeros = [jnp.zeros((*batch, *t.shape[-2:]), a.dtype) for t in (a, c)]
    features = (jnp.moveaxis(b, -2, 0), jnp.moveaxis(d, -2, 0), jnp.moveaxis(grad, -2, 0))
    (of_a, of_c), (of_d, of_b) = jax.lax.scan(step, tuple(zeros), features)
    found = of_a, jnp.moveaxis(of_b, 0, -2), of_c, jnp.moveaxis(of_d, 0, -2)
    return tuple(summed(g, t) for g, t in zip(found, inputs, strict=True))


cdist_grad.defvjp(_grad_forward, _grad_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def agop(p, diagonal, points, a, b, c, d):
    shape, arrays = batched((a, 2), (b, 2), (c, 2), (d, 2))
    n = d.shape[-2]
    (out,) = call(
        "agop", [((*shape, n) if diagonal else (*shape, n, n), a.dtype)], *arrays,
        integers=[diagonal, points], numbers=[p],
    )  # fmt: skip
    return out


def _agop_forward(p, diagonal, points, *inputs):
    return agop(p, diagonal, points, *inputs), inputs


def _agop_backward(p, diagonal, points, inputs, grad):
    gradients = cdist_grad(p, *inputs)
    if diagonal:
        back = 2 * grad[..., None, :, None] * gradients
    else:
        back = (grad + grad.mT)[..., None, :, :] @ gradients
    return _grad_backward(p, inputs, back / max(1, points or inputs[3].shape[-1]))


agop.defvjp(_agop_forward, _agop_backward)
