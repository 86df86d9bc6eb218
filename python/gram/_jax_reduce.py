"""Reductions of the rows of kernel matrices that are never stored, for JAX."""

import functools

import jax
import jax.numpy as jnp

from gram._jax_call import batched, call, moving, named, result_type, summed
from gram._jax_derivatives import COLUMN, NAMES, ROW, column
from gram._jax_linear import directional, linear
from gram._jax_points import by_rows, check_columns, kernel, rows_of_block, scanned_by_rows

_VALUES = {"min": 1, "max": 2, "logsumexp": 3, "softmax": 4}
_PLACES = {"argmin": 1, "argmax": 2}
_SOFT = ("logsumexp", "softmax")
_ORDER = ("v", "log_weights", "x", "y")  # of arguments, after the gradient
_NAMES = (*NAMES, "v", "log_weights")  # in the order of the gradients
# How many dimensions of each array are not of the batch.
_CORES = {"x": 2, "y": 2, "v": 2, "log_weights": 1, "bandwidth": 0, "regularization": 0}


def checked(what, x, y, v, log_weights):
    """Raises an error where these do not belong together."""

    def fail(text):
        raise ValueError(f"gram.jax.kernel_reduce: {text}")

    if what not in (*_VALUES, *_PLACES):
        *words, last = map(repr, (*_PLACES, *_VALUES))
        fail(f"what is {what!r}, expected {', '.join(words)} or {last}")
    check_columns("kernel_reduce", x, y)
    rows = (x if y is None else y).shape[-2]
    if v is None and what == "softmax":
        fail("v is not given, expected what what='softmax' averages")
    if v is not None and what != "softmax":
        fail(f"v is given, expected none with what={what!r}")
    if v is not None and v.shape[-2] != rows:
        fail(f"v has {v.shape[-2]} rows, expected {rows}, one per point")
    if log_weights is None:
        return
    if what not in _SOFT:
        fail(f"log_weights is given, expected none with what={what!r}")
    if log_weights.shape[-1:] != (rows,):
        fail(f"log_weights has the shape {log_weights.shape}, expected (..., {rows})")


def _call(options, what, scale, *arrays):
    x, y, bandwidth, regularization, v, log_weights = arrays
    (integers, numbers, text), _ = options
    pairs = [(bandwidth, 0), (regularization, 0), (v, 2), (log_weights, 1), (x, 2), (y, 2)]
    shape, arrays = batched(*[(a, core) for a, core in pairs if a is not None])
    own = (x.shape[-2],) if v is None else (x.shape[-2], v.shape[-1])
    dtype = result_type(x)
    if what in _PLACES:  # 64 bits, which a program of JAX may not have: the lower half first
        own, dtype = (*own, 2), jnp.int32
    reduction = _PLACES[what] if what in _PLACES else _VALUES[what]
    wanted = [reduction, what in _PLACES, v is not None, log_weights is not None]
    (out,) = call(
        "kernel_reduce", [((*shape, *own), dtype)], *arrays,
        integers=[*integers, *wanted], numbers=[*numbers, scale], text=text,
    )  # fmt: skip
    return out


def places(options, what, *arrays):
    """Of the extreme values, in the integers that JAX has."""
    stopped = [a if a is None else jax.lax.stop_gradient(a) for a in arrays]
    return _call(options, what, 1.0, *stopped, None, None)[..., 0].astype(int)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def kernel_reduce(options, what, scale, x, y, bandwidth, regularization, v, log_weights):
    return _call(options, what, scale, x, y, bandwidth, regularization, v, log_weights)


@functools.partial(kernel_reduce.defjvp, symbolic_zeros=True)
def _jvp(options, what, scale, primals, tangents):
    out = kernel_reduce(options, what, scale, *primals)
    tangents = named(_NAMES, tangents)
    if not tangents:
        return out, jnp.zeros_like(out)
    if what not in _SOFT:
        raise NotImplementedError(f"gram.jax.kernel_reduce: what={what!r} has no gradient")
    given = {n: a for n, a in zip(_NAMES, primals, strict=True) if a is not None}
    # Halves are differentiated in the precision of the result.
    kept = {name: a.astype(out.dtype) for name, a in given.items()}
    work = functools.partial(_rows, options, what, scale)

    def transpose(kept, grad):
        found = _vjp(options, what, scale, tuple(tangents), kept, grad)
        return {name: summed(g, given[name]) for name, g in found.items()}

    return out, linear(functools.partial(_along, work), transpose, kept, tangents)


