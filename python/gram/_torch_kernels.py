"""The operators of PyTorch on pairs of points: distances, kernels, their products and gradients."""

import torch

from gram import _core
from gram._torch_register import batch, operator, plain, summed
from gram._torch_second import kernel_second

# A kernel's options as the operators have them: its name; bandwidth, p, exponent, alpha, gamma,
# coef0, degree, regularization; outer_power or none; row and column offset; an expression, what
# it is of, and its parameters after a first one that is nothing (PyTorch takes an empty list for
# one of tensors).
OPTIONS = (
    "str kernel, float[] numbers, float? outer_power, int[] offsets, str? expression, str of, "
    "str[] names, float[] values"
)
POINTS = "Tensor x, Tensor? y, Tensor? bandwidth, Tensor? regularization, "
_NUMBERS = ("bandwidth", "p", "exponent", "alpha", "gamma", "coef0", "degree", "regularization")


def keywords(bandwidth, regularization, options):
    """The arguments of gram.kernel that options stand for."""
    kernel, numbers, outer_power, offsets, expression, of, names, values = options
    words = dict(zip(_NUMBERS, numbers, strict=True))
    words["row_offset"], words["column_offset"] = offsets
    if outer_power is not None:
        words["outer_power"] = outer_power
    if expression is None:
        words["kernel"] = kernel
    else:
        words |= {"expression": expression, "of": of}
        words["parameters"] = dict(zip(names[1:], values[1:], strict=True))
    if bandwidth is not None:
        words["bandwidth"] = bandwidth.detach()
    if regularization is not None:
        words["regularization"] = regularization.detach()
    return words


def result_type(x):
    """The dtype of a result: halves give single precision."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _pair_shape(x, y, *numbers):
    y = x if y is None else y
    shape = batch((x, 2), (y, 2), *[(n, 0) for n in numbers])
    return (*shape, x.shape[-2], y.shape[-2])


# ---- Distances -------------------------------------------------------------------------------


def _cdist_shape(x, y, p, root):
    return x.new_empty(_pair_shape(x, y), dtype=result_type(x))


def _cdist_backward(inputs, outputs, needs, grad):
    x, y, p, root = inputs
    if p == 0:
        return [torch.zeros_like(x), None if y is None else torch.zeros_like(y)]
    if p == float("inf"):
        raise NotImplementedError("gram.torch.cdist: p = inf has no gradient; take a finite p")
    numbers = [1.0, p, 1.0, 1.0, 1.0, 0.0, 3.0, 0.0]
    options = ["distance", numbers, 1 / p if root else 1.0, [0, 0], None, "distance", [""], [0.0]]
    return _points_backward(x, y, None, None, options, needs, grad)[:2]


@operator(
    "(Tensor x, Tensor? y, float p, bool root) -> Tensor",
    cores={0: 2, 1: 2},
    shapes=_cdist_shape,
    backward=_cdist_backward,
)
def cdist(x, y, p, root):
    return _core.cdist(*plain(x, y), p, root)


# ---- Kernels ---------------------------------------------------------------------------------


def _kernel_shape(x, y, bandwidth, regularization, *options):
    return x.new_empty(_pair_shape(x, y, bandwidth, regularization), dtype=result_type(x))


def _points_backward(x, y, bandwidth, regularization, options, needs, grad):
    """The gradients of a kernel matrix to x, y, bandwidth and regularization."""
    inputs = {"x": x, "y": y, "bandwidth": bandwidth, "regularization": regularization}
    wrt = [name for name, need in zip(inputs, needs, strict=False) if need]
    if y is None and needs[0]:
        wrt.append("y")
    # Halves are differentiated in the precision of the result.
    wide = [None if t is None else t.to(grad.dtype) for t in (x, y)]
    found = dict(
        zip(wrt, kernel_vjp(*wide, bandwidth, regularization, grad, *options, wrt), strict=True)
    )
    if y is None and needs[0]:
        found["x"] = found["x"] + found.pop("y")
    return [summed(found[n], t) if n in found else None for n, t in inputs.items()]


def _kernel_backward(inputs, outputs, needs, grad):
    x, y, bandwidth, regularization, *options, output = inputs
    if output != "value":
        raise NotImplementedError(f"gram.torch.kernel: output={output!r} has no gradient")
    return _points_backward(x, y, bandwidth, regularization, options, needs, grad)


@operator(
    f"({POINTS}{OPTIONS}, str output) -> Tensor",
    cores={0: 2, 1: 2, 2: 0, 3: 0},
    shapes=_kernel_shape,
    backward=_kernel_backward,
)
def kernel(x, y, bandwidth, regularization, *rest):
    *options, output = rest
    x, y = plain(x, y)
    return _core.kernel(x, y, output=output, **keywords(bandwidth, regularization, options))


# ---- Their gradients -------------------------------------------------------------------------


def _vjp_shape(x, y, bandwidth, regularization, grad, *rest):
    other = x if y is None else y
    numbers = [(bandwidth, 0), (regularization, 0)]
    shape = batch((x, 2), (other, 2), (grad, 2), *numbers)
    own = {"x": x.shape[-2:], "y": other.shape[-2:]}
    return [x.new_empty((*shape, *own.get(name, ()))) for name in rest[-1]]


def _vjp_backward(inputs, outputs, needs, grads):
    *tensors, wrt = inputs
    cotangents = dict(zip(wrt, grads, strict=True))
    return kernel_second(tensors[:5], tensors[5:], cotangents)


@operator(
    f"({POINTS}Tensor grad, {OPTIONS}, str[] wrt) -> Tensor[]",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 2},
    shapes=_vjp_shape,
    backward=_vjp_backward,
    expand=True,
)
def kernel_vjp(x, y, bandwidth, regularization, grad, *rest):
    *options, wrt = rest
    if not wrt:
        return []
    x, y, grad = plain(x, y, grad)
    words = keywords(bandwidth, regularization, options)
    return list(_core.kernel_vjp(x, y, grad=grad, wrt=tuple(wrt), **words))


# ---- The median distance ---------------------------------------------------------------------


@operator(
    "(Tensor x, float p, bool root, int rows, int seed) -> Tensor",
    cores={0: 2},
    shapes=lambda x, p, root, rows, seed: x.new_empty(x.shape[:-2], dtype=result_type(x)),
)
def median_distance(x, p, root, rows, seed):
    return _core.median_distance(x.detach(), p, root=root, rows=rows, seed=seed)
