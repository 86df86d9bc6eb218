"""Which numbers a kernel has: gram.torch and gram.jax take the same ones for every kernel."""

import re

from gram import _core

_NUMBERS = {"bandwidth", "p", "exponent", "alpha", "gamma", "coef0", "degree"}
_OF_PRODUCTS = {"linear", "polynomial", "sigmoid", "cosine"}

# Coordinates beyond this are not moved to the origin: see gram_kernel on lengths.
FAR_AWAY = 1e30


def is_of_products(kernel, expression, of):
    """Whether a kernel is a function of x.y or of norms, and not of differences alone."""
    if expression is None:
        return kernel in _OF_PRODUCTS
    return of == "product" or re.search(r"\b(dot|norm_x|norm_y)\b", expression) is not None


def had(words):
    """The arguments of gram.kernel without the numbers that the kernel does not have, which
    gram.kernel refuses."""
    if words.get("expression") is None:
        takes = _core.kernel_takes(words.get("kernel", "laplace"))
    else:
        takes = () if words.get("of") == "product" else ("p",)
    return {name: value for name, value in words.items() if name in takes or name not in _NUMBERS}
