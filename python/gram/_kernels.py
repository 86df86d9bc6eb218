"""Which numbers a kernel has: gram.torch and gram.jax take the same ones for every kernel."""

from gram import _core

_NUMBERS = {"bandwidth", "p", "exponent", "alpha", "gamma", "coef0", "degree"}


def had(words):
    """The arguments of gram.kernel without the numbers that the kernel does not have, which
    gram.kernel refuses."""
    if words.get("expression") is None:
        takes = _core.kernel_takes(words.get("kernel", "laplace"))
    else:
        takes = () if words.get("of") == "product" else ("p",)
    return {name: value for name, value in words.items() if name in takes or name not in _NUMBERS}
