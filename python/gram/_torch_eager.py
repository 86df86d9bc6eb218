"""Operators for a PyTorch before 2.4, which has no torch.library.custom_op: steps of autograd with
derivatives as there, but without torch.compile, fake tensors and vmap."""

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten


def eager_operator(run, backward):
    """run as one step of autograd; backward as of gram._torch_register.operator."""
    name = run.__name__

    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx, spec, *leaves):
            result = run(*tree_unflatten(leaves, spec))
            ctx.spec, ctx.kind = spec, type(result)
            tensors = [leaf if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
            ctx.others = [leaf if t is None else None for t, leaf in zip(tensors, leaves)]
            ctx.save_for_backward(*tensors, *_several(result))
            return tuple(result) if ctx.kind is list else result

        @staticmethod
        def backward(ctx, *grads):
            if backward is None:
                raise RuntimeError(f"gram::{name} has no autograd formula")
            count = len(ctx.others)
            inputs, outputs = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
            leaves = [other if t is None else t for t, other in zip(inputs, ctx.others)]
            inputs = tree_unflatten(leaves, ctx.spec)
            needs = tree_unflatten(ctx.needs_input_grad[1:], ctx.spec)
            outputs = ctx.kind(outputs) if ctx.kind in (list, tuple) else outputs[0]
            given = [list(grads)] if ctx.kind is list else grads
            return None, *_of_leaves(inputs, backward(inputs, outputs, needs, *given))

    def call(*args):
        leaves, spec = tree_flatten(list(args))
        for leaf in leaves:
            _refuse(name, leaf)
        return Step.apply(spec, *leaves)

    return call


def _several(result):
    return result if isinstance(result, (list, tuple)) else (result,)


def _of_leaves(inputs, found):
    """The gradients of the leaves of inputs, of which found has those of the first inputs."""
    grads = []
    for i, value in enumerate(inputs):
        own = found[i] if i < len(found) else None
        if isinstance(value, (list, tuple)):
            grads += [None] * len(value) if own is None else list(own)
        else:
            grads.append(own)
    return grads


def _refuse(name, leaf):
    if isinstance(leaf, torch.Tensor) and (leaf.is_meta or hasattr(leaf, "fake_mode")):
        raise NotImplementedError(
            f"gram.torch.{name}: tensors without data need PyTorch 2.4 or newer, but this is "
            f"{torch.__version__}"
        )
