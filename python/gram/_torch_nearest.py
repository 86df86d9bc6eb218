"""gram.torch.nearest: the search as an operator, and distances that have gradients."""

import torch
from gram import _core
from gram._torch_kernels import result_type
from gram._torch_register import operator


def _shapes(x, y, count, p, exclude_self, radius):
    other = x if y is None else y
    batch = torch.broadcast_shapes(x.shape[:-2], other.shape[:-2])
    shape = (*batch, x.shape[-2], count)
    return x.new_empty(shape, dtype=result_type(x)), x.new_empty(shape, dtype=torch.int64)


@operator(
    "(Tensor x, Tensor? y, int count, float p, bool exclude_self, float? radius)"
    " -> (Tensor, Tensor)",
    cores={0: 2, 1: 2},
    shapes=_shapes,
)
def nearest(x, y, count, p, exclude_self, radius):
    other = None if y is None else y.detach()
    return _core.nearest(
        x.detach(), other, count=count, p=p, exclude_self=exclude_self, radius=radius
    )


def differentiable(x, y, indices, p):
    """The distances of the pairs that indices names, made of operations that have gradients."""
    m, count = indices.shape[-2:]
    y = x if y is None else y
    batch = indices.shape[:-2]
    x, y = (t.to(result_type(t)).expand(*batch, *t.shape[-2:]) for t in (x, y))
    places = indices.clamp(min=0).reshape(*batch, m * count, 1)
    rows = y.gather(-2, places.expand(*batch, m * count, y.shape[-1]))
    differences = x.unsqueeze(-2) - rows.reshape(*batch, m, count, y.shape[-1])
    if p == 0:
        found = (differences != 0).sum(-1).to(differences.dtype)
    else:
        found = torch.linalg.vector_norm(differences, p, dim=-1)
    return torch.where(indices < 0, torch.inf, found)
