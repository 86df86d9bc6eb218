"""Determinants and likelihoods of exact Gaussian processes, with gradients by the same solves.

With B = K + r I, a = B^-1 y and vectors u_j, w_j of gram.kernel_logdet whose products u_j^T dB w_j
have the trace of B^-1 dB as their mean,

    d log det B = mean_j u_j^T dB w_j,   d (y^T B^-1 y) = 2 a^T dy - a^T dB a,

so that one gradient of a product with K, of the columns [-g_q a, g_l u / probes] and [a, w], has
both.  For a solve that is not exact, 2 y^T a - a^T B a is wrong by the square of its error, while
y^T a is wrong by that error itself; its gradient with a kept as it is is the one above.
"""

import math

import torch

import gram
from gram import _core, _torch_kernels, _torch_products
from gram._kernels import had

_DENSE_ROWS = {"cpu": 6000, "cuda": 16000}
_NUMBERS = ("bandwidth", "regularization")


def _checked(function, x, y, method):
    """The method that stands for "auto"; x and y are as they should be."""
    if x.dim() != 2 or x.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"gram.torch.{function}: x is {x.dtype} of shape {tuple(x.shape)}, expected a matrix "
            "of float32 or float64"
        )
    if y is not None and (y.dim() not in (1, 2) or len(y) != len(x) or y.dtype != x.dtype):
        raise ValueError(
            f"gram.torch.{function}: y is {y.dtype} of shape {tuple(y.shape)}, expected {x.dtype} "
            f"of shape ({len(x)},) or ({len(x)}, targets)"
        )
    if method not in ("auto", "cholesky", "cg"):
        raise ValueError(
            f"gram.torch.{function}: method is {method!r}, expected 'auto', 'cholesky' or 'cg'"
        )
    dense = len(x) <= _DENSE_ROWS.get(x.device.type, 0)
    return method if method != "auto" else "cholesky" if dense else "cg"


def _scalar(function, name, value, like):
    """A number as a tensor without dimensions; gradients go through it."""
    value = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    if value.numel() != 1:
        raise ValueError(
            f"gram.torch.{function}: {name} has the shape {tuple(value.shape)}, expected one number"
        )
    return value.reshape(())


class _Solved(torch.autograd.Function):
    """(y^T B^-1 y of each column, log det B), where y has no column if only the latter is wanted.

    solver: method, probes, steps, tolerance, rank, seed, report."""

    @staticmethod
    def forward(ctx, solver, options, x, y, bandwidth, regularization, *hypers):
        ctx.solver, ctx.options = solver, options
        given = [t.detach() if t is not None else None for t in (x, bandwidth, regularization)]
        numbers = [h.detach() for h in hypers]
        words = had(_torch_kernels.keywords(*given[1:], numbers, options))
        solve = _dense if solver["method"] == "cholesky" else _iterated
        quadratic, logdet, kept = solve(given[0], y.detach(), words, solver)
        ctx.save_for_backward(x, y, bandwidth, regularization, *hypers, *kept)
        return quadratic, logdet

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, of_quadratic, of_logdet):
        options, needs = ctx.options, ctx.needs_input_grad[2:]
        count = len(needs) - 4
        saved = list(ctx.saved_tensors)
        x, y, bandwidth, regularization = saved[:4]
        hypers, (alpha, *kept) = saved[4 : 4 + count], saved[4 + count :]
        wanted = [needs[0], False, needs[2], needs[3], list(needs[4:])]
        if ctx.solver["method"] == "cholesky":
            weights = of_logdet * torch.cholesky_inverse(kept[0])
            weights -= (alpha * of_quadratic) @ alpha.mT
            found = _torch_kernels._points_backward(
                x, None, bandwidth, regularization, hypers, options, wanted, weights
            )
        else:
            left, right = kept
            left = torch.cat([-of_quadratic * alpha, of_logdet / max(1, left.shape[1]) * left], 1)
            points = (x, None, bandwidth, regularization, hypers)
            found = _torch_products._product_backward(
                points, left, torch.cat([alpha, right], 1), options, wanted
            )
        of_y = 2 * of_quadratic * alpha if needs[1] else None
        of_hypers = found[4] if found[4] is not None else [None] * count
        return (None, None, found[0], of_y, found[2], found[3], *of_hypers)


