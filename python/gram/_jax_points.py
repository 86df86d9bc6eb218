"""Distances, kernels and their products for JAX."""

import functools
import math

import jax
import jax.numpy as jnp

from gram._jax_call import batched, call, moving, named, result_type, summed
from gram._jax_derivatives import (
    COLUMN,
    NAMES,
    OUTPUT,
    ROW,
    along,
    column,
    kernel_vjp,
    settled,
    tangent,
    value,
)
from gram._jax_linear import directional, linear
from gram._kernels import FAR_AWAY

_BLOCK = 1 << 22  # elements of the matrices that a block of rows makes
_OF_V = 1 << 4  # of the gradients of a product, after those of NAMES: that of v


def divided(function, x, y, lengths, product):
    """The points of a function, divided by lengths (..., k) if there are any.  Unless the kernel is
    one of products, both are counted from the first row of y, as gram_kernel does it, so that
    points far from the origin keep their digits.  Lengths that are not positive and finite give
    nan."""
    if lengths is None:
        return x, y
    dtype = result_type(x)
    lengths = jnp.asarray(lengths, dtype)
    if lengths.shape[-1:] != x.shape[-1:]:
        raise ValueError(
            f"gram.jax.{function}: lengths has the shape {lengths.shape}, expected "
            f"(..., {x.shape[-1]})"
        )
    good = (lengths > 0) & (lengths < math.inf)
    lengths = jnp.where(good, lengths, math.nan)[..., None, :]
    x, y = (None if a is None else a.astype(dtype) for a in (x, y))
    of = x if y is None else y
    if not product and of.shape[-2] > 0:
        first = jax.lax.stop_gradient(of[..., :1, :])
        first = jnp.where(jnp.abs(first) <= FAR_AWAY, first, 0.0)
        x, y = x - first, None if y is None else y - first
    return x / lengths, None if y is None else y / lengths


def check_columns(function, x, y):
    if y is not None and x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"gram.jax.{function}: x has {x.shape[-1]} columns but y has {y.shape[-1]}"
        )


# ---- Distances -------------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def cdist(p, root, x, y):
    check_columns("cdist", x, y)
    pairs = [(x, 2)] if y is None else [(x, 2), (y, 2)]
    shape, arrays = batched(*pairs)
    rows = (x if y is None else y).shape[-2]
    (out,) = call(
        "cdist", [((*shape, x.shape[-2], rows), result_type(x))], *arrays,
        integers=[root], numbers=[p],
    )  # fmt: skip
    return out


@functools.partial(cdist.defjvp, symbolic_zeros=True)
def _cdist_jvp(p, root, primals, tangents):
    out = cdist(p, root, *primals)
    tangents = named(("x", "y"), tangents)
    if p == 0 or not tangents:
        return out, jnp.zeros_like(out)
    power = 1 / p if root and p != math.inf else 1.0
    options = settled("distance", None, "", None, "value", p=p, outer_power=power)
    one = jnp.ones((), out.dtype)
    return out, tangent(options, *primals, one, 0 * one, tangents)


# ---- Kernels ---------------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def kernel(options, x, y, bandwidth, regularization):
    check_columns("kernel", x, y)
    return value(options, x, y, bandwidth, regularization)


@functools.partial(kernel.defjvp, symbolic_zeros=True)
def _kernel_jvp(options, primals, tangents):
    out = kernel(options, *primals)
    tangents = named(NAMES, tangents)
    if not tangents:
        return out, jnp.zeros_like(out)
    if options[0][0][OUTPUT] != 0:
        raise NotImplementedError("gram.jax.kernel: only output='value' has a gradient")
    return out, tangent(options, *primals, tangents)


