"""The functions of gram in programs of JAX: jit, grad, vmap.

They are foreign functions of XLA, on the CPU and on CUDA, in any jit, and do not take the
interpreter's lock.  Derivatives are in forward and reverse mode (jax.jvp, jax.grad, jax.hessian).
They are finite where coordinates are equal and where a distance is zero; such coordinates and
points contribute 0.  A function that cannot be differentiated again raises an error.  A matrix that
cannot be factored gives nan, as in jax.numpy.linalg.

>>> import jax, jax.numpy as jnp, gram.jax
>>> x = jnp.array([[0.0], [3.0]])
>>> jax.grad(lambda x: gram.jax.cdist(x).sum())(x).tolist()
[[-2.0], [2.0]]
"""

import functools

try:
    import jax
    import jax.ffi
    import jax.numpy as jnp
except ImportError as e:
    raise ImportError("gram.jax needs JAX 0.6 or newer (pip install jax)") from e

from gram import _jax_agop, _jax_algebra, _jax_derivatives, _jax_points, _jax_reduce
from gram._arrays import eigh_count
from gram._jax_call import matrices, number, result_type
from gram._kernels import is_of_products
from gram._powers import exponent

__all__ = [
    "agop",
    "cdist",
    "cdist_grad",
    "eigh",
    "kernel",
    "kernel_matmul",
    "kernel_reduce",
    "kron_matmul",
    "matrix_power",
    "median_distance",
    "solve_cholesky",
    "solve_lu",
]


def cdist(x, y=None, p=2.0, root=True):
    """Distances out[..., i, j] of x (..., m, k) and y (..., n, k), as gram.cdist.

    p is a number from 0 to infinity, and root=False omits the power 1 / p.  x and y have gradients
    for every p, twice except for infinity.  The dtype is float32 or float64; float16 and bfloat16
    give float32.

    >>> gram.jax.cdist(jnp.zeros((1, 2)), jnp.ones((1, 2)), p=1).item()
    2.0
    """
    x, y = matrices("cdist", x=x, y=y)
    return _jax_points.cdist(float(p), bool(root), x, y)


def _options(kernel, output="value", expression=None, of="distance", parameters=None, **numbers):
    return _jax_derivatives.settled(kernel, expression, of, parameters, output, **numbers)


def _is_of_products(kernel, expression=None, of="distance", **numbers):
    return is_of_products(kernel, expression, of)


def kernel(
    x,
    y=None,
    kernel="laplace",
    *,
    bandwidth=1.0,
    regularization=0.0,
    lengths=None,
    output="value",
    **options,
):
    """The kernel matrix of x (..., m, k) and y (..., n, k), as gram.kernel (see there for options).

    bandwidth and regularization are numbers, or arrays that broadcast over the batch.  lengths
    (..., k) has one positive number per coordinate, by which x and y are divided first; another
    number gives nan.  They, x and y have gradients, twice except for an expression.  The other
    options are numbers that are known when a program is traced.  output="weight" and
    "bandwidth-derivative" have no gradient.

    >>> k = lambda length: gram.jax.kernel(
    ...     jnp.zeros((1, 1)), jnp.ones((1, 1)), "gaussian", bandwidth=length)[0, 0]
    >>> bool(jnp.isclose(jax.grad(k)(2.0), k(2.0) / 8))
    True
    """
    x, y = matrices("kernel", x=x, y=y)
    x, y = _jax_points.divided("kernel", x, y, lengths, _is_of_products(kernel, **options))
    dtype = result_type(x)
    return _jax_points.kernel(
        _options(kernel, output, **options), x, y,
        number(bandwidth, dtype), number(regularization, dtype),
    )  # fmt: skip


