"""The derivatives of kernel matrices for JAX: forward mode, reverse mode, twice.

A kernel of a distance has dk/dx = w phi(x - y) with phi(t) = sgn(t) |t|^(p - 1) in every
coordinate, and dw/dx = w2 phi(x - y).  w is the library's output "weight"; w2 is the weight of w
written as an expression.  As k depends on d / L alone, its derivatives by the bandwidth L follow
from w and w2 (Euler, homogeneous functions).  A kernel of the product has dk/dx = w y.  Reverse
mode calls gram_kernel_vjp.
"""

import functools
import math
import re

import jax
import jax.numpy as jnp

from gram import _core
from gram._jax_call import batched, call, moving, result_type, summed
from gram._jax_linear import directional, linear
from gram._kernels import had
from gram._second import OF_DISTANCE, OF_PRODUCT

NAMES = ("x", "y", "bandwidth", "regularization")
FUNCTION, INNER, OUTPUT, ROW, COLUMN = range(5)  # the integers of a kernel
P, OUTER_POWER, EXPONENT, ALPHA, GAMMA, COEF0, DEGREE = range(7)  # its numbers
WEIGHT, NORM_X_WEIGHT, NORM_Y_WEIGHT, D1_WEIGHT, D2_WEIGHT = 1, 4, 5, 6, 7  # outputs
PRODUCT = 2  # what a kernel is of


def settled(kernel, expression, of, parameters, output, **numbers):
    """A kernel as the foreign function takes it, (integers, numbers, text), and the name of its
    second derivative, or why there is none; it can be hashed."""
    words = {name: value for name, value in numbers.items() if value is not None}
    for each, value in words.items():
        if getattr(value, "ndim", 0):
            raise TypeError(f"gram.jax.kernel: {each} is an array, expected a number")
    if expression is None:
        words["kernel"] = kernel
        name = kernel.replace("_", "-")
        if "outer_power" in words and name != "distance" and name not in OF_PRODUCT:
            name = "a kernel with outer_power"
    else:
        words |= {"expression": expression, "of": of, "parameters": parameters or {}}
        name = "an expression"
    integers, numbers = _core.kernel_numbers(output=output, **had(words))
    text = "" if expression is None else expression.replace("\n", " ")
    return (integers, numbers, "\n".join([text, *(parameters or {})])), name


def value(options, x, y, bandwidth, regularization):
    """The kernel matrix, of which JAX knows no derivative."""
    (integers, numbers, text), _ = options
    pairs = [(bandwidth, 0), (regularization, 0), (x, 2)] + ([] if y is None else [(y, 2)])
    shape, arrays = batched(*pairs)
    rows = (x if y is None else y).shape[-2]
    (out,) = call(
        "kernel", [((*shape, x.shape[-2], rows), result_type(x))], *arrays,
        integers=integers, numbers=numbers, text=text,
    )  # fmt: skip
    return out


def column(number):
    """A number of every item, to multiply matrices with."""
    return number[..., None, None]


# ---- Differences and products of coordinates -------------------------------------------------


def powers(t, p):
    """phi and its derivative, both 0 at 0."""
    if p == 2:
        return t, jnp.ones_like(t)
    if p == 1:
        return jnp.sign(t), jnp.zeros_like(t)
    tie = t == 0
    size = jnp.where(tie, 1, jnp.abs(t))
    phi = jnp.where(tie, 0, jnp.sign(t) * size ** (p - 1))
    return phi, jnp.where(tie, 0, (p - 1) * size ** (p - 2))


def _phi(p, x, y):
    """phi of the differences of a coordinate; p = infinity: the sign where the largest of all
    coordinates' is."""
    if p != math.inf:
        return lambda t: powers(t, p)[0]
    largest = power_sums(p, x, y)
    return lambda t: jnp.where(jnp.abs(t) == largest, jnp.sign(t), 0)


def _features(*arrays):
    return tuple(jnp.moveaxis(a, -1, 0) for a in arrays)


