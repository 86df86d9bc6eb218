"""Solves, eigenproblems, powers and Kronecker products for JAX."""

import functools

import jax
import jax.numpy as jnp

from gram._jax_call import batched, call, moving, summed
from gram._jax_linear import linear
from gram._powers import difference, real_slopes

_SELECTS = ("all", "index", "value", "largest", "smallest")
_METHODS = ("auto", "eigh", "coupled-newton", "newton-schulz", "minimax")


def _check_square(function, a, b=None):
    n = a.shape[-1]
    if a.shape[-2] != n:
        raise ValueError(
            f"gram.jax.{function}: a is {a.shape[-2]} by {n}, expected a square matrix"
        )
    if b is not None and b.shape[-2] != n:
        raise ValueError(f"gram.jax.{function}: b has {b.shape[-2]} rows but a has {n}")


def symmetric(a):
    return (a + a.mT) / 2


# ---- Solves ----------------------------------------------------------------------------------


def _solution(op, a, b, integers=()):
    shape, arrays = batched((a, 2), (b, 2))
    results = [((*shape, *b.shape[-2:]), b.dtype), (shape, jnp.int32)]
    return call(op, results, *arrays, integers=integers)[0]


def _whole(a, b):
    """The right-hand sides with the batch of both."""
    shape, _ = batched((a, 2), (b, 2))
    return jnp.broadcast_to(b, (*shape, *b.shape[-2:]))


def solve_cholesky(lower, a, b):
    _check_square("solve_cholesky", a, b)
    fixed = jax.lax.stop_gradient(a)  # how the solution depends on a is said by the products
    results = [(a.shape, a.dtype), (a.shape[:-2], jnp.int32)]
    factor, info = call("cholesky", results, fixed, integers=[lower])
    factor = jnp.where(info[..., None, None] == 0, factor, jnp.nan)
    return jax.lax.custom_linear_solve(
        lambda x: symmetric(a) @ x, _whole(a, b),
        lambda _, b: _solution("solve_factored", factor, b, [lower]), symmetric=True,
    )  # fmt: skip


def solve_lu(a, b):
    _check_square("solve_lu", a, b)
    fixed = jax.lax.stop_gradient(a)
    return jax.lax.custom_linear_solve(
        lambda x: a @ x, _whole(a, b),
        lambda _, b: _solution("solve_lu", fixed, b),
        lambda _, b: _solution("solve_lu", fixed.mT, b),
    )  # fmt: skip


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


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3))
def eigh(lower, select, first, count, a):
    return tuple(_eigh_call(lower, select, first, count, a))


@eigh.defjvp
def _eigh_jvp(lower, select, first, count, primals, tangents):
    ((a,), (e,)) = primals, tangents
    if select != "all":  # a second derivative would take the other vectors
        values, vectors = _constant("eigh of a part of the spectrum", _eigh_call)(
            lower, select, first, count, a
        )
        found = (vectors * (symmetric(e) @ vectors)).sum(-2)
        return (values, vectors), (found, jnp.zeros_like(vectors))
    values, vectors = eigh(lower, select, first, count, a)
    inner = vectors.mT @ symmetric(e) @ vectors
    gap = values[..., None, :] - values[..., :, None]
    # What an eigenvector does inside of the space of a multiple value is not differentiable: 0.
    tie = gap == 0
    turn = jnp.where(tie, 0, inner / jnp.where(tie, 1, gap))
    of_values = jnp.diagonal(inner, axis1=-2, axis2=-1)
    return (values, vectors), (of_values, vectors @ turn)


def _constant(what, f):
    """f, the derivative of whose last argument says that there is none."""

    @functools.partial(jax.custom_jvp, nondiff_argnums=tuple(range(4)))
    def run(*arguments):
        return tuple(f(*arguments))

    @run.defjvp
    def refuse(*arguments):
        raise NotImplementedError(f"gram.jax: {what} has no second derivative")

    return run


def _power_call(numerator, denominator, method, lower, ridge, a, power=0, floor=0):
    _check_square("matrix_power", a)
    if method not in _METHODS:
        raise ValueError(f"gram.jax.matrix_power: method is {method!r}, expected one of {_METHODS}")
    found, _ = call(
        "matrix_power", [(a.shape, a.dtype), (a.shape[:-2], jnp.int32)], a,
        integers=[numerator, denominator, _METHODS.index(method), lower],
        numbers=[ridge, power, floor],
    )  # fmt: skip
    return found


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3, 4))
def matrix_power(numerator, denominator, method, lower, ridge, a):
    return _power_call(numerator, denominator, method, lower, ridge, a)