def kernel_matmul(
    x,
    y=None,
    kernel="laplace",
    *,
    v,
    bandwidth=1.0,
    regularization=0.0,
    lengths=None,
    **options,
):
    """kernel(x, y) @ v for v (..., n, r) or (n,), without the matrix, as gram.kernel_matmul.

    x, y, v, bandwidth, regularization and lengths have gradients, twice, computed in blocks of
    rows.

    >>> gram.jax.kernel_matmul(jnp.zeros((2, 1)), v=jnp.ones(2)).tolist()
    [2.0, 2.0]
    """
    x, y = matrices("kernel_matmul", x=x, y=y)
    x, y = _jax_points.divided("kernel_matmul", x, y, lengths, _is_of_products(kernel, **options))
    dtype = result_type(x)
    v = number(v, dtype)
    product = _jax_points.kernel_matmul(
        _options(kernel, **options), x, y, number(bandwidth, dtype), number(regularization, dtype),
        v[:, None] if v.ndim == 1 else v,
    )  # fmt: skip
    return product[..., 0] if v.ndim == 1 else product


def kernel_reduce(
    x,
    y=None,
    kernel="laplace",
    *,
    what,
    v=None,
    scale=1.0,
    log_weights=None,
    bandwidth=1.0,
    regularization=0.0,
    lengths=None,
    **options,
):
    """What is made of the rows of kernel(x, y), which is never stored, as gram.kernel_reduce.

    what is "min", "max", "argmin", "argmax", "logsumexp" or "softmax".  The latter two have
    gradients: x, y, v (..., n, r) or (n,), log_weights (..., n), bandwidth, regularization and
    lengths, twice except for an expression, in blocks of rows, each of which makes its part of the
    matrix.  The values of "min" and "max" have none.  Indices are the integers that JAX has, int64
    with jax_enable_x64 and int32 without it.  scale is a number that is known when a program is
    traced.

    >>> x = jnp.array([[0.0], [1.0]])
    >>> gram.jax.kernel_reduce(x, what="argmax").tolist()
    [0, 1]
    """
    x, y = matrices("kernel_reduce", x=x, y=y)
    x, y = _jax_points.divided("kernel_reduce", x, y, lengths, _is_of_products(kernel, **options))
    dtype = result_type(x)
    if v is not None:
        v = number(v, dtype)
    vector = v is not None and v.ndim == 1
    v = v[:, None] if vector else v
    logs = None if log_weights is None else number(log_weights, dtype)
    _jax_reduce.checked(what, x, y, v, logs)
    options = _options(kernel, **options)
    points = x, y, number(bandwidth, dtype), number(regularization, dtype)
    if what in ("argmin", "argmax"):
        return _jax_reduce.places(options, what, *points)
    found = _jax_reduce.kernel_reduce(options, what, float(scale), *points, v, logs)
    return found[..., 0] if vector else found


def median_distance(x, p=2.0, *, root=True, rows=2000, seed=0):
    """The median distance between rows of x, as gram.median_distance, without a gradient.

    >>> gram.jax.median_distance(jnp.array([[0.0], [1.0], [5.0]])).item()
    4.0
    """
    (x,) = matrices("median_distance", x=x)
    return _jax_points.median_distance(x, float(p), bool(root), int(rows), int(seed))


def cdist_grad(a, b, c, d, p=2.0):
    """Gradients of kernel expansions, as gram.cdist_grad.

    a is (..., K, M), b is (..., N, K), c is (..., O, K), d is (..., N, M), and the result is (...,
    O, N, M).  All four have derivatives of any order.

    >>> one = jnp.ones((1, 1))
    >>> gram.jax.cdist_grad(one, 2 * one, 3 * one, 5 * one).item()
    9.0
    """
    return _jax_agop.cdist_grad(float(p), *matrices("cdist_grad", a=a, b=b, c=c, d=d))


def agop(a, b, c, d, p=2.0, *, diagonal=False, points=0):
    """The average outer product of cdist_grad(a, b, c, d, p), as gram.agop.  All four have
    gradients.

    >>> one = jnp.ones((1, 1))
    >>> gram.jax.agop(one, 2 * one, 3 * one, 5 * one).item()
    81.0
    """
    inputs = matrices("agop", a=a, b=b, c=c, d=d)
    return _jax_agop.agop(float(p), bool(diagonal), int(points), *inputs)


def solve_cholesky(a, b, *, lower=True):
    """a^-1 b for symmetric positive definite a (..., n, n), as gram.solve_cholesky.

    b is (..., n, r) or (n,).  Only one triangle of a is read, and its gradient is symmetric.  There
    are derivatives of any order, which use the factor again.  A matrix that cannot be factored
    gives nan.

    >>> gram.jax.solve_cholesky(jnp.array([[4.0]]), jnp.array([2.0])).item()
    0.5
    """
    solve = functools.partial(_jax_algebra.solve_cholesky, bool(lower))
    return _solve("solve_cholesky", solve, a, b)