def slopes(p, x, y, u, v):
    """sum_k phi(x_ik - y_jk) (u_ik - v_jk); p None: sum_k u_ik y_jk + x_ik v_jk"""
    if p is None:
        return u @ y.mT + x @ v.mT
    if p == 2:
        of_x, of_y = (x * u).sum(-1), (y * v).sum(-1)
        return of_x[..., :, None] + of_y[..., None, :] - u @ y.mT - x @ v.mT

    of = _phi(p, x, y)

    @jax.checkpoint
    def step(total, feature):
        x, y, u, v = feature
        phi = of(x[..., :, None] - y[..., None, :])
        return total + phi * (u[..., :, None] - v[..., None, :]), None

    batch, _ = batched((x, 2), (y, 2), (u, 2), (v, 2))
    zeros = jnp.zeros((*batch, x.shape[-2], y.shape[-2]), u.dtype)
    return jax.lax.scan(step, zeros, _features(x, y, u, v))[0]


def sums(p, x, y, q):
    """Its transpose: sum_j q_ij phi(x_ik - y_jk), and minus the sum over i; of products q y."""
    if p is None:
        return q @ y, q.mT @ x
    if p == 2:
        return q.sum(-1)[..., None] * x - q @ y, q.sum(-2)[..., None] * y - q.mT @ x

    of = _phi(p, x, y)

    @jax.checkpoint
    def step(none, feature):
        x, y = feature
        t = q * of(x[..., :, None] - y[..., None, :])
        return none, (t.sum(-1), -t.sum(-2))

    found = jax.lax.scan(step, None, _features(x, y))[1]
    return tuple(jnp.moveaxis(t, 0, -1) for t in found)


# ---- Weights ---------------------------------------------------------------------------------


def inner(options):
    """The power of a kernel of distances, None for one of products."""
    (integers, numbers, _), _ = options
    return None if integers[INNER] == PRODUCT else numbers[P]


def _output_options(options, output):
    (integers, numbers, text), name = options
    return ((*integers[:OUTPUT], output, *integers[OUTPUT + 1 :]), numbers, text), name


def _has_norms(options):
    return re.search(r"\b(dot|norm_x|norm_y)\b", options[0][2].split("\n")[0]) is not None


def _has_distances(options):
    return re.search(r"\bd[12]\b", options[0][2].split("\n")[0]) is not None


def _of_norms(options, x, y, bandwidth, u, v):
    """The part of a derivative along u and v that goes through |x| and |y|."""
    none = jnp.zeros((), bandwidth.dtype)
    of_x, of_y = (
        value(_output_options(options, output), x, y, bandwidth, none)
        for output in (NORM_X_WEIGHT, NORM_Y_WEIGHT)
    )
    return of_x * (x * u).sum(-1)[..., :, None] + of_y * (y * v).sum(-1)[..., None, :]


def _of_distances(options, x, y, bandwidth, u, v):
    """The part of a derivative along u and v that goes through d1 and d2."""
    none = jnp.zeros((), bandwidth.dtype)
    return sum(
        value(_output_options(options, output), x, y, bandwidth, none) * slopes(p, x, y, u, v)
        for output, p in ((D1_WEIGHT, 1), (D2_WEIGHT, 2))
    )


def has_bandwidth(options):
    return options[1] != "distance" and options[1] != "an expression" and inner(options) is not None


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def weight(options, x, y, bandwidth):
    none = jnp.zeros((), bandwidth.dtype)
    return value(_output_options(options, WEIGHT), x, y, bandwidth, none)


@functools.partial(weight.defjvp, symbolic_zeros=True)
def _weight_jvp(options, primals, tangents):
    """dw = w2 sum_k phi(x_k - y_k) (dx_k - dy_k) - (p w + w2 d^p) / L dL"""
    x, y, bandwidth = primals
    name = options[1]
    if name not in OF_DISTANCE and name not in OF_PRODUCT:
        raise NotImplementedError(f"gram.jax: {name} has no second derivative")
    p = inner(options)
    if p == math.inf:
        raise NotImplementedError("gram.jax: p = inf has no second derivative")
    w = weight(options, x, y, bandwidth)
    u, v, mine = moving(tangents)
    second = _second_weight(options, x, y, bandwidth)
    found = jnp.zeros_like(w)
    if u is not None or v is not None:
        u = jnp.zeros_like(x) if u is None else u
        found = found + second * slopes(p, x, y, u, jnp.zeros_like(y) if v is None else v)
    if mine is not None and has_bandwidth(options):
        found = found - column(mine / bandwidth) * (p * w + second * power_sums(p, x, y))
    return w, found


