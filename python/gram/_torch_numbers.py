"""Numbers of kernels that are tensors, and their gradients.

With D = sum_k |x_k - y_k|^p and w the weight of gram.kernel, a kernel k of a distance has
dk/dD = w / p, hence, c being the outer power,
    dk/dc = w / p  D log(D) / c,
    dk/dp = w / p  (sum_k |x_k - y_k|^p log |x_k - y_k| - [c is 1 / p] D log(D) / p).
The library differentiates the other numbers as parameters of an expression.
"""

import re

import torch

from gram import _core
from gram._kernels import had

_BLOCK = 1 << 22  # elements of the matrices that a block of rows makes

# A kernel that has numbers of its own as an expression: what s is, and the expression.
_FORMS = {
    "lpq-laplace": ("distance", "exp(-pow(s / l, exponent))"),
    "product-laplace": ("distance", "exp(-pow(s / l, exponent))"),
    "rational-quadratic": ("sum", "pow(1 + s / (2 * alpha * l * l), -alpha)"),
    "polynomial": ("product", "pow(gamma * s + coef0, degree)"),
    "sigmoid": ("product", "tanh(gamma * s + coef0)"),
}
_OF_PRODUCT = ("linear", "polynomial", "sigmoid", "cosine")


# ---- Arguments -------------------------------------------------------------------------------


def split(value, instead):
    """(the number, None), or of a tensor or an array (instead, the tensor)."""
    if not isinstance(value, torch.Tensor):
        if not hasattr(value, "__array__") or getattr(value, "ndim", 0) == 0:
            return float(value), None
        value = torch.as_tensor(value)
    if value.dtype not in (torch.float32, torch.float64):
        value = value.to(torch.float32 if value.is_floating_point() else torch.float64)
    return instead, value


def one(p):
    """A power as the operators take it: a tensor or None, and a number."""
    number, tensor = split(p, 2.0)
    return tensor, number


def constant(function, name, value):
    """A number that has no gradient, where one is asked for."""
    if isinstance(value, torch.Tensor) and value.requires_grad:
        raise NotImplementedError(
            f"gram.torch.{function}: {name} requires a gradient, but none is computed for it; "
            f"pass {name}.detach()"
        )
    return float(value)


def column(number):
    """A number of every item, to multiply matrices with."""
    return number[..., None, None] if isinstance(number, torch.Tensor) else number


def times(number, matrix):
    """A number, or one per item, times a matrix; beta = 0 reads nothing."""
    if isinstance(number, torch.Tensor):
        return column(number.to(matrix)) * matrix
    if number == 0:
        return torch.zeros_like(matrix)
    return matrix if number == 1 else number * matrix


def refuse_second(needs, names):
    """Raises where a second derivative by one of these numbers is asked for."""
    for need, name in zip(needs, names, strict=True):
        if need:
            raise NotImplementedError(
                f"gram.torch: {name} requires a gradient, but has no second derivative; "
                "detach() it where gradients are differentiated"
            )


def settled(hypers, options):
    """Options with the tensors of one element as numbers, for formulas of numbers alone."""
    kernel, numbers, outer_power, offsets, expression, of, names, values, given = options
    numbers, order = list(numbers), ("", "p", "exponent", "alpha", "gamma", "coef0", "degree")
    for name, tensor in zip(given[1:], hypers, strict=True):
        if tensor.numel() != 1:
            raise NotImplementedError(
                f"gram.torch: {name} is an array, for which there is no second derivative"
            )
        if name == "outer_power":
            outer_power = tensor.item()
        elif name in order:
            numbers[order.index(name)] = tensor.item()
    return [kernel, numbers, outer_power, offsets, expression, of, names, values, [""]]


# ---- Slopes ----------------------------------------------------------------------------------