def solve_lu(a, b):
    """a^-1 b for any square a (..., n, n), as gram.solve_lu; b is (..., n, r) or (n,).

    There are derivatives of any order.  A singular matrix gives nan.

    >>> gram.jax.solve_lu(jnp.array([[0.0, 2.0], [1.0, 0.0]]), jnp.array([4.0, 3.0])).tolist()
    [3.0, 2.0]
    """
    return _solve("solve_lu", _jax_algebra.solve_lu, a, b)


def _solve(function, solve, a, b):
    is_vector = jnp.ndim(b) == 1
    a, b = matrices(function, a=a, b=jnp.asarray(b)[:, None] if is_vector else b)
    x = solve(a, b)
    return x[..., 0] if is_vector else x


def eigh(a, *, lower=True, vectors=True, select="all", first=0, count=None):
    """Eigenvalues, ascending, and eigenvectors of symmetric a (..., n, n), as gram.eigh.

    select is "all", "index", "largest" or "smallest".  The values have gradients, and so have the
    vectors with "all"; the change of a vector within the space of a multiple eigenvalue counts as
    0.  The vectors of a part of the spectrum have no gradients.  The gradient of a is symmetric.
    With "all" there are derivatives of any order.

    >>> values, vectors = gram.jax.eigh(jnp.array([[2.0, 0.0], [0.0, 1.0]]))
    >>> values.tolist()
    [1.0, 2.0]
    """
    if select not in ("all", "index", "largest", "smallest"):
        raise ValueError(
            f"gram.jax.eigh: select is {select!r}, expected 'all', 'index', 'largest' or 'smallest'"
        )
    (a,) = matrices("eigh", a=a)
    count = eigh_count("jax.eigh", select, count)
    found, of_found = _jax_algebra.eigh(bool(lower), select, int(first), int(count), a)
    if not vectors:
        return found
    return found, of_found if select == "all" else jax.lax.stop_gradient(of_found)


def matrix_power(
    a, numerator=-1, denominator=4, *, method="auto", lower=True, ridge=0.0, power=None, floor=0.0
):
    """(a + ridge I)^(numerator / denominator) of symmetric a (..., n, n), as gram.matrix_power.

    power is a number that replaces the fraction.  With floor > 0, eigenvalues below floor times the
    largest, including negative ones, are raised to that value.

    There are gradients, once.  They are computed from the eigenvectors of a with n^3 operations,
    and are symmetric, and exact at multiple eigenvalues.  With a floor they include that of the
    largest eigenvalue, which equal ones share.

    >>> gram.jax.matrix_power(jnp.array([[16.0]])).item()
    0.5
    """
    (a,) = matrices("matrix_power", a=a)
    numerator, denominator, power = exponent(
        "gram.jax.matrix_power", numerator, denominator, power, floor
    )
    if power is not None or floor != 0:
        return _jax_algebra.matrix_real_power(
            power or 0.0, float(floor), method, bool(lower), float(ridge), a
        )
    return _jax_algebra.matrix_power(
        int(numerator), int(denominator), method, bool(lower), float(ridge), a
    )


def kron_matmul(x, factors, *, side="right", alpha=1.0):
    """alpha x (f_1 (x) ... (x) f_N), as gram.kron_matmul; with side="left" the factors are on the
    left.

    x and every factor have derivatives of any order.

    >>> gram.jax.kron_matmul(jnp.ones((1, 4)), [jnp.eye(2), 3 * jnp.eye(2)]).tolist()
    [[3.0, 3.0, 3.0, 3.0]]
    """
    if side not in ("right", "left"):
        raise ValueError(f"gram.jax.kron_matmul: side is {side!r}, expected 'right' or 'left'")
    named = {f"factors[{i}]": f for i, f in enumerate(factors)}
    x, *factors = matrices("kron_matmul", x=x, **named)
    return _jax_algebra.kron_matmul(side, float(alpha), x, factors)