def _second_weight(options, x, y, bandwidth):
    """w2; of a distance at the points over L, which makes of it L^(2 p) w2, so that L is no number
    of an expression; of a product the second derivative by it."""
    (_, numbers, _), name = options
    p = inner(options)
    expression = (OF_PRODUCT if p is None else OF_DISTANCE)[name]
    c = numbers[COEF0] if p is None else p * numbers[OUTER_POWER]
    parameters = {
        "l": 1.0, "p": p, "q": numbers[EXPONENT], "a": numbers[ALPHA], "g": numbers[GAMMA], "c": c,
        "n": numbers[DEGREE],
    }  # fmt: skip
    words = set(re.findall(r"\w+", expression))
    used = {name: number for name, number in parameters.items() if name in words}
    of = "product" if p is None else "distance"
    second = settled(None, expression, of, used, "weight", p=2.0 if p is None else p)
    scale = column(bandwidth) if has_bandwidth(options) else 1.0
    one = jnp.ones((), x.dtype)
    found = _once(second, x / scale, y / scale, one)
    return found if p is None else found * scale ** (-2 * p)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _once(options, x, y, bandwidth):
    return value(options, x, y, bandwidth, jnp.zeros((), bandwidth.dtype))


@_once.defjvp
def _once_jvp(options, primals, tangents):
    raise NotImplementedError("gram.jax: kernels have no third derivative")


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def power_sums(p, x, y):
    """sum_k |x_ik - y_jk|^p"""
    shape, arrays = batched((x, 2), (y, 2))
    (out,) = call(
        "cdist", [((*shape, x.shape[-2], y.shape[-2]), result_type(x))], *arrays,
        integers=[0], numbers=[p],
    )  # fmt: skip
    return out


@power_sums.defjvp
def _power_sums_jvp(p, primals, tangents):
    return power_sums(p, *primals), p * slopes(p, *primals, *tangents)


# ---- Kernel matrices -------------------------------------------------------------------------


def cosine(x, y):
    """The cosines of the angles between points, 0 for points at 0."""

    def unit(a):
        square = (a * a).sum(-1, keepdims=True)
        zero = square == 0
        return jnp.where(zero, 0, a / jnp.sqrt(jnp.where(zero, 1, square)))

    return unit(x) @ unit(y).mT


def _diagonal(options, like):
    (integers, *_), _ = options
    i = jnp.arange(like.shape[-2])[:, None] + integers[ROW]
    return (i == jnp.arange(like.shape[-1]) + integers[COLUMN]).astype(like.dtype)


def by_bandwidth(options, x, y, bandwidth):
    """dk/dL = -w d^p / L"""
    w = weight(options, x, y, bandwidth)
    return -w * power_sums(inner(options), x, y) / column(bandwidth)


def along(options, kept, tangents):
    """The derivative of a kernel matrix along those of x, y and bandwidth that tangents has."""
    x, y, bandwidth = kept
    shape, _ = batched((x, 2), (y, 2), (bandwidth, 0))
    found = jnp.zeros((*shape, x.shape[-2], y.shape[-2]), result_type(x))
    u, v = tangents.get("x"), tangents.get("y")
    if u is not None or v is not None:
        u = jnp.zeros_like(x) if u is None else u.astype(found.dtype)
        v = jnp.zeros_like(y) if v is None else v.astype(found.dtype)
        if options[1] == "cosine":
            found = found + jax.jvp(cosine, (x, y), (u, v))[1]
        else:
            found = found + weight(options, x, y, bandwidth) * slopes(inner(options), x, y, u, v)
            if _has_norms(options):
                found = found + _of_norms(options, x, y, bandwidth, u, v)
            if _has_distances(options):
                found = found + _of_distances(options, x, y, bandwidth, u, v)
    if "bandwidth" in tangents and has_bandwidth(options):
        mine = column(tangents["bandwidth"])
        found = found + mine * by_bandwidth(options, x, y, bandwidth)
    return found


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def kernel_vjp(options, names, x, y, bandwidth, grad):
    """A gradient by each of the names, each with the batch of all."""
    if not names:
        return {}
    (integers, numbers, text), _ = options
    none = jnp.zeros((), grad.dtype)
    shape, arrays = batched((bandwidth, 0), (none, 0), (grad, 2), (x, 2), (y, 2))
    own = {"x": x.shape[-2:], "y": y.shape[-2:]}
    found = call(
        "kernel_vjp", [((*shape, *own.get(name, ())), grad.dtype) for name in names], *arrays,
        integers=[*integers, sum(1 << NAMES.index(name) for name in names)], numbers=numbers,
        text=text, broadcast=True,
    )  # fmt: skip
    return dict(zip(names, found, strict=True))