# ---- Products with a kernel matrix that is never stored --------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def kernel_matmul(options, x, y, bandwidth, regularization, v):
    check_columns("kernel_matmul", x, y)
    rows = (x if y is None else y).shape[-2]
    if v.shape[-2] != rows:
        raise ValueError(
            f"gram.jax.kernel_matmul: v has {v.shape[-2]} rows, expected {rows}, one per point"
        )
    (integers, numbers, text), _ = options
    pairs = [(bandwidth, 0), (regularization, 0), (v, 2), (x, 2)]
    shape, arrays = batched(*pairs, *([] if y is None else [(y, 2)]))
    (out,) = call(
        "kernel_matmul", [((*shape, x.shape[-2], v.shape[-1]), result_type(x))], *arrays,
        integers=integers, numbers=numbers, text=text,
    )  # fmt: skip
    return out


@functools.partial(kernel_matmul.defjvp, symbolic_zeros=True)
def _matmul_jvp(options, primals, tangents):
    out = kernel_matmul(options, *primals)
    tangents = named((*NAMES, "v"), tangents)
    if not tangents:
        return out, jnp.zeros_like(out)
    x, y, *numbers = primals
    dtype = out.dtype
    kept = [x.astype(dtype), None if y is None else y.astype(dtype), *numbers]
    forward = functools.partial(_matmul_along, options, out.shape)
    transpose = functools.partial(_matmul_vjp, options, primals, tuple(tangents))
    return out, linear(forward, transpose, kept, tangents)


def _matmul_along(options, shape, kept, tangents):
    """In blocks of rows of x, of whose matrices one is stored at a time."""
    x, y, bandwidth, regularization, v = kept
    found = jnp.zeros(shape, v.dtype)
    if "v" in tangents:
        found = found + kernel_matmul(options, x, y, bandwidth, regularization, tangents["v"])
    if "regularization" in tangents:
        begin, end, shift = _on_diagonal(options, x.shape[-2], v.shape[-2])
        part = column(tangents["regularization"]) * v[..., begin + shift : end + shift, :]
        found = found.at[..., begin:end, :].add(part)
    moved = {n: tangents[n].astype(v.dtype) for n in ("x", "y", "bandwidth") if n in tangents}
    if moved:
        u = moved.pop("x", None)
        if y is None:
            y = x
            moved |= {} if u is None else {"y": u}

        def block(x, *u):
            of_x = {"x": u[0]} if u else {}
            return along(options, (x, y, bandwidth), moved | of_x) @ v

        rows = [x] if u is None else [x, u]
        found = found + by_rows(block, rows_of_block(y, shape[:-2]), *rows)
    return found


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _transposed(options, x, y, bandwidth, regularization, grad):
    """K^T grad, the gradient of kernel_matmul to v."""
    (integers, numbers, text), _ = options
    rows = (x if y is None else y).shape[-2]
    like = jnp.zeros((rows, grad.shape[-1]), grad.dtype)  # v, of which only the shape counts
    pairs = [(bandwidth, 0), (regularization, 0), (grad, 2), (like, 2), (x, 2)]
    shape, arrays = batched(*pairs, *([] if y is None else [(y, 2)]))
    (out,) = call(
        "kernel_matmul_vjp", [((*shape, rows, grad.shape[-1]), grad.dtype)], *arrays,
        integers=[*integers, _OF_V], numbers=numbers, text=text, broadcast=True,
    )  # fmt: skip
    return out


@functools.partial(_transposed.defjvp, symbolic_zeros=True)
def _transposed_jvp(options, primals, tangents):
    out = _transposed(options, *primals)
    tangents = named((*NAMES, "grad"), tangents)
    if not tangents:
        return out, jnp.zeros_like(out)
    forward = functools.partial(_transposed_along, options, out.shape)
    transpose = functools.partial(_transposed_vjp, options, primals, tuple(tangents))
    return out, linear(forward, transpose, primals, tangents)


