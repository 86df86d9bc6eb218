"""peers/jax.py - JAX on its default device, compiled by jit"""

import jax
import jax.numpy as jnp
from core.place import NotOffered
from core.tables import Call

NAME, PACKAGES, DEVICES = "JAX", ["jax"], ("cpu", "cuda")


def of(q, *arrays):
    """Their copies; JAX computes in float32 unless told otherwise."""
    if q.dtype != "float32":
        raise NotOffered("float32 alone")
    return [jnp.asarray(a) if q.place.on_cpu else jax.dlpack.from_dlpack(a) for a in arrays]


def ready(function, *arrays):
    compiled = jax.jit(function)
    return Call(lambda: jax.block_until_ready(compiled(*arrays)))


def cdist(q):
    if q.p != 1 or q.y is None:
        raise NotOffered("p = 1 alone")
    x, y = of(q, q.x, q.y)
    return ready(lambda x, y: jnp.abs(x[:, None] - y).sum(-1), x, y)


def eigh(q):
    return ready(jnp.linalg.eigh, *of(q, q.a))


CALLS = {"cdist": cdist, "eigh": eigh}
