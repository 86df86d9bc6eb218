"""How gram.jax calls the library: one foreign function of XLA, registered once."""

import jax
import jax.numpy as jnp
import numpy as np

from gram import _core

for _platform, _handler in _core.xla_handlers().items():
    jax.ffi.register_ffi_target("gram", _handler, platform=_platform)


def call(op, results, *arrays, integers=(), numbers=(), text="", broadcast=False):
    """The results of an operation on arrays, in the order that python/core/py_xla_*.c say.

    results  their (shape, dtype), a list
    broadcast  every array is to have the dimension that vmap maps: what is broadcast over it would
               be summed, or is refused
    """
    run = jax.ffi.ffi_call(
        "gram",
        [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results],
        vmap_method="broadcast_all" if broadcast else "expand_dims",
    )
    # Attributes are arrays that have elements.
    return run(
        *arrays,
        op=op,
        integers=np.array([*integers, 0], np.int64),
        numbers=np.array([*numbers, 0.0], np.float64),
        text=text,
    )


def matrices(function, **arrays):
    """Arrays of one dtype and of two dimensions or more; None stays."""
    found = {name: None if a is None else jnp.asarray(a) for name, a in arrays.items()}
    dtype = None
    for name, array in found.items():
        if array is None:
            continue
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError(f"gram.jax.{function}: {name} has dtype {array.dtype}, expected floats")
        if dtype is not None and dtype != array.dtype:
            raise TypeError(
                f"gram.jax.{function}: {name} has dtype {array.dtype}, expected that of the arrays "
                f"before it, {dtype}"
            )
        dtype = array.dtype
        if array.ndim < 2:
            raise ValueError(
                f"gram.jax.{function}: {name} has {array.ndim} dimensions, expected 2 or more"
            )
    return found.values()


def result_type(x):
    """The dtype of a result: halves give single precision."""
    return jnp.float64 if x.dtype == jnp.float64 else jnp.float32


def number(value, dtype):
    """A number as an array."""
    return jnp.asarray(value, dtype)


def batched(*pairs):
    """Arrays with their numbers of dimensions that are no batch, as (array, core): the shape that
    their batches broadcast to, and the arrays with a batch of as many dimensions each, so that
    vmap can put another one in front of all."""
    shapes = [a.shape[: a.ndim - core] for a, core in pairs]
    shape = jnp.broadcast_shapes(*shapes)
    return shape, [
        a.reshape((1,) * (len(shape) - len(own)) + a.shape)
        for (a, _), own in zip(pairs, shapes, strict=True)
    ]


def summed(grad, like):
    """The gradient of something that was broadcast, of its shape and dtype."""
    extra = grad.ndim - like.ndim
    grad = grad.sum(tuple(range(extra)))
    wide = [i for i, n in enumerate(like.shape) if n == 1 and grad.shape[i] != 1]
    return grad.sum(tuple(wide), keepdims=True).astype(like.dtype)


def moving(tangents):
    """The tangents that rules with symbolic zeros are given; None for zeros."""
    zero = jax.custom_derivatives.SymbolicZero
    return [None if isinstance(t, zero) else t for t in tangents]


def named(names, tangents):
    """Those that are not zero, by name."""
    return {n: t for n, t in zip(names, moving(tangents), strict=True) if t is not None}