def _transposed_along(options, shape, kept, tangents):
    """In blocks of rows of x, of whose matrices one is stored at a time."""
    x, y, bandwidth, regularization, grad = kept
    found = jnp.zeros(shape, grad.dtype)
    if "grad" in tangents:
        of_grad = tangents["grad"]
        found = found + _transposed(options, x, y, bandwidth, regularization, of_grad)
    if "regularization" in tangents:
        begin, end, shift = _on_diagonal(options, x.shape[-2], shape[-2])
        part = column(tangents["regularization"]) * grad[..., begin:end, :]
        found = found.at[..., begin + shift : end + shift, :].add(part)
    moved = {n: tangents[n] for n in ("x", "y", "bandwidth") if n in tangents}
    if moved:
        u = moved.pop("x", None)
        if y is None:
            y = x
            moved |= {} if u is None else {"y": u}

        def block(x, grad, *u):
            of_x = {"x": u[0]} if u else {}
            return along(options, (x, y, bandwidth), moved | of_x).mT @ grad

        arrays = (x, grad) if u is None else (x, grad, u)
        found = found + _summed_by_rows(block, rows_of_block(y, shape[:-2]), shape, *arrays)
    return found


def _transposed_vjp(options, primals, wanted, kept, cotangent):
    """The sum of cotangent times K^T grad is that of grad times K cotangent."""
    *points, grad = kept
    found = {}
    names = tuple(n for n in NAMES if n in wanted)
    if names:
        found = _matmul_vjp(options, (*primals[:4], cotangent), names, (*points, cotangent), grad)
    if "grad" in wanted:
        found["grad"] = summed(kernel_matmul(options, *points, cotangent), primals[4])
    return found


def _matmul_vjp(options, primals, wanted, kept, grad):
    x, y, bandwidth, regularization, v = kept
    found = {}
    if "v" in wanted:
        found["v"] = _transposed(options, x, y, bandwidth, regularization, grad)
    if "regularization" in wanted:
        begin, end, shift = _on_diagonal(options, grad.shape[-2], v.shape[-2])
        product = grad[..., begin:end, :] * v[..., begin + shift : end + shift, :]
        found["regularization"] = product.sum((-1, -2))
    names = [n for n in NAMES[:3] if n in wanted]
    others = [] if y is None else [y]
    if names:
        found |= _product_vjp(options, tuple(names), x, bandwidth, grad, v, *others)
    like = dict(zip((*NAMES, "v"), primals, strict=True))
    return {name: summed(g, like[name]) for name, g in found.items()}


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _product_vjp(options, names, x, bandwidth, grad, v, *y):
    """The gradients to the names, each with the batch of all; without y that to x is its whole."""
    (integers, numbers, text), _ = options
    none = jnp.zeros((), grad.dtype)
    pairs = (bandwidth, 0), (none, 0), (grad, 2), (v, 2), (x, 2), *[(a, 2) for a in y]
    shape, arrays = batched(*pairs)
    own = {"x": x.shape[-2:], "y": (v.shape[-2], x.shape[-1])}
    found = call(
        "kernel_matmul_vjp", [((*shape, *own.get(name, ())), grad.dtype) for name in names],
        *arrays, integers=[*integers, sum(1 << NAMES.index(name) for name in names)],
        numbers=numbers, text=text, broadcast=True,
    )  # fmt: skip
    return dict(zip(names, found, strict=True))


@functools.partial(_product_vjp.defjvp, symbolic_zeros=True)
def _product_vjp_jvp(options, names, primals, tangents):
    tangents = moving(tangents)
    moved = [i for i, t in enumerate(tangents) if t is not None]
    found = directional(
        functools.partial(_composed_product_vjp, options, names), primals,
        [tangents[i] for i in moved], moved,
    )  # fmt: skip
    return _product_vjp(options, names, *primals), dict(zip(names, found, strict=True))


def _composed_product_vjp(options, names, x, bandwidth, grad, v, *y):
    """What _product_vjp computes, in steps that have derivatives."""
    both = not y and "x" in names
    wanted = (*names, "y") if both else names
    found = _blocks_vjp(options, wanted, x, *(y or [x]), bandwidth, grad, v)
    if both:
        found["x"] = found["x"] + found.pop("y")
    return [found[name] for name in names]