@functools.partial(kernel_vjp.defjvp, symbolic_zeros=True)
def _kernel_vjp_jvp(options, names, primals, tangents):
    tangents = moving(tangents)
    moved = [i for i, t in enumerate(tangents) if t is not None]
    found = directional(
        functools.partial(_composed_vjp, options, names), primals,
        [tangents[i] for i in moved], moved,
    )  # fmt: skip
    return kernel_vjp(options, names, *primals), dict(zip(names, found, strict=True))


def _composed_vjp(options, names, x, y, bandwidth, grad):
    """What kernel_vjp computes, in steps that have derivatives."""
    shape, _ = batched((x, 2), (y, 2), (bandwidth, 0), (grad, 2))
    found = {}
    if "x" in names or "y" in names:
        if options[1] == "cosine":
            full = jnp.broadcast_to(grad, (*shape, *grad.shape[-2:]))
            wide = [jnp.broadcast_to(a, (*shape, *a.shape[-2:])) for a in (x, y)]
            found["x"], found["y"] = jax.vjp(cosine, *wide)[1](full)
        else:
            q = grad * weight(options, x, y, bandwidth)
            found["x"], found["y"] = sums(inner(options), x, y, q)
    if "bandwidth" in names:
        found["bandwidth"] = jnp.zeros(shape, grad.dtype)
        if has_bandwidth(options):
            found["bandwidth"] = (grad * by_bandwidth(options, x, y, bandwidth)).sum((-2, -1))
    if "regularization" in names:
        found["regularization"] = (grad * _diagonal(options, grad)).sum((-2, -1))
    own = {"x": x.shape[-2:], "y": y.shape[-2:]}
    return [jnp.broadcast_to(found[n], (*shape, *own.get(n, ()))) for n in names]


def tangent(options, x, y, bandwidth, regularization, tangents):
    """The derivative of a kernel matrix along tangents, {name: array}, linear in them, with
    gram_kernel_vjp as its transpose."""
    dtype = result_type(x)
    # Halves are differentiated in the precision of the result.
    kept = [None if a is None else a.astype(dtype) for a in (x, y)] + [bandwidth]
    like = {"x": x, "y": y, "bandwidth": bandwidth, "regularization": regularization}
    one_set = y is None

    def forward(kept, tangents):
        x, y, bandwidth = kept
        tangents = dict(tangents)
        if one_set and "x" in tangents:
            tangents["y"] = tangents["x"]
        found = along(options, (x, x if one_set else y, bandwidth), tangents)
        batch = jnp.broadcast_shapes(found.shape[:-2], regularization.shape)
        found = jnp.broadcast_to(found, (*batch, *found.shape[-2:]))
        if "regularization" in tangents:
            found = found + column(tangents["regularization"]) * _diagonal(options, found)
        return found

    def transpose(kept, grad):
        x, y, bandwidth = kept
        names = [n for n in NAMES if n in tangents or (n == "y" and one_set and "x" in tangents)]
        found = kernel_vjp(options, tuple(names), x, x if one_set else y, bandwidth, grad)
        if one_set and "x" in found:
            found["x"] = found["x"] + found.pop("y")
        return {name: summed(g, like[name]) for name, g in found.items()}

    return linear(forward, transpose, kept, tangents)
