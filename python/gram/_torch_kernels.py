"""The operators of PyTorch on pairs of points: distances, kernels, their products and gradients."""

import torch

from gram import _core, _torch_numbers
from gram._kernels import FAR_AWAY, had, is_of_products
from gram._torch_register import batch, operator, plain, summed
from gram._torch_second import kernel_second

# A kernel's options as the operators have them: its name; bandwidth, p, exponent, alpha, gamma,
# coef0, degree, regularization; outer_power or none; row and column offset; an expression, what
# it is of, and its parameters after a first one that is nothing (PyTorch takes an empty list for
# one of tensors); after a first one that is nothing the names of the numbers that are tensors,
# which are the operators' hypers: "parameter a" is that of an expression.
OPTIONS = (
    "str kernel, float[] numbers, float? outer_power, int[] offsets, str? expression, str of, "
    "str[] names, float[] values, str[] given"
)
POINTS = "Tensor x, Tensor? y, Tensor? bandwidth, Tensor? regularization, Tensor[] hypers, "
_NUMBERS = ("bandwidth", "p", "exponent", "alpha", "gamma", "coef0", "degree", "regularization")


def keywords(bandwidth, regularization, hypers, options):
    """The arguments of gram.kernel that options stand for."""
    kernel, numbers, outer_power, offsets, expression, of, names, values, given = options
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
    for name, tensor in zip(given[1:], hypers, strict=True):
        if name.startswith("parameter "):
            words["parameters"][name[10:]] = tensor.detach()
        else:
            words[name] = tensor.detach()
    return words