def _on_diagonal(options, rows, columns):
    """The rows i that have a column j = i + shift with row_offset + i == column_offset + j."""
    integers = options[0][0]
    shift = integers[ROW] - integers[COLUMN]
    begin = max(0, -shift)
    return begin, max(begin, min(rows, columns - shift)), shift


def rows_of_block(y, batch):
    return max(1, _BLOCK // max(1, y.shape[-2] * math.prod(batch)))


def _split(a, whole, rows):
    return jnp.moveaxis(a[..., :whole, :].reshape(*a.shape[:-2], -1, rows, a.shape[-1]), -3, 0)


def by_rows(f, rows, *arrays):
    """f, which maps rows to rows, of so many rows at a time."""
    m = arrays[0].shape[-2]
    whole = m // rows * rows
    if m <= rows:
        return f(*arrays)
    found = jax.lax.map(lambda part: f(*part), tuple(_split(a, whole, rows) for a in arrays))
    found = jnp.moveaxis(found, 0, -3)
    found = [found.reshape(*found.shape[:-3], whole, found.shape[-1])]
    if whole < m:
        found.append(f(*[a[..., whole:, :] for a in arrays]))
    return jnp.concatenate(found, -2)


def scanned_by_rows(step, rows, total, *arrays):
    """(total, found) after step(total, part) for so many rows at a time: found joins the rows that
    the steps give, and is None if they give none."""
    m = arrays[0].shape[-2]
    whole = m // rows * rows
    found = []
    if whole:
        total, out = jax.lax.scan(step, total, tuple(_split(a, whole, rows) for a in arrays))
        if out is not None:
            out = jnp.moveaxis(out, 0, -3)
            found.append(out.reshape(*out.shape[:-3], whole, out.shape[-1]))
    if whole < m:
        total, out = step(total, tuple(a[..., whole:, :] for a in arrays))
        if out is not None:
            found.append(out)
    return total, jnp.concatenate(found, -2) if found else None


def _summed_by_rows(f, rows, shape, *arrays):
    """The sum, of this shape, of what f gives for so many rows at a time."""
    total = jnp.zeros(shape, arrays[0].dtype)
    if arrays[0].shape[-2] <= rows:
        return total + f(*arrays)
    return scanned_by_rows(lambda sum, part: (sum + f(*part), None), rows, total, *arrays)[0]


def _blocks_vjp(options, names, x, y, bandwidth, grad, v):
    """In blocks of rows of x, whose cotangents grad v^T are all that is stored."""
    batch, _ = batched((x, 2), (y, 2), (bandwidth, 0), (grad, 2), (v, 2))
    rows = rows_of_block(y, batch)

    def block(part):
        rows_of_x, rows_of_grad = part
        cotangents = rows_of_grad @ v.mT
        found = kernel_vjp(options, names, rows_of_x, y, bandwidth, cotangents)
        # kernel_vjp has the batch of its own arguments.
        own = {"x": rows_of_x.shape[-2:], "y": y.shape[-2:]}
        return {n: jnp.broadcast_to(g, (*batch, *own.get(n, ()))) for n, g in found.items()}

    def step(total, part):
        found = block(part)
        of_x = found.pop("x", None)
        return {name: total[name] + g for name, g in found.items()}, of_x

    if x.shape[-2] <= rows:
        return block((x, grad))
    own = {"y": y.shape[-2:], "bandwidth": ()}
    total = {name: jnp.zeros((*batch, *own[name]), grad.dtype) for name in names if name in own}
    total, of_x = scanned_by_rows(step, rows, total, x, grad)
    return total | ({} if of_x is None else {"x": of_x})


# ---- The median distance ---------------------------------------------------------------------


def median_distance(x, p, root, rows, seed):
    shape = x.shape[:-2]
    (out,) = call(
        "median_distance", [(shape, result_type(x))], jax.lax.stop_gradient(x),
        integers=[root, rows, seed], numbers=[p],
    )  # fmt: skip
    return out
