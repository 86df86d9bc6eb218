"""Solves, eigenproblems, powers and Kronecker products for JAX."""

import functools

import jax
import jax.numpy as jnp

from gram._jax_call import batched, call, summed
from gram._powers import difference

_SELECTS = ("all", "index", "value", "largest", "smallest")
_METHODS = ("auto", "eigh", "coupled-newton", "newton-schulz", "minimax")


def _check_square(function, a, b=None):
    n = a.shape[-1]
    if a.shape[-2] != n:
        raise ValueError(f"gram.jax.{function}: a is {a.shape[-2]} by {n}, expected a square")
    if b is not None and b.shape[-2] != n:
        raise ValueError(f"gram.jax.{function}: b has {b.shape[-2]} rows but a has {n}")


def symmetric(a):
    return (a + a.mT) / 2


# ---- Solves ----------------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def solve_cholesky(lower, a, b):
    return _solve_forward(lower, a, b)[0]


def _solve_forward(lower, a, b):
    _check_square("solve_cholesky", a, b)
    factor, _ = call(  # what it depends on is a matter of solve_factored
        "cholesky", [(a.shape, a.dtype), (a.shape[:-2], jnp.int32)], jax.lax.stop_gradient(a),
        integers=[lower],
    )  # fmt: skip
    x = solve_factored(lower, a, factor, b)
    return x, (a, factor, b, x)


def _solve_backward(lower, kept, grad):
    a, factor, b, x = kept
    of_b = solve_factored(lower, a, factor, grad)
    return summed(-symmetric(of_b @ x.mT), a), summed(of_b, b)


solve_cholesky.defvjp(_solve_forward, _solve_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def solve_factored(lower, a, factor, b):
    """Of the matrix a that has this factor; nan where it has none."""
    shape, arrays = batched((factor, 2), (b, 2))
    x, _ = call(
        "solve_factored", [((*shape, *b.shape[-2:]), b.dtype), (shape, jnp.int32)], *arrays,
        integers=[lower],
    )  # fmt: skip
    return x


def _factored_forward(lower, a, factor, b):
    x = solve_factored(lower, a, factor, b)
    return x, (a, factor, b, x)


def _factored_backward(lower, kept, grad):
    of_a, of_b = _solve_backward(lower, kept, grad)
    return of_a, None, of_b


solve_factored.defvjp(_factored_forward, _factored_backward)


@jax.custom_vjp
def solve_lu(a, b):
    _check_square("solve_lu", a, b)
    shape, arrays = batched((a, 2), (b, 2))
    x, _ = call("solve_lu", [((*shape, *b.shape[-2:]), b.dtype), (shape, jnp.int32)], *arrays)
    return x


def _lu_forward(a, b):
    x = solve_lu(a, b)
    return x, (a, b, x)


def _lu_backward(kept, grad):
    a, b, x = kept
    of_b = solve_lu(a.mT, grad)
    return summed(-(of_b @ x.mT), a), summed(of_b, b)


solve_lu.defvjp(_lu_forward, _lu_backward)


# ---- Eigenproblems and powers ----------------------------------------------------------------


def _eigh_call(lower, select, first, count, a):
    _check_square("eigh", a)
    batch, n = a.shape[:-2], a.shape[-1]
    k = n if select == "all" else count
    values, vectors, _ = call(
        "eigh",
        [((*batch, k), a.dtype), ((*batch, n, k), a.dtype), (batch, jnp.int32)],
        a,
        integers=[lower, _SELECTS.index(select), first, count],
    )
    return values, vectors


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2, 3))
def eigh(lower, select, first, count, a):
    return tuple(_eigh_call(lower, select, first, count, a))


def _eigh_forward(lower, select, first, count, a):
    if select == "all":
        found = eigh(lower, select, first, count, a)
    else:  # not differentiable again, which would take the other vectors
        found = tuple(_eigh_call(lower, select, first, count, a))
    return found, found


def _eigh_backward(lower, select, first, count, found, grads):
    values, vectors = found
    of_values, of_vectors = grads
    if select != "all":
        return (vectors * of_values[..., None, :] @ vectors.mT,)
    gap = values[..., None, :] - values[..., :, None]
    # What an eigenvector does inside of the space of a multiple value is not differentiable: 0.
    tie = gap == 0
    turn = jnp.where(tie, 0, vectors.mT @ of_vectors / jnp.where(tie, 1, gap))
    inner = of_values[..., None, :] * jnp.eye(values.shape[-1], dtype=values.dtype) + turn
    return (symmetric(vectors @ inner @ vectors.mT),)


