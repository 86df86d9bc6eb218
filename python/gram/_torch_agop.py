"""The operators of PyTorch on gradients of kernel expansions: cdist_grad and agop."""

import torch

from gram import _core, _torch_numbers
from gram._torch_register import batch, operator, plain, summed
from gram._torch_second import curvature, powers

_CORES = {0: 2, 1: 2, 2: 2, 3: 2}


def _shape(a, b, c, d, power=None):
    return batch((a, 2), (b, 2), (c, 2), (d, 2), (power, 0))


def _grad_backward(inputs, outputs, needs, grad):
    *tensors, power, p = inputs
    if power is None and p == float("inf"):
        raise NotImplementedError("gram.torch.cdist_grad: p = inf has no derivative")
    found = cdist_grad_vjp(*tensors, grad, power, p)
    of_tensors = [summed(g, t) for g, t in zip(found[:4], tensors, strict=True)]
    return [*of_tensors, None if power is None else summed(found[4], power)]


@operator(
    "(Tensor a, Tensor b, Tensor c, Tensor d, Tensor? power, float p) -> Tensor",
    cores=_CORES | {4: 0},
    shapes=lambda a, b, c, d, power, p: a.new_empty(
        (*_shape(a, b, c, d, power), c.shape[-2], d.shape[-2], d.shape[-1])
    ),
    backward=_grad_backward,
)
def cdist_grad(a, b, c, d, power, p):
    """power: p as a tensor, in the place of the number."""
    return _core.cdist_grad(*plain(a, b, c, d), p if power is None else power.detach())


def _vjp_shape(a, b, c, d, grad, power=None):
    return torch.broadcast_shapes(_shape(a, b, c, d, power), grad.shape[:-3])


def _vjp_backward(inputs, outputs, needs, cotangents):
    *tensors, power, p = inputs
    if power is not None:
        _torch_numbers.refuse_second([power.requires_grad], ["p"])
        if power.numel() != 1:
            raise NotImplementedError(
                "gram.torch: p is an array, for which there is no second derivative"
            )
        p = power.item()
    full = [
        torch.zeros_like(g) if u is None else u
        for u, g in zip(cotangents[:4], outputs[:4], strict=True)
    ]
    found = cdist_grad_second(*tensors, *full, p)
    return [summed(g, t) for g, t in zip(found, tensors, strict=True)]


@operator(
    "(Tensor a, Tensor b, Tensor c, Tensor d, Tensor grad, Tensor? power, float p) -> Tensor[]",
    cores=_CORES | {4: 3, 5: 0},
    shapes=lambda a, b, c, d, grad, power, p: [
        *[
            t.new_empty((*_vjp_shape(a, b, c, d, grad, power), *t.shape[-2:]))
            for t in (a, b, c, d)
        ],
        a.new_empty(_vjp_shape(a, b, c, d, grad, power)),
    ],
    backward=_vjp_backward,
)
def cdist_grad_vjp(a, b, c, d, grad, power, p):
    """A feature after the other: each is a matrix of centres by points.  The last result is the
    gradient to p."""
    a, b, c, d, grad = plain(a, b, c, d, grad)
    shape = _vjp_shape(a, b, c, d, grad, power)
    if power is not None:
        p = _torch_numbers.column(power.detach().to(a))
    of_p = a.new_zeros(shape)
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
        if power is not None:
            size = (d[..., n, None, :] - b[..., n, :, None]).abs()
            of_p += (back * a * torch.where(size == 0, 0, phi * size.log())).sum((-2, -1))
    return [of_a, of_b, of_c, of_d, of_p]


def _second_shape(a, b, c, d, grad, *cotangents):
    return torch.broadcast_shapes(
        _vjp_shape(a, b, c, d, grad), *[u.shape[:-2] for u in cotangents]
    )


@operator(
    "(Tensor a, Tensor b, Tensor c, Tensor d, Tensor grad, Tensor of_a, Tensor of_b, Tensor of_c, "
    "Tensor of_d, float p) -> Tensor[]",
    cores=_CORES | {4: 3, 5: 2, 6: 2, 7: 2, 8: 2},
    shapes=lambda *args: [
        t.new_empty((*_second_shape(*args[:9]), *t.shape[(-3 if i == 4 else -2) :]))
        for i, t in enumerate(args[:5])
    ],
)
def cdist_grad_second(a, b, c, d, grad, of_a, of_b, of_c, of_d, p):
    """The gradients of the sum of the results of cdist_grad_vjp times of_a, of_b, of_c and of_d."""
    tensors = plain(a, b, c, d, grad, of_a, of_b, of_c, of_d)
    shape = _second_shape(*tensors)
    a, b, c, d, grad, of_a, of_b, of_c, of_d = tensors
    to_a, to_b, to_c, to_d = (t.new_zeros((*shape, *t.shape[-2:])) for t in (a, b, c, d))
    to_grad = grad.new_zeros((*shape, *grad.shape[-3:]))
    for n in range(d.shape[-2]):
        difference = d[..., n, None, :] - b[..., n, :, None]
        phi, slope = powers(difference, p)
        turn = of_d[..., n, None, :] - of_b[..., n, :, None]
        g = grad[..., n, :]
        back, across = c.mT @ g, of_c.mT @ g
        to_a += across * phi + back * slope * turn
        of_back = of_a * phi + a * slope * turn
        to_c += g @ of_back.mT
        to_grad[..., n, :] = c @ of_back + of_c @ (a * phi)
        t = (of_a * back + across * a) * slope + back * a * curvature(difference, p) * turn
        to_d[..., n, :] = t.sum(-2)
        to_b[..., n, :] = -t.sum(-1)
    return [to_a, to_b, to_c, to_d, to_grad]


def _agop_shape(a, b, c, d, power, p, diagonal, points):
    shape, n = _shape(a, b, c, d, power), d.shape[-2]
    return a.new_empty((*shape, n) if diagonal else (*shape, n, n))


def _agop_backward(inputs, outputs, needs, grad):
    *tensors, power, p, diagonal, points = inputs
    gradients = cdist_grad(*tensors, power, p)
    count = points or tensors[3].shape[-1]
    if diagonal:
        back = 2 * grad[..., None, :, None] * gradients
    else:
        back = (grad + grad.mT)[..., None, :, :] @ gradients
    return _grad_backward(inputs[:6], outputs, needs, back / max(1, count))


@operator(
    "(Tensor a, Tensor b, Tensor c, Tensor d, Tensor? power, float p, bool diagonal, int points)"
    " -> Tensor",
    cores=_CORES | {4: 0},
    shapes=_agop_shape,
    backward=_agop_backward,
)
def agop(a, b, c, d, power, p, diagonal, points):
    p = p if power is None else power.detach()
    return _core.agop(*plain(a, b, c, d), p, diagonal=diagonal, points=points)