def _rows(options, what, scale, x, index, at):
    """The result of some rows x whose numbers are index, (..., rows, r), in steps that have
    derivatives.  at has the other arrays, and all of x, which takes the place of a missing y."""
    y = at.get("y", at["x"])
    k = kernel(options, x, y, at["bandwidth"], jnp.zeros((), x.dtype))
    integers = options[0][0]
    on_diagonal = index + integers[ROW] == jnp.arange(y.shape[-2]) + integers[COLUMN]
    e = scale * (k + column(at["regularization"]) * on_diagonal)
    if "log_weights" in at:
        e = e + at["log_weights"][..., None, :]
    if what == "logsumexp":
        return jax.nn.logsumexp(e, -1, keepdims=True)
    return jax.nn.softmax(e, -1) @ at["v"]


def _blocks(kept):
    """The rows of x, their numbers, and how many of them make a block."""
    x = kept["x"]
    batch, _ = batched(*[(a, _CORES[name]) for name, a in kept.items()])
    return x, jnp.arange(x.shape[-2])[:, None], rows_of_block(kept.get("y", x), batch)


def _moving(work, kept, names, index):
    """work as a function of the rows and of the arrays of these names."""
    return lambda x, *some: work(x, index, kept | dict(zip(names, some, strict=True)))


def _along(work, kept, tangents):
    x, index, rows = _blocks(kept)
    moved = {name: t.astype(x.dtype) for name, t in tangents.items()}
    of_x = moved.get("x", jnp.zeros_like(x))
    if "y" in kept:
        moved.pop("x", None)

    @jax.checkpoint
    def block(x, index, of_x):
        f = _moving(work, kept, moved, index)
        return jax.jvp(f, (x, *[kept[n] for n in moved]), (of_x, *moved.values()))[1]

    found = by_rows(block, rows, x, index, of_x)
    return found if "v" in kept else found[..., 0]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3))
def _vjp(options, what, scale, wanted, kept, grad):
    """The gradients to the arrays of the wanted names, where no y gives x its whole one."""
    (integers, numbers, text), _ = options
    others = [kept[n] for n in _ORDER if n in kept]
    arrays = [kept["bandwidth"], kept["regularization"], grad, *others]
    own = [0, 0, 2 if "v" in kept else 1, *[_CORES[n] for n in _ORDER if n in kept]]
    shape, arrays = batched(*zip(arrays, own, strict=True))
    names = [n for n in _NAMES if n in wanted]
    bits = sum(1 << _NAMES.index(n) for n in names)
    ends = {n: kept[n].shape[kept[n].ndim - _CORES[n] :] for n in names}
    found = call(
        "kernel_reduce_vjp", [((*shape, *ends[n]), grad.dtype) for n in names], *arrays,
        integers=[*integers, _VALUES[what], False, "v" in kept, "log_weights" in kept, bits],
        numbers=[*numbers, scale], text=text, broadcast=True,
    )  # fmt: skip
    return {n: summed(g, kept[n]) for n, g in zip(names, found, strict=True)}


@functools.partial(_vjp.defjvp, symbolic_zeros=True)
def _vjp_jvp(options, what, scale, wanted, primals, tangents):
    out = _vjp(options, what, scale, wanted, *primals)
    names = tuple(primals[0])
    of_arrays = moving([*[tangents[0][n] for n in names], tangents[1]])
    moved = [i for i, t in enumerate(of_arrays) if t is not None]
    work = functools.partial(_rows, options, what, scale)

    def composed(*arrays):
        found = _composed_vjp(work, wanted, dict(zip(names, arrays[:-1], strict=True)), arrays[-1])
        return [found[n] for n in out]

    arrays = [*[primals[0][n] for n in names], primals[1]]
    found = directional(composed, arrays, [of_arrays[i] for i in moved], moved)
    return out, dict(zip(out, found, strict=True))


def _composed_vjp(work, wanted, kept, grad):
    """What _vjp computes, in steps that have derivatives: in blocks of rows, whose matrices are all
    that is stored."""
    x, index, rows = _blocks(kept)
    others = tuple(n for n in wanted if n != "x" or "y" not in kept)

    @jax.checkpoint
    def step(total, part):
        x, index, grad = part
        pull = jax.vjp(_moving(work, kept, others, index), x, *[kept[n] for n in others])[1]
        of_x, *found = pull(grad)
        return [a + b for a, b in zip(total, found, strict=True)], of_x

    arrays = x, index, grad if "v" in kept else grad[..., None]
    total = [jnp.zeros_like(kept[n]) for n in others]
    total, of_x = scanned_by_rows(step, rows, total, *arrays)
    found = dict(zip(others, total, strict=True))
    if "x" in wanted:
        found["x"] = (jnp.zeros_like(x) if of_x is None else of_x) + found.get("x", 0)
    return found
