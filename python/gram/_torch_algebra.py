"""The operators of PyTorch on matrices: solves, eigenproblems, powers, Kronecker products."""

import torch

from gram import _core
from gram._powers import difference, real_slopes, second_slopes
from gram._torch_register import batch, operator, plain, summed


def _solution_shape(a, b):
    return a.new_empty((*batch((a, 2), (b, 2)), *b.shape[-2:]))


# ---- Solves ----------------------------------------------------------------------------------


def _cholesky_backward(inputs, outputs, needs, grad, _):
    a, b, lower = inputs
    x, factor = outputs
    return _symmetric_solve_backward(a, b, x, factor, lower, needs, grad)


def _symmetric_solve_backward(a, b, x, factor, lower, needs, grad):
    of_b = solve_factored(a, factor, grad, lower)
    of_a = None
    if needs[0]:
        of_a = -(of_b @ x.mT)
        of_a = summed((of_a + of_a.mT) / 2, a)
    return [of_a, summed(of_b, b)]


@operator(
    "(Tensor a, Tensor b, bool lower) -> (Tensor, Tensor)",
    cores={0: 2, 1: 2},
    shapes=lambda a, b, lower: (_solution_shape(a, b), a.new_empty(a.shape)),
    backward=_cholesky_backward,
    own={1: 0},
)
def solve_cholesky(a, b, lower):
    """The solution and the factor."""
    a, b = plain(a, b)
    factor = torch.zeros(a.shape, dtype=a.dtype, device=a.device)  # one triangle is written
    return _core.solve_cholesky(a, b, lower=lower, factor=factor), factor


def _factored_backward(inputs, outputs, needs, grad):
    a, factor, b, lower = inputs
    of_a, of_b = _symmetric_solve_backward(a, b, outputs, factor, lower, needs, grad)
    return [of_a, None, of_b]


@operator(
    "(Tensor a, Tensor factor, Tensor b, bool lower) -> Tensor",
    cores={0: 2, 1: 2, 2: 2},
    shapes=lambda a, factor, b, lower: _solution_shape(factor, b),
    backward=_factored_backward,
)
def solve_factored(a, factor, b, lower):
    """Of the matrix a that has this factor."""
    factor, b = plain(factor, b)
    return _core.solve_cholesky(factor, b, lower=lower, factored=True)


def _lu_backward(inputs, outputs, needs, grad):
    a, b = inputs
    of_b = solve_lu(a.mT, grad)
    of_a = summed(-(of_b @ outputs.mT), a) if needs[0] else None
    return [of_a, summed(of_b, b)]


@operator(
    "(Tensor a, Tensor b) -> Tensor",
    cores={0: 2, 1: 2},
    shapes=_solution_shape,
    backward=_lu_backward,
)
def solve_lu(a, b):
    return _core.solve_lu(*plain(a, b))


# ---- Eigenproblems and powers ----------------------------------------------------------------


def _eigh_shape(a, lower, select, first, count):
    n = a.shape[-1]
    k = n if select == "all" else count
    return a.new_empty((*a.shape[:-2], k)), a.new_empty((*a.shape[:-2], n, k))


def _eigh_backward(inputs, outputs, needs, of_values, of_vectors):
    values, vectors = outputs
    if inputs[2] != "all":
        return [eigh_part_vjp(vectors, of_values)]
    gap = values[..., None, :] - values[..., :, None]
    # What an eigenvector does inside of the space of a multiple value is not differentiable: 0.
    tie = gap == 0
    turn = torch.where(tie, 0, vectors.mT @ of_vectors / torch.where(tie, 1, gap))
    of_a = vectors @ (torch.diag_embed(of_values) + turn) @ vectors.mT
    return [(of_a + of_a.mT) / 2]


@operator(
    "(Tensor vectors, Tensor of_values) -> Tensor",
    cores={0: 2, 1: 1},
    shapes=lambda vectors, of_values: vectors.new_empty(
        (*batch((vectors, 2), (of_values, 1)), vectors.shape[-2], vectors.shape[-2])
    ),
)
def eigh_part_vjp(vectors, of_values):
    """Of the values of a part: not differentiable again, which would take the other vectors."""
    return vectors * of_values[..., None, :] @ vectors.mT


@operator(
    "(Tensor a, bool lower, str select, int first, int count) -> (Tensor, Tensor)",
    cores={0: 2},
    shapes=_eigh_shape,
    backward=_eigh_backward,
)
def eigh(a, lower, select, first, count):
    words = {} if select == "all" else {"count": count}
    return _core.eigh(a.detach(), lower=lower, select=select, first=first, **words)


def _power_backward(inputs, outputs, needs, grad):
    a, numerator, denominator, method, lower, ridge = inputs
    return [matrix_power_vjp(a, grad, numerator, denominator, lower, ridge)]


@operator(
    "(Tensor a, int numerator, int denominator, str method, bool lower, float ridge) -> Tensor",
    cores={0: 2},
    shapes=lambda a, *rest: a.new_empty(a.shape),
    backward=_power_backward,
)
def matrix_power(a, numerator, denominator, method, lower, ridge):
    return _core.matrix_power(
        a.detach(), numerator, denominator, method=method, lower=lower, ridge=ridge
    )


