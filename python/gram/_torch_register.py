"""How an operator of gram is registered with PyTorch: fake tensors, vmap, gradients.

An operator's tensors are a batch of matrices: every tensor argument has some trailing dimensions
of its own (its core), and those before are a batch that broadcasts with the others'.
"""

from types import SimpleNamespace

import torch
from gram._torch_eager import eager_operator
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

operators = SimpleNamespace()  # by name, for modules that come before theirs
HAS_OPERATORS = hasattr(torch.library, "custom_op")  # since 2.4; before it, autograd alone


def operator(schema, *, cores, shapes, backward=None, own=(), expand=False):
    """Registers the decorated function as gram::<its name>.

    schema   in PyTorch's words
    cores    how many trailing dimensions of its own each tensor argument has, by position
    shapes   what the function returns, made of tensors without data
    backward (inputs, outputs, needs, *gradients) -> gradients of the inputs, a list; None: none
    own      positions of results that have the batch of one argument only, as {result: argument}
    expand   every argument is to have the dimension that vmap maps: what is broadcast over it
             would be summed, or is refused
    """

    def register(run):
        op = with_library(run) if HAS_OPERATORS else eager_operator(run, backward)
        setattr(operators, run.__name__, op)
        return op

    def with_library(run):
        op = torch.library.custom_op(f"gram::{run.__name__}", run, mutates_args=(), schema=schema)
        op.register_fake(shapes)
        op.register_vmap(_vmap_rule(op, cores, dict(own), expand))
        if backward is not None:
            op.register_autograd(_backward(backward), setup_context=_remember)
        return op

    return register


def _remember(ctx, inputs, output):
    leaves, ctx.gram_spec = tree_flatten((inputs, output))
    ctx.gram_others = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    ctx.save_for_backward(*[leaf if isinstance(leaf, torch.Tensor) else None for leaf in leaves])


def _backward(formula):
    def backward(ctx, *grads):
        pairs = zip(ctx.saved_tensors, ctx.gram_others, strict=True)
        leaves = [other if tensor is None else tensor for tensor, other in pairs]
        inputs, outputs = tree_unflatten(leaves, ctx.gram_spec)
        found = formula(inputs, outputs, ctx.needs_input_grad, *grads)
        found = [*found, *[None] * (len(inputs) - len(found))]
        return tuple(_as_list(i) if g is None else g for i, g in zip(inputs, found, strict=True))

    return backward


def _as_list(value):
    """No gradient of an input: of a list of tensors, which PyTorch takes every empty list for, one
    None each."""
    if isinstance(value, list) and all(isinstance(v, torch.Tensor) for v in value):
        return [None] * len(value)
    return None


def _vmap_rule(op, cores, own, expand):
    def rule(info, in_dims, *args):
        batched = [False] * len(args)
        rank = 0
        for i, core in cores.items():
            for tensor, dim in _pairs(args[i], in_dims[i]):
                batched[i] |= dim is not None
                rank = max(rank, tensor.dim() - core - (dim is not None))

        def move(tensor, dim, core):
            if not isinstance(tensor, torch.Tensor) or (dim is None and not expand):
                return tensor
            if dim is None:
                tensor, dim = tensor.expand(info.batch_size, *tensor.shape), 0
            tensor = tensor.movedim(dim, 0)
            missing = rank - (tensor.dim() - core - 1)
            return tensor[(slice(None), *[None] * missing)] if missing else tensor

        moved = list(args)
        for i, core in cores.items():
            if isinstance(args[i], (list, tuple)):
                moved[i] = [move(t, d, core) for t, d in zip(args[i], in_dims[i], strict=True)]
            else:
                moved[i] = move(args[i], in_dims[i], core)
        result = op(*moved)
        if isinstance(result, (list, tuple)):
            return result, type(result)(
                0 if i not in own or batched[own[i]] else None for i in range(len(result))
            )
        return result, 0

    return rule


def _pairs(value, dims):
    """The tensors of an argument, each with the dimension that is mapped, or None."""
    if isinstance(value, torch.Tensor):
        return [(value, dims)]
    if isinstance(value, (list, tuple)):
        return [p for v, d in zip(value, dims, strict=True) for p in _pairs(v, d)]
    return []


def plain(*tensors):
    """As gram's functions take them: without a gradient, signs and conjugates settled."""
    return tree_map(
        lambda t: t.detach().resolve_neg() if isinstance(t, torch.Tensor) else t, tensors
    )


def batch(*pairs):
    """The shape that the batches of (tensor, core) broadcast to."""
    shapes = [t.shape[: t.dim() - core] for t, core in pairs if t is not None]
    return torch.broadcast_shapes(*shapes)


def summed(grad, like):
    """The gradient of something that was broadcast, of its shape, dtype and device."""
    if like.shape != grad.shape:
        grad = grad.sum_to_size(like.shape)
    return grad.to(dtype=like.dtype, device=like.device)
