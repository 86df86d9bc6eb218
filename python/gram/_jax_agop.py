"""Gradients of kernel expansions for JAX: cdist_grad and agop."""

import functools
import math

import jax
import jax.numpy as jnp

from gram._jax_call import batched, call, named, summed
from gram._jax_derivatives import powers
from gram._jax_linear import linear

_NAMES = ("a", "b", "c", "d")


def _all(kept, tangents):
    return [tangents.get(n, jnp.zeros_like(t)) for n, t in zip(_NAMES, kept, strict=True)]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def cdist_grad(p, a, b, c, d):
    shape, arrays = batched((a, 2), (b, 2), (c, 2), (d, 2))
    (out,) = call(
        "cdist_grad", [((*shape, c.shape[-2], *d.shape[-2:]), a.dtype)], *arrays, numbers=[p]
    )
    return out


@functools.partial(cdist_grad.defjvp, symbolic_zeros=True)
def _grad_jvp(p, primals, tangents):
    if p == math.inf:
        raise NotImplementedError("gram.jax.cdist_grad: p = inf has no derivative")
    out, tangents = cdist_grad(p, *primals), named(_NAMES, tangents)
    return out, linear(
        functools.partial(_grad_along, p),
        lambda kept, grad: _wanted(_grad_vjp(p, kept, grad), tangents), primals, tangents,
    )  # fmt: skip


def _wanted(found, tangents):
    return {n: g for n, g in zip(_NAMES, found, strict=True) if n in tangents}


def _features(*arrays):
    return tuple(jnp.moveaxis(a, -2, 0) for a in arrays)


def _grad_along(p, kept, tangents):
    """A feature after the other: each is a matrix of centres by points."""
    a, b, c, d = kept
    of_a, of_b, of_c, of_d = _all(kept, tangents)

    @jax.checkpoint
    def step(none, feature):
        centre, point, of_centre, of_point = feature
        phi, slope = powers(point[..., None, :] - centre[..., :, None], p)
        turn = a * slope * (of_point[..., None, :] - of_centre[..., :, None])
        return none, c @ (of_a * phi + turn) + of_c @ (a * phi)

    found = jax.lax.scan(step, None, _features(b, d, of_b, of_d))[1]
    return jnp.moveaxis(found, 0, -2)


def _grad_vjp(p, inputs, grad):
    a, b, c, d = inputs

    @jax.checkpoint
    def step(total, feature):
        of_a, of_c = total
        centre, point, g = feature
        phi, slope = powers(point[..., None, :] - centre[..., :, None], p)
        back = c.mT @ g
        t = back * a * slope
        total = of_a + back * phi, of_c + g @ (a * phi).mT
        return total, (t.sum(-2), -t.sum(-1))

    batch, _ = batched((a, 2), (b, 2), (c, 2), (d, 2))
    zeros = [jnp.zeros((*batch, *t.shape[-2:]), a.dtype) for t in (a, c)]
    (of_a, of_c), (of_d, of_b) = jax.lax.scan(step, tuple(zeros), _features(b, d, grad))
    found = of_a, jnp.moveaxis(of_b, 0, -2), of_c, jnp.moveaxis(of_d, 0, -2)
    return [summed(g, t) for g, t in zip(found, inputs, strict=True)]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def agop(p, diagonal, points, a, b, c, d):
    shape, arrays = batched((a, 2), (b, 2), (c, 2), (d, 2))
    n = d.shape[-2]
    (out,) = call(
        "agop", [((*shape, n) if diagonal else (*shape, n, n), a.dtype)], *arrays,
        integers=[diagonal, points], numbers=[p],
    )  # fmt: skip
    return out


@functools.partial(agop.defjvp, symbolic_zeros=True)
def _agop_jvp(p, diagonal, points, primals, tangents):
    if p == math.inf:
        raise NotImplementedError("gram.jax.agop: p = inf has no derivative")
    out, tangents = agop(p, diagonal, points, *primals), named(_NAMES, tangents)
    count = max(1, points or primals[3].shape[-1])

    def forward(kept, tangents):
        g, of_g = cdist_grad(p, *kept), _grad_along(p, kept, tangents)
        if diagonal:
            return 2 * (g * of_g).sum((-3, -1)) / count
        product = (of_g @ g.mT).sum(-3) / count
        return product + product.mT

    def transpose(kept, grad):
        g = cdist_grad(p, *kept)
        if diagonal:
            back = 2 * grad[..., None, :, None] * g
        else:
            back = (grad + grad.mT)[..., None, :, :] @ g
        return _wanted(_grad_vjp(p, kept, back / count), tangents)

    return out, linear(forward, transpose, primals, tangents)