def _power_second(inputs, outputs, needs, u):
    a, grad, *rest = inputs
    of_a = of_grad = None
    if needs[0]:
        of_a = summed(matrix_power_second(a, grad, u, *rest), a)
    if needs[1]:
        of_grad = summed(matrix_power_vjp(a, u, *rest), grad)
    return [of_a, of_grad]


@operator(
    "(Tensor a, Tensor grad, int numerator, int denominator, bool lower, float ridge) -> Tensor",
    cores={0: 2, 1: 2},
    shapes=lambda a, grad, *rest: a.new_empty((*batch((a, 2), (grad, 2)), *a.shape[-2:])),
    backward=_power_second,
)
def matrix_power_vjp(a, grad, numerator, denominator, lower, ridge):
    """Daleckii and Krein: in the basis of the eigenvectors grad times divided differences of the
    power, which are those of the numerator over those of the denominator at the roots."""
    a, grad = plain(a, grad)
    roots, vectors = _roots(a, denominator, lower, ridge)
    rows, columns = roots[..., :, None], roots[..., None, :]
    slopes = difference(rows, columns, numerator) / difference(rows, columns, denominator)
    return vectors @ (_turned(vectors, grad) * slopes) @ vectors.mT


def _roots(a, denominator, lower, ridge):
    values, vectors = _core.eigh(a, lower=lower)
    return (values + ridge).clamp(min=0) ** (1 / denominator), vectors


def _turned(vectors, grad):
    """The symmetric part, in the basis of the eigenvectors."""
    return vectors.mT @ ((grad + grad.mT) / 2) @ vectors


_BLOCK = 1 << 22  # elements of the divided differences of a block


