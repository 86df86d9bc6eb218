/*
 * py_signatures.h - the arguments of functions as inspect.signature reads them
 *
 * A docstring begins with its function's name and one of these.  tests/python/test_signatures.py
 * compares them with the stubs and with what the functions take.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_SIGNATURES_H
#define PY_SIGNATURES_H

/* clang-format off */
/* The numbers and choices of a kernel, between other arguments. */
#define PY_KERNEL_TEXT \
  "bandwidth=1.0, p=2.0, exponent=1.0, alpha=1.0, gamma=1.0, coef0=0.0, degree=3.0,\n    " \
  "regularization=0.0, row_offset=0, column_offset=0, outer_power=None,\n    " \
  "expression=None, of=\"distance\", parameters=None, output=\"value\", parameter=None,\n    " \
  "lengths=None, metric=None, weights=None"

#define PY_TEXT_cdist \
  "(x, y=None, p=2.0, root=True, out=None, *, metric=None, weights=None,\n    " \
  "condensed=False, bits=None)\n--\n\n"

#define PY_TEXT_median_distance \
  "(x, p=2.0, *, root=True, rows=2000, seed=0, out=None)\n--\n\n"

#define PY_TEXT_nearest \
  "(x, y=None, *, count, p=2.0, exclude_self=False, radius=None, counts=None,\n    " \
  "out=None, metric=None, weights=None, bits=None, communicator=None)\n--\n\n"

#define PY_TEXT_kernel \
  "(x, y=None, kernel=\"laplace\", *,\n    " \
  PY_KERNEL_TEXT ",\n    out=None)\n--\n\n"

#define PY_TEXT_kernel_vjp \
  "(x, y=None, kernel=\"laplace\", *, grad, wrt=\"x\", out=None,\n    " \
  PY_KERNEL_TEXT ")\n--\n\n"

#define PY_TEXT_kernel_matmul_vjp \
  "(x, y=None, kernel=\"laplace\", *, v, grad, wrt=\"x\", out=None,\n    " \
  PY_KERNEL_TEXT ")\n--\n\n"

#define PY_TEXT_kernel_reduce_vjp \
  "(x, y=None, kernel=\"laplace\", *, what, grad, v=None, scale=1.0, log_weights=None,\n    " \
  "wrt=\"x\", out=None,\n    " PY_KERNEL_TEXT ")\n--\n\n"

#define PY_TEXT_cdist_grad \
  "(a, b, c, d, p=2.0, *, out=None)\n--\n\n"

#define PY_TEXT_agop \
  "(a, b, c, d, p=2.0, *, diagonal=False, accumulate=False, points=0, out=None)\n--\n\n"

#define PY_TEXT_solve_cholesky \
  "(a, b, *, lower=True, factored=False, factor=None, jitter=None, jittered=None,\n    " \
  "rcond=None, refine=False, backward=None, refinings=None, info=None, out=None)\n--\n\n"

#define PY_TEXT_solve_lu \
  "(a, b, *, factored=False, factor=None, pivots=None, rcond=None, refine=False,\n    " \
  "backward=None, refinings=None, info=None, out=None)\n--\n\n"

#define PY_TEXT_eigh \
  "(a, *, lower=True, vectors=True, select=\"all\", first=0, count=None, range=None,\n    " \
  "found=None, driver=\"auto\", tolerance=0.0, products=0, seed=0, report=None,\n    " \
  "background=False, info=None, out=None)\n--\n\n"

#define PY_TEXT_kernel_matmul \
  "(x, y=None, kernel=\"laplace\", *, v, accumulate=False, communicator=None,\n    " \
  "out=None, " PY_KERNEL_TEXT ")\n--\n\n"

#define PY_TEXT_kernel_reduce \
  "(x, y=None, kernel=\"laplace\", *, what, v=None, scale=1.0, log_weights=None,\n    " \
  "out=None, " PY_KERNEL_TEXT ")\n--\n\n"

#define PY_TEXT_eigh_kernel \
  "(x, *, vectors=True, kernel=\"laplace\", select=\"largest\", first=0, count=None,\n    " \
  "range=None, found=None, driver=\"auto\", tolerance=0.0, products=0, seed=0,\n    " \
  "report=None, info=None, out=None, communicator=None,\n    " \
  PY_KERNEL_TEXT ")\n--\n\n"

#define PY_TEXT_eigh_operator \
  "(a, like, *, vectors=True, select=\"largest\", count=None, tolerance=0.0, products=0,\n    " \
  "seed=0, report=None, info=None, out=None)\n--\n\n"

#define PY_TEXT_kernel_logdet \
  "(x, *, probes=32, kernel=\"laplace\", steps=100, seed=0, tolerance=None, rank=None,\n    " \
  "left=None, right=None, report=None,\n    " \
  PY_KERNEL_TEXT ")\n--\n\n"

#define PY_TEXT_logdet_operator \
  "(a, like, *, probes=32, steps=100, seed=0, tolerance=None, left=None, right=None,\n    " \
  "report=None)\n--\n\n"

#define PY_TEXT_solve_operator \
  "(a, b, *, preconditioner=None, tolerance=0.0, iterations=0, time_limit=0.0,\n    " \
  "warm_start=False, report=None, out=None)\n--\n\n"

