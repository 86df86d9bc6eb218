"""The operators of PyTorch on products with kernel matrices that are never stored."""

import torch

from gram import _core, _torch_numbers
from gram._kernels import had
from gram._torch_kernels import OPTIONS, POINTS, keywords, number_vjp_backward, result_type
from gram._torch_register import batch, operator, plain, summed
from gram._torch_second import kernel_second

_BLOCK = 1 << 22  # elements of the matrices that a block of rows makes
_NAMES = ("x", "y", "bandwidth", "regularization")


def _matmul_shape(x, y, bandwidth, regularization, hypers, v, *options):
    other = x if y is None else y
    numbers = [(n, 0) for n in (bandwidth, regularization, *hypers)]
    shape = batch((x, 2), (other, 2), (v, 2), *numbers)
    return x.new_empty((*shape, x.shape[-2], v.shape[-1]), dtype=result_type(x))


def _product_backward(points, grad, v, options, needs):
    """The gradients of the sum of grad times K v to the points and numbers that need one."""
    x, y, bandwidth, regularization, hypers = points
    grads = [None] * 5
    if any(needs[:4]):
        names = [name for name, need in zip(_NAMES, needs) if need]
        args = (bandwidth, regularization, hypers, grad, v, *options, names)
        found = dict(zip(names, kernel_matmul_vjp(x, y, *args), strict=True))
        named = zip(_NAMES, points[:4], strict=True)
        grads[:4] = [summed(found[n], t) if n in found else None for n, t in named]
    asked = [i for i, need in enumerate(needs[4]) if need]
    if asked:
        names = [options[-1][i + 1] for i in asked]
        args = (bandwidth, regularization, hypers, grad, v, *options, names)
        grads[4] = [None] * len(hypers)
        for i, g in zip(asked, kernel_matmul_number_vjp(x, y, *args), strict=True):
            grads[4][i] = summed(g, hypers[i])
    return grads


def _matmul_backward(inputs, outputs, needs, grad):
    *points, v = inputs[:6]
    options = inputs[6:]
    of_v = summed(kernel_matmul_transposed(*points, grad, *options), v) if needs[5] else None
    return [*_product_backward(points, grad, v, options, needs), of_v]


@operator(
    f"({POINTS}Tensor v, {OPTIONS}) -> Tensor",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 0, 5: 2},
    shapes=_matmul_shape,
    backward=_matmul_backward,
)
def kernel_matmul(x, y, bandwidth, regularization, hypers, v, *options):
    x, y, v = plain(x, y, v)
    words = had(keywords(bandwidth, regularization, hypers, options))
    return _core.kernel_matmul(x, y, v=v, **words)


def _transposed_shape(x, y, bandwidth, regularization, hypers, grad, *options):
    other = x if y is None else y
    numbers = [(n, 0) for n in (bandwidth, regularization, *hypers)]
    shape = batch((x, 2), (other, 2), (grad, 2), *numbers)
    return grad.new_empty((*shape, other.shape[-2], grad.shape[-1]))


def _transposed_backward(inputs, outputs, needs, cotangent):
    """The sum of cotangent times K^T grad is that of grad times K cotangent."""
    *points, grad = inputs[:6]
    options = inputs[6:]
    of_grad = summed(kernel_matmul(*points, cotangent, *options), grad) if needs[5] else None
    return [*_product_backward(points, grad, cotangent, options, needs), of_grad]


@operator(
    f"({POINTS}Tensor grad, {OPTIONS}) -> Tensor",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 0, 5: 2},
    shapes=_transposed_shape,
    backward=_transposed_backward,
)
def kernel_matmul_transposed(x, y, bandwidth, regularization, hypers, grad, *options):
    """K^T grad, the gradient of kernel_matmul to v."""
    x, y, grad = plain(x, y, grad)
    x, y = (None if t is None else t.to(grad.dtype) for t in (x, y))
    rows = (x if y is None else y).shape[-2]
    like = grad.new_zeros(()).expand(rows, grad.shape[-1])  # v, of which only the shape counts
    words = had(keywords(bandwidth, regularization, hypers, options))
    return _core.kernel_matmul_vjp(x, y, v=like, grad=grad, wrt="v", **words)