eigh.defvjp(_eigh_forward, _eigh_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2, 3, 4))
def matrix_power(numerator, denominator, method, lower, ridge, a):
    _check_square("matrix_power", a)
    if method not in _METHODS:
        raise ValueError(f"gram.jax.matrix_power: method is {method!r}, expected one of {_METHODS}")
    power, _ = call(
        "matrix_power", [(a.shape, a.dtype), (a.shape[:-2], jnp.int32)], a,
        integers=[numerator, denominator, _METHODS.index(method), lower], numbers=[ridge],
    )  # fmt: skip
    return power


def _power_forward(numerator, denominator, method, lower, ridge, a):
    return matrix_power(numerator, denominator, method, lower, ridge, a), a


def _power_backward(numerator, denominator, method, lower, ridge, a, grad):
    """Daleckii and Krein: in the basis of the eigenvectors grad times divided differences of the
    power, which are those of the numerator over those of the denominator at the roots."""
    values, vectors = _eigh_call(lower, "all", 0, 0, a)
    roots = jnp.maximum(values + ridge, 0) ** (1 / denominator)
    rows, columns = roots[..., :, None], roots[..., None, :]
    slopes = difference(rows, columns, numerator) / difference(rows, columns, denominator)
    inner = vectors.mT @ symmetric(grad) @ vectors * slopes
    return (vectors @ inner @ vectors.mT,)


matrix_power.defvjp(_power_forward, _power_backward)


# ---- Kronecker products ----------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def kron_matmul(side, alpha, x, factors):
    rows = cols = 1
    for f in factors:
        rows, cols = rows * f.shape[-2], cols * f.shape[-1]
    left = side == "left"
    have, expected = (x.shape[-2], cols) if left else (x.shape[-1], rows)
    if have != expected:
        raise ValueError(
            f"gram.jax.kron_matmul: x has {have} {'rows' if left else 'columns'}, but the factors "
            f"want {expected}"
        )
    shape, arrays = batched((x, 2), *[(f, 2) for f in factors])
    size = (rows, x.shape[-1]) if left else (x.shape[-2], cols)
    (out,) = call(
        "kron_matmul", [((*shape, *size), x.dtype)], *arrays, integers=[left], numbers=[alpha]
    )
    return out


def _product_forward(side, alpha, x, factors):
    return kron_matmul(side, alpha, x, factors), (x, factors)


def _product_backward(side, alpha, kept, grad):
    x, factors = kept
    of_x, *of_factors = kron_matmul_vjp(side, alpha, x, factors, grad)
    return of_x, of_factors


kron_matmul.defvjp(_product_forward, _product_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def kron_matmul_vjp(side, alpha, x, factors, grad):
    """Each of the shape of its input, summed over what is broadcast."""
    _, arrays = batched((grad, 2), (x, 2), *[(f, 2) for f in factors])
    found = call(
        "kron_matmul_vjp", [(a.shape, a.dtype) for a in arrays[1:]], *arrays,
        integers=[side == "left"], numbers=[alpha], broadcast=True,
    )  # fmt: skip
    return [g.reshape(t.shape) for g, t in zip(found, (x, *factors), strict=True)]


def _product_vjp_forward(side, alpha, x, factors, grad):
    return kron_matmul_vjp(side, alpha, x, factors, grad), (x, factors, grad)


def _product_vjp_backward(side, alpha, kept, cotangents):
    """The product is linear in x and in every factor: of each cotangent u, the product with u in
    the place of what it belongs to."""
    x, factors, grad = kept
    parts = [x, *factors]
    totals, of_grad = [jnp.zeros_like(part) for part in parts], jnp.zeros_like(grad)
    for i, u in enumerate(cotangents):
        mixed = [u if j == i else part for j, part in enumerate(parts)]
        of_grad += summed(kron_matmul(side, alpha, mixed[0], mixed[1:]), grad)
        found = kron_matmul_vjp(side, alpha, mixed[0], mixed[1:], grad)
        totals = [t if j == i else t + g for j, (t, g) in enumerate(zip(totals, found))]
    return totals[0], totals[1:], of_grad


kron_matmul_vjp.defvjp(_product_vjp_forward, _product_vjp_backward)
