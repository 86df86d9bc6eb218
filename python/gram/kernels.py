"""Kernels by name that are expressions: the options for gram.kernel and its relatives.

Each function returns a dict of options: gram.kernel(x, y, **gram.kernels.ntk(3)).  gram.kernel_vjp,
gram.kernel_matmul, gram.eigh_kernel, gram.torch.kernel and gram.jax.kernel take the same.

>>> import gram, numpy as np
>>> gram.kernel(np.eye(2), **gram.kernels.arc_cosine(0)).tolist()
[[1.0, 0.5], [0.5, 1.0]]
"""

import math
import numbers
import sys

__all__ = ["arc_cosine", "ntk", "periodic_rbf", "spectral_mixture"]

_PI = f"pi = {math.pi!r}; "


def _number(function, name, value, least=-math.inf):
    """A finite number above least, as it stands in an expression."""
    if not (isinstance(value, numbers.Real) and least < value <= sys.float_info.max):
        expected = "a finite number" + (f" above {least}" if math.isfinite(least) else "")
        raise ValueError(f"gram.kernels.{function}: {name} is {value!r}, expected {expected}")
    return f"({float(value)!r})"


def _whole(function, name, value, least, most):
    if not (isinstance(value, numbers.Integral) and least <= value <= most):
        raise ValueError(
            f"gram.kernels.{function}: {name} is {value!r}, expected a whole number from {least} "
            f"to {most}"
        )


def _arc_cosine(order, s):
    """The kernel of a product s of points of norm 1, which rounding may take beyond 1.  A formula
    of acos(s) has no derivative at 1 although orders 1 and 2 have one: from there on the kernel is
    its tangent."""
    root, rest = f"sqrt((1 - {s}) * (1 + {s}))", f"(pi - acos({s}))"
    formula, tangent = (
        (f"{rest}", "1"),
        (f"({root} + {rest} * {s})", s),
        (f"(3 * {root} * {s} + {rest} * (1 + 2 * {s} * {s}))", f"4 * {s} - 1"),
    )[order]
    return f"({s} < 1 ? ({s} > -1 ? {formula} / pi : 0) : {tangent})"


def arc_cosine(order=1):
    """The arc-cosine kernel of an infinite layer of step units (order 0), ReLUs (1) or squared
    ReLUs (2), for points (..., k) of norm 1.

    With the angle t of x and y it is (pi - t) / pi, (sin t + (pi - t) cos t) / pi or (3 sin t cos t
    + (pi - t) (1 + 2 cos^2 t)) / pi.  The kernel of other points is that of x / |x| and y / |y|,
    times |x|^order |y|^order.  Dtypes are the same as gram.kernel takes.  Raises ValueError for
    another order.  Source: Cho and Saul, Kernel methods for deep learning, NeurIPS 2009.

    >>> import gram, numpy as np
    >>> x = np.array([[0.6, 0.8], [1.0, 0.0]])
    >>> gram.kernel(x, **gram.kernels.arc_cosine(1)).round(3).tolist()
    [[1.0, 0.678], [0.678, 1.0]]
    """
    _whole("arc_cosine", "order", order, 0, 2)
    return {"expression": _PI + _arc_cosine(order, "s"), "of": "product"}