@matrix_power.defjvp
def _power_jvp(numerator, denominator, method, lower, ridge, primals, tangents):
    """Daleckii and Krein: in the basis of the eigenvectors the change of a times divided
    differences of the power, which are those of the numerator over those of the denominator at
    the roots."""
    ((a,), (e,)) = primals, tangents
    values, vectors = _constant("matrix_power", _eigh_call)(lower, "all", 0, 0, a)
    roots = jnp.maximum(values + ridge, 0) ** (1 / denominator)
    rows, columns = roots[..., :, None], roots[..., None, :]
    slopes = difference(rows, columns, numerator) / difference(rows, columns, denominator)
    inner = vectors.mT @ symmetric(e) @ vectors * slopes
    power = matrix_power(numerator, denominator, method, lower, ridge, a)
    return power, vectors @ inner @ vectors.mT


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3, 4))
def matrix_real_power(power, floor, method, lower, ridge, a):
    return _power_call(0, 0, method, lower, ridge, a, power, floor)


@matrix_real_power.defjvp
def _real_power_jvp(power, floor, method, lower, ridge, primals, tangents):
    """Daleckii and Krein, and by the floor, which the largest eigenvalue moves."""
    ((a,), (e,)) = primals, tangents
    values, vectors = _constant("matrix_power", _eigh_call)(lower, "all", 0, 0, a)
    slopes, by_floor, share = real_slopes(jnp, values, power, ridge, floor)
    inner = vectors.mT @ symmetric(e) @ vectors
    moved = (jnp.diagonal(inner, axis1=-2, axis2=-1) * share).sum(-1)[..., None] * by_floor
    inner = inner * slopes + moved[..., None] * jnp.eye(a.shape[-1], dtype=a.dtype)
    found = matrix_real_power(power, floor, method, lower, ridge, a)
    return found, vectors @ inner @ vectors.mT


# ---- Kronecker products ----------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def kron_matmul(side, alpha, x, factors):
    rows = cols = 1
    for f in factors:
        rows, cols = rows * f.shape[-2], cols * f.shape[-1]
    left = side == "left"
    have, expected = (x.shape[-2], cols) if left else (x.shape[-1], rows)
    if have != expected:
        raise ValueError(
            f"gram.jax.kron_matmul: x has {have} {'rows' if left else 'columns'}, but the factors "
            f"need {expected}"
        )
    shape, arrays = batched((x, 2), *[(f, 2) for f in factors])
    size = (rows, x.shape[-1]) if left else (x.shape[-2], cols)
    (out,) = call(
        "kron_matmul", [((*shape, *size), x.dtype)], *arrays, integers=[left], numbers=[alpha]
    )
    return out


def _put(parts, i, part):
    return [part if j == i else old for j, old in enumerate(parts)]


def _products(side, alpha, parts, moved):
    """The sum of the products with each part of moved, {number: part}, in its place."""
    mixed = [_put(parts, i, part) for i, part in moved.items()]
    products = [kron_matmul(side, alpha, x, factors) for x, *factors in mixed]
    return sum(products[1:], products[0])


@functools.partial(kron_matmul.defjvp, symbolic_zeros=True)
def _product_jvp(side, alpha, primals, tangents):
    (x, factors), (of_x, of_factors) = primals, tangents
    moved = {i: t for i, t in enumerate(moving([of_x, *of_factors])) if t is not None}
    out = kron_matmul(side, alpha, x, factors)

    def transpose(parts, grad):
        found = kron_matmul_vjp(side, alpha, parts, grad)
        return {i: found[i] for i in moved}

    forward = functools.partial(_products, side, alpha)
    return out, linear(forward, transpose, [x, *factors], moved) if moved else jnp.zeros_like(out)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def kron_matmul_vjp(side, alpha, parts, grad):
    """The gradients of x and the factors, of their shapes, summed over what is broadcast."""
    _, arrays = batched((grad, 2), *[(part, 2) for part in parts])
    found = call(
        "kron_matmul_vjp", [(a.shape, a.dtype) for a in arrays[1:]], *arrays,
        integers=[side == "left"], numbers=[alpha], broadcast=True,
    )  # fmt: skip
    return [g.reshape(part.shape) for g, part in zip(found, parts, strict=True)]


@functools.partial(kron_matmul_vjp.defjvp, symbolic_zeros=True)
def _product_vjp_jvp(side, alpha, primals, tangents):
    """The product is linear in x and in every factor: of each tangent u, the gradients with u in
    the place of what it belongs to.  Its transpose by these is the same map: it is a Hessian."""
    parts, grad = primals
    of_parts, of_grad = tangents
    moved = {i: t for i, t in enumerate(moving([*of_parts, of_grad])) if t is not None}
    last = len(parts)

    def forward(kept, moved):
        *parts, grad = kept
        totals = [jnp.zeros_like(part) for part in parts]
        for i, u in moved.items():
            mixed = parts if i == last else _put(parts, i, u)
            found = kron_matmul_vjp(side, alpha, mixed, u if i == last else grad)
            totals = [t if j == i else t + g for j, (t, g) in enumerate(zip(totals, found))]
        return totals

    def transpose(kept, cotangents):
        *parts, grad = kept
        found = dict(enumerate(forward(kept, dict(enumerate(cotangents)))))
        if last in moved:
            found[last] = summed(
                _products(side, alpha, parts, dict(enumerate(cotangents))), grad
            )
        return {i: found[i] for i in moved}

    found = kron_matmul_vjp(side, alpha, parts, grad)
    return found, linear(forward, transpose, [*parts, grad], moved)
