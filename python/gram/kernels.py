"""Kernels by name that are expressions: the options for gram.kernel and its relatives.

Each function returns a dict of options: gram.kernel(x, y, **gram.kernels.ntk(3)).  gram.kernel_vjp,
gram.kernel_matmul, gram.eigh_kernel, gram.torch.kernel and gram.jax.kernel take the same.

The numbers of periodic_rbf and of a spectral_mixture of one or two components become parameters of
the expression.  So they may be tensors, one value for each item of a batch, and each has a
derivative: gram.kernel(..., output="parameter-derivative", parameter="period"), or the gradients of
gram.torch.kernel and gram.jax.kernel.

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


def _parameter(function, name, value, least=-math.inf):
    """A number, checked, or what is left to gram.kernel to judge: a tensor."""
    if isinstance(value, numbers.Real):
        _number(function, name, value, least)
        return float(value)
    if not hasattr(value, "shape"):
        _number(function, name, value, least)
    return value


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


# The product of the norms, and the cosine of the angle; a zero point has a right angle.
_ANGLE = "n = norm_x * norm_y; c = n > 0 ? s / n : 0; "


def arc_cosine(order=1, *, norms=False):
    """The arc-cosine kernel of an infinite layer of step units (order 0), ReLUs (1) or squared
    ReLUs (2), for points (..., k).

    With the angle t of x and y it is |x|^order |y|^order times (pi - t) / pi, (sin t + (pi - t) cos
    t) / pi or (3 sin t cos t + (pi - t) (1 + 2 cos^2 t)) / pi.  norms=False is faster and takes
    points of norm 1 alone, which are not checked: it has x.y in the place of cos t.  norms=True
    takes any points; a zero point has a right angle to all others, and its norm has the derivative
    0.  Dtypes are the same as gram.kernel takes.  Where points coincide, acos is as
    steep as a square root, so that order 0 is wrong by about sqrt(k eps) there.  Raises ValueError
    for another order.  Source: Cho and Saul, Kernel methods for deep learning, NeurIPS 2009.

    >>> import gram, numpy as np
    >>> x = np.array([[0.6, 0.8], [1.0, 0.0]])
    >>> gram.kernel(x, **gram.kernels.arc_cosine(1)).round(3).tolist()
    [[1.0, 0.678], [0.678, 1.0]]
    >>> gram.kernel(2 * x, **gram.kernels.arc_cosine(1, norms=True)).round(3).tolist()
    [[4.0, 2.71], [2.71, 4.0]]
    """
    _whole("arc_cosine", "order", order, 0, 2)
    text = _PI + _arc_cosine(order, "s")
    if norms:
        text = _PI + _ANGLE + ("", "n * ", "n * n * ")[order] + _arc_cosine(order, "c")
    return {"expression": text, "of": "product"}


def ntk(depth=1, *, norms=False):
    """The neural tangent kernel of a fully connected ReLU network without biases and with 1 to 16
    hidden layers, for points (..., k).

    k_0 = u_0 = cos of the angle of x and y; each layer has u_l = (sin t + (pi - t) cos t) / pi and
    k_l = k_(l-1) (pi - t) / pi + u_l, with t = acos u_(l-1).  The kernel is |x| |y| k_depth.  The
    weights are scaled such that u_l of a point with itself is 1, so that the kernel of a point with
    itself is (depth + 1) |x|^2.  norms=False is faster and takes points of norm 1 alone, which are
    not checked; norms=True takes any points.  Dtypes are the same as gram.kernel takes.  Raises
    ValueError for another depth.  Source: Jacot, Gabriel and Hongler, Neural tangent kernel,
    NeurIPS 2018.

    >>> import gram, numpy as np
    >>> x = np.array([[0.6, 0.8], [1.0, 0.0]])
    >>> gram.kernel(x, **gram.kernels.ntk(1)).round(3).tolist()
    [[2.0, 1.1], [1.1, 2.0]]
    >>> gram.kernel(2 * x, **gram.kernels.ntk(1, norms=True)).round(3).tolist()
    [[8.0, 4.402], [4.402, 8.0]]
    """
    _whole("ntk", "depth", depth, 1, 16)
    text, u = (_PI + _ANGLE, "c") if norms else (_PI, "s")
    k = u
    for layer in range(1, depth + 1):
        text += f"u{layer} = {_arc_cosine(1, u)}; "
        text += f"k{layer} = {k} * {_arc_cosine(0, u)} + u{layer}; "
        u, k = f"u{layer}", f"k{layer}"
    return {"expression": text + ("n * " if norms else "") + k, "of": "product"}


def periodic_rbf(period=1.0, periodic_lengthscale=1.0, lengthscale=1.0):
    """exp(-2 sin^2(pi d / period) / periodic_lengthscale^2) exp(-d^2 / (2 lengthscale^2)) with d =
    |x - y|, for points (..., 1) of one coordinate: periods whose shape changes slowly.

    The three are positive numbers in the unit of x, or tensors of one number for each item of the
    batch, and become parameters of these names.  Dtypes are the same as gram.kernel takes.  Raises
    ValueError for other numbers.  Source: Rasmussen and Williams, Gaussian processes for machine
    learning, 2006, 5.4.3.

    >>> import gram, numpy as np
    >>> x = np.array([[0.0], [0.5], [1.0]])
    >>> gram.kernel(x, **gram.kernels.periodic_rbf(lengthscale=10.0)).round(3)[0].tolist()
    [1.0, 0.135, 0.995]
    """
    given = {
        "period": period,
        "periodic_lengthscale": periodic_lengthscale,
        "lengthscale": lengthscale,
    }
    parameters = {n: _parameter("periodic_rbf", n, v, 0) for n, v in given.items()}
    text = (
        f"w = sin({_PI[5:-2]} * s / period) / periodic_lengthscale; v = s / lengthscale; "
        "exp(-2 * w * w - v * v / 2)"
    )
    return {"expression": text, "parameters": parameters}


def spectral_mixture(weights, means, scales):
    """sum_q weight_q exp(-2 pi^2 scale_q^2 d^2) cos(2 pi mean_q d) with d = |x - y|, for points
    (..., 1) of one coordinate: the kernel whose spectrum is a mixture of Gaussians.

    weights, means (frequencies) and scales (their deviations) are sequences of the same length, at
    most 24; weights and scales are positive.  One or two components have the parameters weight0,
    mean0, scale0, weight1, ..., which may be tensors of one number for each item of the batch.
    More components are written as numbers, without derivatives by them: a larger mixture that is to
    be learned is a sum of kernels of two components each, whose derivatives are those of the sum.
    Dtypes are the same as gram.kernel takes.  Raises ValueError for other numbers or lengths.
    Source: Wilson and Adams, Gaussian process kernels for pattern discovery and extrapolation, ICML
    2013.

    >>> import gram, numpy as np
    >>> x = np.array([[0.0], [0.5]])
    >>> mixture = gram.kernels.spectral_mixture([1.0, 0.5], [1.0, 2.0], [0.1, 0.1])
    >>> gram.kernel(x, **mixture).round(3)[0].tolist()
    [1.5, -0.476]
    """
    weights, means, scales = (list(v) for v in (weights, means, scales))
    if not 1 <= len(weights) <= 24 or not len(weights) == len(means) == len(scales):
        raise ValueError(
            f"gram.kernels.spectral_mixture: {len(weights)} weights, {len(means)} means and "
            f"{len(scales)} scales, expected the same number of each, 1 to 24"
        )
    terms, parameters, check = [], {}, "spectral_mixture"
    for q, (weight, mean, scale) in enumerate(zip(weights, means, scales, strict=True)):
        if len(weights) <= 2:
            w, m, v = f"weight{q}", f"mean{q}", f"scale{q}"
            parameters[w] = _parameter(check, "a weight", weight, 0)
            parameters[m] = _parameter(check, "a mean", mean)
            parameters[v] = _parameter(check, "a scale", scale, 0)
        else:
            w = _number(check, "a weight", weight, 0)
            m = _number(check, "a mean", mean)
            v = _number(check, "a scale", scale, 0)
        terms.append(f"{w} * exp(-z * {v} * {v} / 2) * cos(t * {m})")
    text = f"t = {2 * math.pi!r} * s; z = t * t; " + " + ".join(terms)
    return {"expression": text, "parameters": parameters} if parameters else {"expression": text}