#define PY_TEXT_kron \
  "(factors, *, out=None)\n--\n\n"

#define PY_TEXT_kron_matmul \
  "(x, factors, *, side=\"right\", alpha=1.0, beta=0.0, z=None, out=None)\n--\n\n"

#define PY_TEXT_kron_matmul_vjp \
  "(x, factors, *, grad, side=\"right\", alpha=1.0, wrt=\"all\", out=None)\n--\n\n"

#define PY_TEXT_kron_solve \
  "(factors, b, *, side=\"right\", method=\"lu\", lower=True, shift=0.0, info=None,\n    " \
  "out=None)\n--\n\n"

#define PY_TEXT_kron_logdet \
  "(factors, *, out=None)\n--\n\n"

#define PY_TEXT_kron_diagonal \
  "(factors, *, out=None)\n--\n\n"

#define PY_TEXT_matrix_power \
  "(a, numerator=-1, denominator=4, *, method=\"auto\", lower=True, ridge=0.0,\n    " \
  "ridge_relative=False, condition=0.0, iterations=0, error=None, tolerance=0.0,\n    " \
  "keep=False, precision=\"auto\", power=None, floor=0.0, info=None, out=None)\n--\n\n"

#define PY_TEXT_krr_path \
  "(k, y, ridges, *, weights=None, intercept=\"none\", method=\"auto\", lower=True,\n    " \
  "error=None, spread=None, alpha=None, offset=None, info=None, out=None)\n--\n\n"

#define PY_TEXT_krr_samples \
  "(x, y, kernel=\"laplace\", *, z, ridge, count=1, tolerance=None, method=\"auto\",\n    " \
  "rank=None, products=None, time_limit=None, seed=0, prior=\"auto\", features=None,\n    " \
  "row_weights=None, report=None, out=None,\n    " \
  PY_KERNEL_TEXT ")\n--\n\n"

#define PY_TEXT_krr_solve \
  "(x, y, kernel=\"laplace\", *, ridge, tolerance=None, held_out_rmse=None,\n    " \
  "method=\"auto\", rank=None, products=None, time_limit=None, refine=False,\n    " \
  "warm_start=False, seed=0, row_weights=None, centres=None, rows=None, memory=None,\n    " \
  "checkpoint=None, resume=False, checkpoint_seconds=None,\n    " \
  "checkpoint_iterations=None, communicator=None, device=None, report=None, out=None,\n    " \
  PY_KERNEL_TEXT ")\n--\n\n"

#define PY_TEXT_krr_variance \
  "(x, z, kernel=\"laplace\", *, ridge, tolerance=None, method=\"auto\", rank=None,\n    " \
  "products=None, time_limit=None, seed=0, row_weights=None, bound=None,\n    " \
  "report=None, out=None,\n    " \
  PY_KERNEL_TEXT ")\n--\n\n"

#define PY_TEXT_matmul_batched \
  "(a, b, *, alpha=1.0, beta=0.0, c=None, out=None)\n--\n\n"

#define PY_TEXT_matmul_chunked \
  "(a, b, *, alpha=1.0, beta=0.0, c=None, out=None, memory=0, device=None)\n--\n\n"

#define PY_TEXT_syrk_ema \
  "(x, l, *, beta=0.0, alpha=1.0, transpose=False, packed=False, sum=False,\n    " \
  "keep=False, info=None)\n--\n\n"

#define PY_TEXT_sample_grad \
  "(activations, gradients, kind=\"linear\", *, bias=True, kernel_size=1, stride=1,\n    " \
  "padding=0, dilation=1, groups=1, rows=0, padding_row=-1, normalized=1,\n    " \
  "epsilon=1e-05, output=\"gradient\", scale=1.0, clip=0.0, coefficients=None,\n    " \
  "method=\"auto\")\n--\n\n"

#define PY_TEXT_kfac_factors \
  "(activations, gradients, kind=\"linear\", *, bias=True, kernel_size=1, stride=1,\n    " \
  "padding=0, dilation=1, groups=1, rows=0, padding_row=-1, normalized=1,\n    " \
  "epsilon=1e-05, setting=\"expand\", scale=1.0, keep=0.0, out=None)\n--\n\n"

#define PY_TEXT_natural_gradient \
  "(gradients, v, damping, *, info=None, out=None)\n--\n\n"

#define PY_TEXT_kron_matmul_multi \
  "(x, factors, communicator, *, side=\"right\", split=\"rows\", alpha=1.0, beta=0.0,\n    " \
  "z=None, out=None)\n--\n\n"

#define PY_TEXT_tune \
  "(x, y=None, kernel=\"laplace\", *,\n    " \
  PY_KERNEL_TEXT ",\n    out=None)\n--\n\n"

#define PY_TEXT_tune_kron PY_TEXT_kron_matmul

#define PY_TEXT_tune_eigh \
  "(a, *, lower=True, vectors=True, select=\"all\", first=0, count=None, range=None,\n    " \
  "found=None, driver=\"auto\", tolerance=0.0, products=0, seed=0, report=None,\n    " \
  "background=False, info=None, out=None)\n--\n\n"
/* clang-format on */

#endif