@operator(
    "(Tensor a, Tensor grad, Tensor u, int numerator, int denominator, bool lower, float ridge)"
    " -> Tensor",
    cores={0: 2, 1: 2, 2: 2},
    shapes=lambda a, grad, u, *rest: a.new_empty(
        (*batch((a, 2), (grad, 2), (u, 2)), *a.shape[-2:])
    ),
)
def matrix_power_second(a, grad, u, numerator, denominator, lower, ridge):
    """The gradient to a of the sum of u matrix_power_vjp(a, grad): T + T^T in the basis of the
    eigenvectors, T_kj = sum_i f[i, k, j] grad_ki u_ij with second divided differences f."""
    a, grad, u = plain(a, grad, u)
    roots, vectors = _roots(a, denominator, lower, ridge)
    g, u = _turned(vectors, grad), _turned(vectors, u)
    n = a.shape[-1]
    total = torch.zeros_like(g * u)
    step = max(1, _BLOCK // max(1, total.numel()))
    rows, columns = roots[..., None, :, None], roots[..., None, None, :]
    for begin in range(0, n, step):
        part = slice(begin, begin + step)
        f = second_slopes(roots[..., part, None, None], rows, columns, numerator, denominator)
        total += (f * g[..., part, :, None] * u[..., part, None, :]).sum(-3)
    return vectors @ (total + total.mT) @ vectors.mT


def _real_power_backward(inputs, outputs, needs, grad):
    a, power, method, lower, ridge, floor = inputs
    return [matrix_real_power_vjp(a, grad, power, lower, ridge, floor)]


@operator(
    "(Tensor a, float power, str method, bool lower, float ridge, float floor) -> Tensor",
    cores={0: 2},
    shapes=lambda a, *rest: a.new_empty(a.shape),
    backward=_real_power_backward,
)
def matrix_real_power(a, power, method, lower, ridge, floor):
    return _core.matrix_power(
        a.detach(), power=power, method=method, lower=lower, ridge=ridge, floor=floor
    )


@operator(
    "(Tensor a, Tensor grad, float power, bool lower, float ridge, float floor) -> Tensor",
    cores={0: 2, 1: 2},
    shapes=lambda a, grad, *rest: a.new_empty((*batch((a, 2), (grad, 2)), *a.shape[-2:])),
)
def matrix_real_power_vjp(a, grad, power, lower, ridge, floor):
    """Daleckii and Krein, and by the floor, which the largest eigenvalue moves: not differentiable
    again."""
    a, grad = plain(a, grad)
    values, vectors = _core.eigh(a, lower=lower)
    slopes, by_floor, share = real_slopes(torch, values, power, ridge, floor)
    g = _turned(vectors, grad)
    moved = (torch.diagonal(g, dim1=-2, dim2=-1) * by_floor).sum(-1)[..., None] * share
    return vectors @ (g * slopes + torch.diag_embed(moved)) @ vectors.mT


# ---- Kronecker products ----------------------------------------------------------------------


def _product_shape(x, factors, side, alpha):
    shape = batch((x, 2), *[(f, 2) for f in factors])
    size = 1
    for f in factors:
        size = size * f.shape[-1 if side == "right" else -2]
    if side == "right":
        return x.new_empty((*shape, x.shape[-2], size))
    return x.new_empty((*shape, size, x.shape[-1]))


def _product_backward(inputs, outputs, needs, grad):
    x, factors, side, alpha = inputs
    of_x, *of_factors = kron_matmul_vjp(x, factors, grad, side, alpha)
    return [of_x, of_factors]


@operator(
    "(Tensor x, Tensor[] factors, str side, float alpha) -> Tensor",
    cores={0: 2, 1: 2},
    shapes=_product_shape,
    backward=_product_backward,
)
def kron_matmul(x, factors, side, alpha):
    return _core.kron_matmul(x.detach(), plain(*factors), side=side, alpha=alpha)


def _product_second(inputs, outputs, needs, grads):
    """The product is linear in x and in every factor: of each cotangent u, the product with u in
    the place of what it belongs to."""
    x, factors, grad, side, alpha = inputs
    parts = [x, *factors]
    totals, of_grad = [None] * len(parts), None
    for i, u in enumerate(grads):
        if u is None:
            continue
        mixed = [u if j == i else part for j, part in enumerate(parts)]
        product = kron_matmul(mixed[0], mixed[1:], side, alpha)
        of_grad = product if of_grad is None else of_grad + product
        found = kron_matmul_vjp(mixed[0], mixed[1:], grad, side, alpha)
        for j, g in enumerate(found):
            if j != i:
                totals[j] = g if totals[j] is None else totals[j] + g
    return [totals[0], totals[1:], None if of_grad is None else summed(of_grad, grad)]


@operator(
    "(Tensor x, Tensor[] factors, Tensor grad, str side, float alpha) -> Tensor[]",
    cores={0: 2, 1: 2, 2: 2},
    shapes=lambda x, factors, grad, side, alpha: [t.new_empty(t.shape) for t in (x, *factors)],
    backward=_product_second,
    expand=True,
)
def kron_matmul_vjp(x, factors, grad, side, alpha):
    """Each of the shape of its input, summed over what is broadcast."""
    return list(
        _core.kron_matmul_vjp(
            x.detach(), plain(*factors), grad=grad.detach(), side=side, alpha=alpha
        )
    )


def _whole_shape(factors):
    rows = columns = 1
    for f in factors:
        rows, columns = rows * f.shape[-2], columns * f.shape[-1]
    return factors[0].new_empty((*batch(*[(f, 2) for f in factors]), rows, columns))


def _whole_backward(inputs, outputs, needs, grad):
    """Of each factor: grad, seen as rows and columns of each factor in turn, times the others."""
    (factors,) = inputs
    return [[summed(g, f) for g, f in zip(_whole_parts(factors, grad), factors, strict=True)]]


def _whole_parts(factors, grad):
    """The products of the factors before and after each one, in a matrix of outer indices by inner
    ones; differentiable operations throughout."""
    found = []
    for i, f in enumerate(factors):
        before = kron(factors[:i]) if i else f.new_ones(1, 1)
        after = kron(factors[i + 1 :]) if i + 1 < len(factors) else f.new_ones(1, 1)
        (a, b), (p, q), (c, d) = before.shape[-2:], f.shape[-2:], after.shape[-2:]
        g = grad.reshape(*grad.shape[:-2], a, p, c, b, q, d)
        found.append(torch.einsum("...apcbqd,...ab,...cd->...pq", g, before, after))
    return found


@operator(
    "(Tensor[] factors) -> Tensor",
    cores={0: 2},
    shapes=_whole_shape,
    backward=_whole_backward,
)
def kron(factors):
    return _core.kron(plain(*factors))


# ---- Products of batches ---------------------------------------------------------------------


def _matmul_shape(a, b):
    return a.new_empty((*batch((a, 2), (b, 2)), a.shape[-2], b.shape[-1]))


def _matmul_backward(inputs, outputs, needs, grad):
    a, b = inputs
    return [
        summed(matmul_batched(grad, b.mT), a) if needs[0] else None,
        summed(matmul_batched(a.mT, grad), b) if needs[1] else None,
    ]


@operator(
    "(Tensor a, Tensor b) -> Tensor",
    cores={0: 2, 1: 2},
    shapes=_matmul_shape,
    backward=_matmul_backward,
)
def matmul_batched(a, b):
    return _core.matmul_batched(*plain(a, b))


def _gram_backward(inputs, outputs, needs, grad):
    x, transpose = inputs
    grad = grad + grad.mT
    return [matmul_batched(x, grad) if transpose else matmul_batched(grad, x)]


@operator(
    "(Tensor x, bool transpose) -> Tensor",
    cores={0: 2},
    shapes=lambda x, transpose: x.new_empty(
        (*x.shape[:-2], *[x.shape[-1 if transpose else -2]] * 2)
    ),
    backward=_gram_backward,
)
def syrk(x, transpose):
    """x x^T, or x^T x, exactly symmetric."""
    x = x.detach()
    n = x.shape[-1 if transpose else -2]
    to = torch.zeros((*x.shape[:-2], n, n), dtype=x.dtype, device=x.device)
    return _core.syrk_ema(x.resolve_neg(), to, transpose=transpose)