def _dense(x, y, words, solver):
    """By one factorisation in the dtype of x."""
    matrix = _core.kernel(x, **words)
    factor, info = torch.linalg.cholesky_ex(matrix)
    if info.item() != 0:
        raise gram.LinAlgError(
            "gram.torch: the kernel matrix plus its regularization is not positive definite in "
            f"{x.dtype}: the leading minor of order {info.item()} is not positive"
        )
    alpha = torch.cholesky_solve(y, factor)
    logdet = 2 * factor.diagonal().to(torch.float64).log().sum()
    if solver["report"] is not None:
        solver["report"].update(method="cholesky", standard_error=0.0)
    return (y * alpha).sum(0), logdet.to(x.dtype), (alpha, factor)


def _plain(value):
    """A number that is one on the host."""
    if isinstance(value, dict):
        return {name: _plain(v) for name, v in value.items()}
    return float(value) if isinstance(value, torch.Tensor) else value


def _iterated(x, y, words, solver):
    """By products alone."""
    words = _plain(words)
    probes, told, about = solver["probes"], {}, {}
    left, right = x.new_empty(len(x), probes), x.new_empty(len(x), probes)
    logdet, error = gram.kernel_logdet(
        x, probes=probes, steps=solver["steps"], seed=solver["seed"], rank=solver["rank"],
        tolerance=solver["tolerance"], left=left, right=right, report=about, **words
    )  # fmt: skip
    alpha, quadratic = y, y.new_zeros(y.shape[1])
    if y.shape[1] > 0:
        ridge = words.pop("regularization", 0.0)
        alpha = gram.krr_solve(
            x, y, ridge=ridge, method="cg", tolerance=solver["tolerance"], rank=solver["rank"],
            seed=solver["seed"], report=told, **words
        )  # fmt: skip
        product = _core.kernel_matmul(x, v=alpha, **words) + ridge * alpha
        quadratic = ((2 * y - product) * alpha).sum(0)
    if solver["report"] is not None:
        solver["report"].update(
            method="cg", standard_error=error, logdet=about, solve=told if told else None
        )
    return quadratic, x.new_tensor(logdet), (alpha, left, right)


def _solved(function, x, y, tensors, options, solver):
    bandwidth, regularization, hypers = tensors
    for name, tensor in zip(_NUMBERS, tensors, strict=False):
        if tensor is not None and tensor.numel() != 1:
            raise ValueError(
                f"gram.torch.{function}: {name} has the shape {tuple(tensor.shape)}, expected one "
                "number"
            )
    return _Solved.apply(solver, options, x, y, bandwidth, regularization, *hypers)


def kernel_logdet(x, tensors, options, solver):
    solver["method"] = _checked("kernel_logdet", x, None, solver["method"])
    return _solved("kernel_logdet", x, x.new_empty(len(x), 0), tensors, options, solver)[1]


def log_marginal_likelihood(x, y, amplitude, noise, tensors, options, solver):
    name = "log_marginal_likelihood"
    solver["method"] = _checked(name, x, y, solver["method"])
    amplitude = _scalar(name, "amplitude", amplitude, x)
    noise = _scalar(name, "noise", noise, x)
    tensors[1] = noise / amplitude
    columns = y[:, None] if y.dim() == 1 else y
    quadratic, logdet = _solved(name, x, columns, tensors, options, solver)
    rows, targets = columns.shape
    constant = rows * (amplitude.log() + math.log(2 * math.pi))
    return -0.5 * (quadratic.sum() / amplitude + targets * (logdet + constant))