def ntk(depth=1):
    """The neural tangent kernel of a fully connected ReLU network without biases and with 1 to 10
    hidden layers, for points (..., k) of norm 1.

    k_0 = u_0 = x.y; each layer has u_l = (sin t + (pi - t) cos t) / pi and k_l = k_(l-1) (pi - t) /
    pi + u_l, with t = acos u_(l-1).  The weights are scaled such that u_l of a point with itself is
    1, so that k of a point with itself is depth + 1.  The kernel of other points is that of x / |x|
    and y / |y|, times |x| |y|.  Dtypes are the same as gram.kernel takes.  Gradients need too many
    intermediate values beyond 3 layers, and raise NotImplementedError there.  Raises ValueError for
    another depth.  Source: Jacot, Gabriel and Hongler, Neural tangent kernel, NeurIPS 2018.

    >>> import gram, numpy as np
    >>> x = np.array([[0.6, 0.8], [1.0, 0.0]])
    >>> gram.kernel(x, **gram.kernels.ntk(1)).round(3).tolist()
    [[2.0, 1.1], [1.1, 2.0]]
    """
    _whole("ntk", "depth", depth, 1, 10)
    text, u, k = _PI, "s", "s"
    for layer in range(1, depth + 1):
        text += f"u{layer} = {_arc_cosine(1, u)}; "
        text += f"k{layer} = {k} * {_arc_cosine(0, u)} + u{layer}; "
        u, k = f"u{layer}", f"k{layer}"
    return {"expression": text + k, "of": "product"}


def periodic_rbf(period=1.0, periodic_lengthscale=1.0, lengthscale=1.0):
    """exp(-2 sin^2(pi d / period) / periodic_lengthscale^2) exp(-d^2 / (2 lengthscale^2)) with d =
    |x - y|, for points (..., 1) of one coordinate: periods whose shape changes slowly.

    The three are positive numbers in the unit of x.  Dtypes are the same as gram.kernel takes.
    Raises ValueError for other numbers.  Source: Rasmussen and Williams, Gaussian processes for
    machine learning, 2006, 5.4.3.

    >>> import gram, numpy as np
    >>> x = np.array([[0.0], [0.5], [1.0]])
    >>> gram.kernel(x, **gram.kernels.periodic_rbf(lengthscale=10.0)).round(3)[0].tolist()
    [1.0, 0.135, 0.995]
    """
    names = ("period", "periodic_lengthscale", "lengthscale")
    values = (period, periodic_lengthscale, lengthscale)
    p, a, b = (_number("periodic_rbf", n, v, 0) for n, v in zip(names, values, strict=True))
    text = f"w = sin({_PI[5:-2]} * s / {p}) / {a}; v = s / {b}; exp(-2 * w * w - v * v / 2)"
    return {"expression": text}


def spectral_mixture(weights, means, scales):
    """sum_q weight_q exp(-2 pi^2 scale_q^2 d^2) cos(2 pi mean_q d) with d = |x - y|, for points
    (..., 1) of one coordinate: the kernel whose spectrum is a mixture of Gaussians.

    weights, means (frequencies) and scales (their deviations) are sequences of the same length, at
    most 16; weights and scales are positive.  Dtypes are the same as gram.kernel takes.  Raises
    ValueError for other numbers or lengths.  Gradients need too many intermediate values beyond 7
    components, and raise NotImplementedError there.  Source: Wilson and Adams, Gaussian process
    kernels for pattern discovery and extrapolation, ICML 2013.

    >>> import gram, numpy as np
    >>> x = np.array([[0.0], [0.5]])
    >>> mixture = gram.kernels.spectral_mixture([1.0, 0.5], [1.0, 2.0], [0.1, 0.1])
    >>> gram.kernel(x, **mixture).round(3)[0].tolist()
    [1.5, -0.476]
    """
    weights, means, scales = (list(v) for v in (weights, means, scales))
    if not 1 <= len(weights) <= 16 or not len(weights) == len(means) == len(scales):
        raise ValueError(
            f"gram.kernels.spectral_mixture: {len(weights)} weights, {len(means)} means and "
            f"{len(scales)} scales, expected the same number of each, 1 to 16"
        )
    terms = []
    for weight, mean, scale in zip(weights, means, scales, strict=True):
        w = _number("spectral_mixture", "a weight", weight, 0)
        m = _number("spectral_mixture", "a mean", mean)
        v = _number("spectral_mixture", "a scale", scale, 0)
        terms.append(f"{w} * exp(-z * {v} * {v} / 2) * cos(t * {m})")
    text = f"t = {2 * math.pi!r} * s; z = t * t; " + " + ".join(terms)
    return {"expression": text}
