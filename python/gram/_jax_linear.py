"""Linear maps of JAX with a transpose of their own: how gram.jax has forward and reverse mode.

A derivative of an operation is a linear map, which forward mode computes and reverse mode
transposes.  JAX would transpose the steps of the former; the library has better ways.
"""

import jax
import jax.extend.core
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir
from jax.tree_util import tree_flatten, tree_unflatten

_linear = jax.extend.core.Primitive("gram_linear")
_linear.multiple_results = True


def linear(forward, transpose, kept, inputs):
    """forward(kept, inputs), a tree that is linear in inputs; its cotangents are given back by
    transpose(kept, cotangents), a tree like inputs.  Both can be differentiated by what is kept.
    """
    kept, kept_tree = tree_flatten(kept)
    inputs, tree = tree_flatten(inputs)
    shapes = jax.eval_shape(
        lambda k, i: forward(tree_unflatten(kept_tree, k), tree_unflatten(tree, i)), kept, inputs
    )
    out_tree = tree_flatten(shapes)[1]

    def flat(function, tree):
        def run(kept, leaves):
            found = function(tree_unflatten(kept_tree, kept), tree_unflatten(tree, leaves))
            return tuple(tree_flatten(found)[0])

        return run

    found = _bind(flat(forward, tree), flat(transpose, out_tree), kept, inputs)
    return tree_unflatten(out_tree, found)


def _bind(forward, transpose, kept, inputs):
    return _linear.bind(
        *kept, *inputs, forward=forward, transpose=transpose, count=len(kept)
    )


def _run(*arrays, forward, transpose, count):
    return list(forward(arrays[:count], arrays[count:]))


def _shapes(*arrays, **options):
    return jax.make_jaxpr(lambda *a: _run(*a, **options))(*arrays).out_avals


_linear.def_impl(_run)
_linear.def_abstract_eval(_shapes)
mlir.register_lowering(_linear, mlir.lower_fun(_run, multiple_results=True))


def _is_zero(tangent):
    return type(tangent) is ad.Zero


def _jvp(primals, tangents, *, forward, transpose, count):
    kept, inputs = primals[:count], primals[count:]
    of_kept, of_inputs = tangents[:count], tangents[count:]
    out = _bind(forward, transpose, kept, inputs)
    terms = []
    if not all(map(_is_zero, of_inputs)):
        terms.append(_bind(forward, transpose, kept, [ad.instantiate_zeros(t) for t in of_inputs]))
    moved = [i for i, t in enumerate(of_kept) if not _is_zero(t)]
    if moved:
        terms.append(
            directional(lambda *k: forward(k, inputs), kept, [of_kept[i] for i in moved], moved)
        )
    return out, [sum(parts[1:], parts[0]) for parts in zip(*terms, strict=True)]


def directional(f, primals, tangents, moved):
    """The derivative of f, a list, by those of its arguments whose numbers are in moved."""

    if not moved:
        return [jnp.zeros(s.shape, s.dtype) for s in jax.eval_shape(f, *primals)]

    def along(*some):
        arguments = list(primals)
        for i, argument in zip(moved, some, strict=True):
            arguments[i] = argument
        return list(f(*arguments))

    return jax.jvp(along, [primals[i] for i in moved], list(tangents))[1]


def _transpose(cotangents, *arrays, forward, transpose, count):
    kept, inputs = arrays[:count], arrays[count:]
    cotangents = [ad.instantiate_zeros(c) for c in cotangents]
    found = _bind(transpose, forward, kept, cotangents)
    wanted = [g if ad.is_undefined_primal(i) else None for g, i in zip(found, inputs, strict=True)]
    return [None] * count + wanted


def _vmap(arrays, dims, *, forward, transpose, count):
    (size,) = {a.shape[d] for a, d in zip(arrays, dims, strict=True) if d is not None}
    moved = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(arrays, dims, strict=True)]
    inputs = [
        jnp.broadcast_to(a, (size, *a.shape)) if d is None else a
        for a, d in zip(moved[count:], dims[count:], strict=True)
    ]
    axes = (tuple(None if d is None else 0 for d in dims[:count]), 0)

    def mapped(function):
        return lambda kept, leaves: jax.vmap(function, axes)(tuple(kept), tuple(leaves))

    out = _bind(mapped(forward), mapped(transpose), moved[:count], inputs)
    return out, [0] * len(out)


ad.primitive_jvps[_linear] = _jvp
ad.primitive_transposes[_linear] = _transpose
batching.primitive_batchers[_linear] = _vmap