def vjp(x, y, grad, words, wrt):
    """Of each number in wrt the sum of grad times the kernel's slope by it, one of every item.
    words are the arguments of gram.kernel."""
    rows = max(1, _BLOCK // max(1, y.shape[-2] * _items(x, y, grad, words)))
    totals = [torch.zeros((), dtype=torch.float64, device=x.device)] * len(wrt)
    for begin in range(0, x.shape[-2], rows):
        part = slice(begin, begin + rows)
        for i, name in enumerate(wrt):
            slopes = grad[..., part, :] * _slopes(x[..., part, :], y, words, name)
            totals[i] = totals[i] + slopes.sum((-2, -1), dtype=torch.float64)
    return totals


def _items(x, y, grad, words):
    numbers = [*words.values(), *words.get("parameters", {}).values()]
    shapes = [n.shape for n in numbers if isinstance(n, torch.Tensor)]
    return torch.broadcast_shapes(*[t.shape[:-2] for t in (x, y, grad)], *shapes).numel()


def product_vjp(x, y, grad, v, words, wrt):
    """The same of the product of the kernel matrix and v, whose cotangent is grad v^T: where the
    slopes are a kernel too, by their product with v, which stores no matrix."""
    totals = []
    for name in wrt:
        slopes = _slope_words(words, name)
        if slopes is None:
            totals += _blocks_vjp(x, y, grad, v, words, name)
        elif slopes:
            product = grad * _core.kernel_matmul(x, y, v=v, **slopes)
            totals.append(product.sum((-2, -1), dtype=torch.float64))
        else:
            totals.append(torch.zeros((), dtype=torch.float64, device=x.device))
    return totals


def _blocks_vjp(x, y, grad, v, words, name):
    """[That of one number], in blocks of rows of x, whose cotangents are stored."""
    shape = torch.broadcast_shapes(*[t.shape[:-2] for t in (x, y, grad, v)])
    rows = max(1, _BLOCK // max(1, y.shape[-2] * shape.numel()))
    total = 0
    for begin in range(0, x.shape[-2], rows):
        part = slice(begin, begin + rows)
        (found,) = vjp(x[..., part, :], y, grad[..., part, :] @ v.mT, words, [name])
        total = total + found
    return [total + torch.zeros((), dtype=torch.float64, device=x.device)]


def _slope_words(words, name):
    """The arguments of gram.kernel that give d k / d name; {} if it is 0, None without such."""
    if name.startswith("parameter "):
        return had(words | {"output": "parameter-derivative", "parameter": name[10:]})
    if "expression" in words:
        kernel, product = None, words["of"] == "product"
    else:
        kernel = words["kernel"].replace("_", "-")
        product = kernel in _OF_PRODUCT
    if name in ("p", "outer_power"):
        return {} if product or (name == "p" and kernel == "product-laplace") else None
    of, expression = _FORMS.get(kernel, ("", ""))
    if name not in re.findall(r"\w+", expression):
        return {}
    if kernel == "product-laplace":  # p is the exponent too
        return None
    return _form_words(words, name, of, expression, words["p"])


def _form_words(words, name, of, expression, p):
    numbers = {"l": words["bandwidth"]} | words
    return had({"expression": expression, "of": of, "p": p}) | {
        "parameters": {n: numbers[n] for n in re.findall(r"\w+", expression) if n in numbers},
        "output": "parameter-derivative",
        "parameter": name,
        **({"outer_power": words["outer_power"]} if "outer_power" in words else {}),
    }


def _slopes(x, y, words, name):
    """d k / d name, a matrix, or 0."""
    slopes = _slope_words(words, name)
    if slopes is not None:
        return _core.kernel(x, y, **slopes) if slopes else torch.zeros_like(x[..., :1])
    kernel = None if "expression" in words else words["kernel"].replace("_", "-")
    if name in ("p", "outer_power"):
        return _by_power(x, y, words, kernel, name)
    slopes = _core.kernel(x, y, **_form_words(words, name, *_FORMS[kernel], words["exponent"]))
    return slopes + _by_power(x, y, words, kernel, "p")


def _by_power(x, y, words, kernel, name):
    p = words["exponent"] if kernel == "product-laplace" else words["p"]
    p = column(p.to(x) if isinstance(p, torch.Tensor) else p)
    weight = _core.kernel(x, y, **had(words), output="weight") / p
    whole, by_p = 0, 0
    for k in range(x.shape[-1]):
        size = (x[..., :, None, k] - y[..., None, :, k]).abs()
        power = size**p
        whole = whole + power
        by_p = by_p + torch.xlogy(power, size)
    whole = whole + torch.zeros_like(weight)
    logarithm = torch.xlogy(whole, whole)
    if name == "outer_power":
        outer = words["outer_power"]
        outer = outer.to(x) if isinstance(outer, torch.Tensor) else outer
        return weight * logarithm / column(outer)
    is_root = kernel not in ("gaussian", "rational-quadratic") and words.get("of") != "sum"
    if is_root and "outer_power" not in words:
        by_p = by_p - logarithm / p
    return weight * by_p
