"""The operators of PyTorch on gradients of kernel expansions: cdist_grad and agop."""

import torch

from gram import _core
from gram._torch_register import batch, operator, plain, summed
from gram._torch_second import powers

_CORES = {0: 2, 1: 2, 2: 2, 3: 2}


def _shape(a, b, c, d):
    return batch((a, 2), (b, 2), (c, 2), (d, 2))


def _grad_backward(inputs, outputs, needs, grad):
    *tensors, p = inputs
    found = cdist_grad_vjp(*tensors, grad, p)
    return [summed(g, t) for g, t in zip(found, tensors, strict=True)]


@operator(
    "(Tensor a, Tensor b, Tensor c, Tensor d, float p) -> Tensor",
    cores=_CORES,
    shapes=lambda a, b, c, d, p: a.new_empty(
        (*_shape(a, b, c, d), c.shape[-2], d.shape[-2], d.shape[-1])
    ),
    backward=_grad_backward,
)
def cdist_grad(a, b, c, d, p):
    return _core.cdist_grad(*plain(a, b, c, d), p)


@operator(
    "(Tensor a, Tensor b, Tensor c, Tensor d, Tensor grad, float p) -> Tensor[]",
    cores=_CORES | {4: 3},
    shapes=lambda a, b, c, d, grad, p: [
        t.new_empty((*torch.broadcast_shapes(_shape(a, b, c, d), grad.shape[:-3]), *t.shape[-2:]))
        for t in (a, b, c, d)
    ],
)
def cdist_grad_vjp(a, b, c, d, grad, p):
    """A feature after the other: each is a matrix of centres by points."""
    a, b, c, d, grad = plain(a, b, c, d, grad)
    shape = torch.broadcast_shapes(_shape(a, b, c, d), grad.shape[:-3])
    of_a, of_b, of_c, of_d = (t.new_zeros((*shape, *t.shape[-2:])) for t in (a, b, c, d))
    for n in range(d.shape[-2]):
        phi, slope = powers(d[..., n, None, :] - b[..., n, :, None], p)
        g = grad[..., n, :]
        back = c.mT @ g
        of_a += back * phi
        of_c += g @ (a * phi).mT
        t = back * a * slope
        of_d[..., n, :] = t.sum(-2)
        of_b[..., n, :] = -t.sum(-1)
    return [of_a, of_b, of_c, of_d]


def _agop_shape(a, b, c, d, p, diagonal, points):
    n = d.shape[-2]
    return a.new_empty((*_shape(a, b, c, d), n) if diagonal else (*_shape(a, b, c, d), n, n))


def _agop_backward(inputs, outputs, needs, grad):
    *tensors, p, diagonal, points = inputs
    gradients = cdist_grad(*tensors, p)
    count = points or tensors[3].shape[-1]
    if diagonal:
        back = 2 * grad[..., None, :, None] * gradients
    else:
        back = (grad + grad.mT)[..., None, :, :] @ gradients
    return _grad_backward(inputs[:5], outputs, needs, back / max(1, count))


@operator(
    "(Tensor a, Tensor b, Tensor c, Tensor d, float p, bool diagonal, int points) -> Tensor",
    cores=_CORES,
    shapes=_agop_shape,
    backward=_agop_backward,
)
def agop(a, b, c, d, p, diagonal, points):
    return _core.agop(*plain(a, b, c, d), p, diagonal=diagonal, points=points)