def result_type(x):
    """The dtype of a result: halves give single precision."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def quotients(x, y, lengths, product):
    """x and y divided by lengths (..., 1, k), with gradients; y may be None.  Unless the kernel is
    one of products, both are counted from the first row of y, as gram_kernel does it, so that
    points far from the origin keep their digits.  Lengths that are not positive and finite give
    nan."""
    dtype = result_type(x)
    good = (lengths > 0) & (lengths < float("inf"))
    lengths = torch.where(good, lengths, float("nan")).to(dtype)
    x, y = (None if t is None else t.to(dtype) for t in (x, y))
    of = x if y is None else y
    if not product and of.shape[-2] > 0:
        first = of[..., :1, :].detach()
        first = torch.where(first.abs() <= FAR_AWAY, first, 0.0)
        x, y = x - first, None if y is None else y - first
    return x / lengths, None if y is None else y / lengths


def divided(function, x, y, lengths, options):
    """The points of gram.torch.<function>, divided by its lengths if there are any."""
    if lengths is None:
        return x, y
    if not isinstance(lengths, torch.Tensor) or lengths.shape[-1:] != x.shape[-1:]:
        got = getattr(lengths, "shape", None)
        got = type(lengths).__name__ if got is None else f"of shape {tuple(got)}"
        raise ValueError(
            f"gram.torch.{function}: lengths is {got}, expected a tensor (..., {x.shape[-1]})"
        )
    kernel = options.get("kernel", "laplace")
    product = is_of_products(kernel, options.get("expression"), options.get("of"))
    return quotients(x, y, lengths[..., None, :], product)


def _pair_shape(x, y, *numbers):
    y = x if y is None else y
    shape = batch((x, 2), (y, 2), *[(n, 0) for n in numbers])
    return (*shape, x.shape[-2], y.shape[-2])


# ---- Distances -------------------------------------------------------------------------------


def _cdist_shape(x, y, power, p, root):
    return x.new_empty(_pair_shape(x, y, power), dtype=result_type(x))


def _cdist_backward(inputs, outputs, needs, grad):
    x, y, power, p, root = inputs
    if power is None and p == 0:
        return [torch.zeros_like(x), None if y is None else torch.zeros_like(y)]
    numbers = [1.0, p, 1.0, 1.0, 1.0, 0.0, 3.0, 0.0]
    given = [""] if power is None else ["", "p"]
    outer = None if root else 1.0
    options = ["distance", numbers, outer, [0, 0], None, "distance", [""], [0.0], given]
    hypers = [] if power is None else [power]
    needs = [*needs[:2], False, False, [needs[2]] * len(hypers)]
    *found, of_hypers = _points_backward(x, y, None, None, hypers, options, needs, grad)
    return [*found[:2], *of_hypers]


@operator(
    "(Tensor x, Tensor? y, Tensor? power, float p, bool root) -> Tensor",
    cores={0: 2, 1: 2, 2: 0},
    shapes=_cdist_shape,
    backward=_cdist_backward,
)
def cdist(x, y, power, p, root):
    """power: p as a tensor, in the place of the number."""
    return _core.cdist(*plain(x, y), p if power is None else power.detach(), root)


# ---- Kernels ---------------------------------------------------------------------------------


def _kernel_shape(x, y, bandwidth, regularization, hypers, *options):
    shape = _pair_shape(x, y, bandwidth, regularization, *hypers)
    return x.new_empty(shape, dtype=result_type(x))


def _points_backward(x, y, bandwidth, regularization, hypers, options, needs, grad):
    """The gradients of a kernel matrix to x, y, bandwidth, regularization and hypers."""
    inputs = {"x": x, "y": y, "bandwidth": bandwidth, "regularization": regularization}
    wrt = [name for name, need in zip(inputs, needs[:4], strict=True) if need]
    if y is None and needs[0]:
        wrt.append("y")
    # Halves are differentiated in the precision of the result.
    wide = [None if t is None else t.to(grad.dtype) for t in (x, y)]
    found = dict(
        zip(
            wrt,
            kernel_vjp(*wide, bandwidth, regularization, hypers, grad, *options, wrt),
            strict=True,
        )
    )
    if y is None and needs[0]:
        found["x"] = found["x"] + found.pop("y")
    of_hypers = [None] * len(hypers)
    asked = [i for i, need in enumerate(needs[4]) if need]
    if asked:
        names = [options[-1][i + 1] for i in asked]
        args = (*wide, bandwidth, regularization, hypers, grad, *options, names)
        for i, g in zip(asked, kernel_number_vjp(*args), strict=True):
            of_hypers[i] = summed(g, hypers[i])
    return [*[summed(found[n], t) if n in found else None for n, t in inputs.items()], of_hypers]


def _kernel_backward(inputs, outputs, needs, grad):
    x, y, bandwidth, regularization, hypers, *options, output = inputs
    if output != "value":
        raise NotImplementedError(f"gram.torch.kernel: output={output!r} has no gradient")
    return _points_backward(x, y, bandwidth, regularization, hypers, options, needs, grad)


@operator(
    f"({POINTS}{OPTIONS}, str output) -> Tensor",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 0},
    shapes=_kernel_shape,
    backward=_kernel_backward,
)
def kernel(x, y, bandwidth, regularization, hypers, *rest):
    *options, output = rest
    x, y = plain(x, y)
    words = keywords(bandwidth, regularization, hypers, options)
    return _core.kernel(x, y, output=output, **had(words))


# ---- Their gradients -------------------------------------------------------------------------


def _vjp_shape(x, y, bandwidth, regularization, hypers, grad, *rest):
    other = x if y is None else y
    numbers = [(n, 0) for n in (bandwidth, regularization, *hypers)]
    shape = batch((x, 2), (other, 2), (grad, 2), *numbers)
    own = {"x": x.shape[-2:], "y": other.shape[-2:]}
    return [x.new_empty((*shape, *own.get(name, ()))) for name in rest[-1]]


def _vjp_backward(inputs, outputs, needs, grads):
    x, y, bandwidth, regularization, hypers, grad, *options, wrt = inputs
    _torch_numbers.refuse_second(needs[4], options[-1][1:])
    cotangents = dict(zip(wrt, grads, strict=True))
    options = _torch_numbers.settled(hypers, options)
    found = kernel_second((x, y, bandwidth, regularization, grad), options, cotangents)
    return [*found[:4], None, *found[4:]] if found else []


@operator(
    f"({POINTS}Tensor grad, {OPTIONS}, str[] wrt) -> Tensor[]",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 0, 5: 2},
    shapes=_vjp_shape,
    backward=_vjp_backward,
    expand=True,
)
def kernel_vjp(x, y, bandwidth, regularization, hypers, grad, *rest):
    *options, wrt = rest
    if not wrt:
        return []
    x, y, grad = plain(x, y, grad)
    words = keywords(bandwidth, regularization, hypers, options)
    return list(_core.kernel_vjp(x, y, grad=grad, wrt=tuple(wrt), **had(words)))


def number_vjp_backward(inputs, outputs, needs, grads):
    raise NotImplementedError(
        f"gram.torch: the gradient by {', '.join(inputs[-1])} cannot be differentiated again"
    )


@operator(
    f"({POINTS}Tensor grad, {OPTIONS}, str[] wrt) -> Tensor[]",
    cores={0: 2, 1: 2, 2: 0, 3: 0, 4: 0, 5: 2},
    shapes=_vjp_shape,
    backward=number_vjp_backward,
    expand=True,
)
def kernel_number_vjp(x, y, bandwidth, regularization, hypers, grad, *rest):
    """The gradients to the numbers that wrt names as OPTIONS does."""
    *options, wrt = rest
    like = _vjp_shape(x, y, bandwidth, regularization, hypers, grad, *rest)
    x, y, grad = plain(x, y, grad)
    words = keywords(bandwidth, regularization, hypers, options)
    found = _torch_numbers.vjp(x, x if y is None else y, grad, words, wrt)
    return [t.new_zeros(t.shape) + g for g, t in zip(found, like, strict=True)]


# ---- The median distance ---------------------------------------------------------------------


@operator(
    "(Tensor x, float p, bool root, int rows, int seed) -> Tensor",
    cores={0: 2},
    shapes=lambda x, p, root, rows, seed: x.new_empty(x.shape[:-2], dtype=result_type(x)),
)
def median_distance(x, p, root, rows, seed):
    return _core.median_distance(x.detach(), p, root=root, rows=rows, seed=seed)
