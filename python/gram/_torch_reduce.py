"""The operators of PyTorch on reductions of kernel matrices that are never stored."""

import torch

from gram import _core
from gram._kernels import had
from gram._torch_kernels import OPTIONS, POINTS, _points_backward, keywords, kernel, result_type
from gram._torch_products import _moved, _row_blocks
from gram._torch_register import batch, operator, plain, summed


_NAMES = ("x", "y", "bandwidth", "regularization", "v", "log_weights")


def _shape(x, y, bandwidth, regularization, hypers, v, log_weights, what, scale, *options):
    other = x if y is None else y
    numbers = [(n, 0) for n in (bandwidth, regularization, *hypers)]
    shape = batch((x, 2), (other, 2), (v, 2), (log_weights, 1), *numbers)
    shape = (*shape, x.shape[-2], *(() if v is None else v.shape[-1:]))
    return x.new_empty(shape, dtype=torch.int64 if what.startswith("arg") else result_type(x))


def _cotangent(e, v, grad, what):
    """The gradient to the exponents of some rows, and the weights of the rows."""
    weights = torch.softmax(e, -1)
    if what == "logsumexp":
        return grad[..., None] * weights, weights
    of_weights = grad @ v.mT
    mean = (weights * of_weights).sum(-1, keepdim=True)
    return weights * (of_weights - mean), weights


def _backward(inputs, outputs, needs, grad):
    """By the library; where the gradients will be differentiated too, in steps that have
    derivatives, and so those of numbers that the library has no gradient for."""
    x, y, bandwidth, regularization, hypers, v, log_weights, what, scale, *options = inputs
    if what not in ("logsumexp", "softmax"):
        raise NotImplementedError(f"gram.torch.kernel_reduce: what={what!r} has no gradient")
    if torch.is_grad_enabled():
        return _composed_backward(inputs, needs, grad)
    named = dict(zip(_NAMES, (x, y, bandwidth, regularization, v, log_weights), strict=True))
    wanted = (*needs[:4], *needs[5:7])
    names = [n for n, need in zip(_NAMES, wanted, strict=True) if need and named[n] is not None]
    found = {}
    if names:
        matrix = grad if what == "softmax" else grad[..., None]
        points = x, y, bandwidth, regularization, hypers, matrix, v, log_weights
        gradients = kernel_reduce_vjp(*points, what, scale, *options, names)
        found = dict(zip(names, gradients, strict=True))
    of = [summed(found[n], named[n]) if n in found else None for n in _NAMES]
    of_hypers = [None] * len(hypers)
    if any(needs[4]):
        none = [False] * 4
        of_hypers = _composed_backward(inputs, [*none, needs[4], False, False], grad)[4]
    return [*of[:4], of_hypers, *of[4:]]


def _composed_backward(inputs, needs, grad):
    """In blocks of rows, whose weights are stored: of the exponents s k + l, to which the
    gradient is d, the kernel has s d and the log-weights the sums of the columns of d."""
    x, y, bandwidth, regularization, hypers, v, log_weights, what, scale, *options = inputs
    other = x if y is None else y
    asked = [needs[0], needs[1] if y is not None else needs[0], *needs[2:5]]
    like = [x, other, bandwidth, regularization]
    total = [torch.zeros_like(t) if n else None for t, n in zip(like, asked[:4], strict=True)]
    of_hypers = [torch.zeros_like(h) if n else None for h, n in zip(hypers, needs[4], strict=True)]
    of_v = torch.zeros_like(v) if needs[5] else None
    of_logs = torch.zeros_like(log_weights) if needs[6] else None
    whole = grad if what == "softmax" else grad[..., None]
    for part in _row_blocks(x, other, whole, x.new_empty((1, 1)) if v is None else v):
        rows, at = x[..., part, :], _moved(options, part)
        k = kernel(rows, other, bandwidth, regularization, hypers, *at, "value")
        e = scale * k if log_weights is None else scale * k + log_weights[..., None, :]
        mine = whole[..., part, :]
        d, weights = _cotangent(e, v, mine if what == "softmax" else mine[..., 0], what)
        if of_v is not None:
            of_v += summed(weights.mT @ mine, v)
        if of_logs is not None:
            of_logs += summed(d.sum(-2), log_weights)
        if not any(asked[:4]) and not any(needs[4]):
            continue
        points = rows, other, bandwidth, regularization, hypers
        *found, numbers = _points_backward(*points, at, asked, summed(scale * d, k))
        if total[0] is not None:
            total[0][..., part, :] = found[0]
        for i in range(1, 4):
            if total[i] is not None:
                total[i] += found[i]
        for i, found_number in enumerate(numbers):
            if found_number is not None:
                of_hypers[i] += found_number
    if y is None and total[0] is not None:
        total[0], total[1] = total[0] + total[1], None
    return [*total[:4], of_hypers, of_v, of_logs]


@operator(
    f"({POINTS}Tensor? v, Tensor? log_weights, str what, float scale, {OPTIONS}) -> Tensor",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 0, 5: 2, 6: 1},
    shapes=_shape,
    backward=_backward,
)
def kernel_reduce(x, y, bandwidth, regularization, hypers, v, log_weights, what, scale, *options):
    x, y, v, log_weights = plain(x, y, v, log_weights)
    words = had(keywords(bandwidth, regularization, hypers, options))
    soft = {} if v is None else {"v": v}
    if log_weights is not None:
        soft["log_weights"] = log_weights
    return _core.kernel_reduce(x, y, what=what, scale=scale, **soft, **words)


def _vjp_shape(x, y, bandwidth, regularization, hypers, grad, v, log_weights, what, scale, *rest):
    other = x if y is None else y
    numbers = [(n, 0) for n in (bandwidth, regularization, *hypers)]
    shape = batch((x, 2), (other, 2), (grad, 2), (v, 2), (log_weights, 1), *numbers)
    own = {"x": x.shape[-2:], "y": other.shape[-2:], "log_weights": other.shape[-2:-1]}
    own["v"] = () if v is None else v.shape[-2:]
    return [x.new_empty((*shape, *own.get(name, ())), dtype=grad.dtype) for name in rest[-1]]


@operator(
    f"({POINTS}Tensor grad, Tensor? v, Tensor? log_weights, str what, float scale, {OPTIONS}, "
    "str[] wrt) -> Tensor[]",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 0, 5: 2, 6: 2, 7: 1},
    shapes=_vjp_shape,
    expand=True,
)
def kernel_reduce_vjp(x, y, bandwidth, regularization, hypers, grad, v, *rest):
    """The gradients by the names in wrt; where y is none, x has its whole one.  grad is a matrix:
    of a logarithm a column."""
    log_weights, what, scale, *options, wrt = rest
    x, y, grad, v, log_weights = plain(x, y, grad, v, log_weights)
    like = _vjp_shape(x, y, bandwidth, regularization, hypers, grad, v, log_weights, *rest[1:])
    words = had(keywords(bandwidth, regularization, hypers, options))
    given = grad if what == "softmax" else grad[..., 0]
    soft = {"what": what, "scale": scale, "grad": given, "wrt": tuple(wrt)}
    if v is not None:
        soft["v"] = v
    if log_weights is not None:
        soft["log_weights"] = log_weights
    found = _core.kernel_reduce_vjp(x, y, **soft, **words)
    # The batch of v, of grad and of numbers is part of that of the gradients already.
    return [g.expand(t.shape).contiguous() for g, t in zip(found, like, strict=True)]