def _row_blocks(x, y, grad, v):
    """Slices of the rows of x, whose matrices stay small."""
    shape = batch((x, 2), (y, 2), (grad, 2), (v, 2))
    rows = max(1, _BLOCK // max(1, y.shape[-2] * shape.numel()))
    return [slice(begin, begin + rows) for begin in range(0, x.shape[-2], rows)]


def _moved(options, rows):
    """Of the matrix that begins with the first of rows."""
    kernel, numbers, outer_power, (row, column), *rest = options
    return [kernel, numbers, outer_power, [row + rows.start, column], *rest]


def _matmul_vjp_shape(x, y, bandwidth, regularization, hypers, grad, v, *rest):
    other = x if y is None else y
    numbers = [(n, 0) for n in (bandwidth, regularization, *hypers)]
    shape = batch((x, 2), (other, 2), (grad, 2), (v, 2), *numbers)
    own = {"x": x.shape[-2:], "y": other.shape[-2:]}
    return [x.new_empty((*shape, *own.get(name, ())), dtype=grad.dtype) for name in rest[-1]]


def _matmul_vjp_backward(inputs, outputs, needs, cotangents):
    x, y, bandwidth, regularization, hypers, grad, v, *options, wrt = inputs
    _torch_numbers.refuse_second(needs[4], options[-1][1:])
    options = _torch_numbers.settled(hypers, options)
    given = dict(zip(wrt, cotangents, strict=True))
    points = x, (x if y is None else y), bandwidth
    if y is None:  # its gradient is the sum of both
        given["y"] = given.get("x")
    found = kernel_matmul_second(
        *points, regularization, [], grad, v, *[given.get(name) for name in _NAMES], *options
    )
    of_x, of_y, of_bandwidth, of_grad, of_v = [
        None if t is None else summed(g, t) for g, t in zip(found, (*points, grad, v), strict=True)
    ]
    if y is None:
        of_x, of_y = of_x + of_y, None
    return [of_x, of_y, of_bandwidth, None, None, of_grad, of_v]


@operator(
    f"({POINTS}Tensor grad, Tensor v, {OPTIONS}, str[] wrt) -> Tensor[]",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 0, 5: 2, 6: 2},
    shapes=_matmul_vjp_shape,
    backward=_matmul_vjp_backward,
    expand=True,
)
def kernel_matmul_vjp(x, y, bandwidth, regularization, hypers, grad, v, *rest):
    """Without the cotangent grad v^T; where y is none, x has its whole gradient."""
    *options, wrt = rest
    x, y, grad, v = plain(x, y, grad, v)
    like = _matmul_vjp_shape(x, y, bandwidth, regularization, hypers, grad, v, *rest)
    words = had(keywords(bandwidth, regularization, hypers, options))
    found = _core.kernel_matmul_vjp(x, y, v=v, grad=grad, wrt=tuple(wrt), **words)
    # The batch of v and of grad is part of that of the gradients already; that of numbers too.
    return [g.expand(t.shape).contiguous() for g, t in zip(found, like, strict=True)]


@operator(
    f"({POINTS}Tensor grad, Tensor v, {OPTIONS}, str[] wrt) -> Tensor[]",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 0, 5: 2, 6: 2},
    shapes=_matmul_vjp_shape,
    backward=number_vjp_backward,
    expand=True,
)
def kernel_matmul_number_vjp(x, y, bandwidth, regularization, hypers, grad, v, *rest):
    """The gradients to the numbers that wrt names as OPTIONS does."""
    *options, wrt = rest
    like = _matmul_vjp_shape(x, y, bandwidth, regularization, hypers, grad, v, *rest)
    x, y, grad, v = plain(x, y, grad, v)
    words = keywords(bandwidth, regularization, hypers, options)
    y = x if y is None else y
    found = _torch_numbers.product_vjp(x, y, grad, v, words, wrt)
    return [t.new_zeros(t.shape) + g for g, t in zip(found, like, strict=True)]


def _second_shape(x, y, bandwidth, regularization, hypers, grad, v, *rest):
    like = (x, y, x.new_empty(()) if bandwidth is None else bandwidth, grad, v)
    return [t.new_empty(t.shape) for t in like]


@operator(
    f"({POINTS}Tensor grad, Tensor v, Tensor? of_x, Tensor? of_y, Tensor? of_bandwidth, "
    f"Tensor? of_regularization, {OPTIONS}) -> Tensor[]",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 0, 5: 2, 6: 2, 7: 2, 8: 2, 9: 0, 10: 0},
    shapes=_second_shape,
    expand=True,
)
def kernel_matmul_second(x, y, bandwidth, regularization, hypers, grad, v, *rest):
    """The gradients to x, y, bandwidth, grad and v of the sum of the results of kernel_matmul_vjp
    times of_x, of_y, ...: kernel_second of the same blocks."""
    x, y, bandwidth, regularization, grad, v = plain(x, y, bandwidth, regularization, grad, v)
    given, options = dict(zip(_NAMES, plain(*rest[:4]), strict=True)), rest[4:]
    total = [torch.zeros_like(t) for t in _second_shape(x, y, bandwidth, None, [], grad, v)]
    if all(u is None for u in given.values()):
        return total
    of_x, of_y, of_bandwidth, of_grad, of_v = total
    whole = given["x"]
    for part in _row_blocks(x, y, grad, v):
        mine = grad[..., part, :]
        if whole is not None:
            given["x"] = whole[..., part, :]
        tensors = x[..., part, :], y, bandwidth, regularization, mine @ v.mT
        to_x, to_y, to_bandwidth, _, seen = kernel_second(tensors, _moved(options, part), given)
        of_x[..., part, :] = to_x
        of_y += to_y
        if to_bandwidth is not None:
            of_bandwidth += to_bandwidth
        of_grad[..., part, :] = summed(seen @ v, mine)
        of_v += summed(seen.mT @ mine, v)
    return total
