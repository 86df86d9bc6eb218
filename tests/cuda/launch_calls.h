/*
 * launch_calls.h - calls of every operation with a batch of tiny items, for test_cuda_launches.c
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_LAUNCH_CALLS_H
#define GRAM_LAUNCH_CALLS_H
#include "check/harness/harness.h"

enum {
    LAUNCH_TENSORS = 12,
};

/* One call with so many items; its tensors lie one after the other in the pool. */
struct launch_call {
    gram_context *g;
    int64_t items;
    char *pool;
    size_t used_bytes;
    gram_tensor t[LAUNCH_TENSORS];
    int used;
    gram_status (*make)(struct launch_call *c);
};

/* launch_tensors.c: one matrix an item of the batch; items 0: one for all. */
gram_tensor *launch_tensor(struct launch_call *c, int64_t items, gram_dtype dtype, int64_t rows,
                           int64_t cols);
/* The same of f32: one per item; one that is every item's, in a batch; a vector; a number. */
gram_tensor *launch_matrix(struct launch_call *c, int64_t rows, int64_t cols);
gram_tensor *launch_repeated(struct launch_call *c, int64_t rows, int64_t cols);
gram_tensor *launch_vector(struct launch_call *c, int64_t n);
gram_tensor *launch_number(struct launch_call *c, gram_dtype dtype);

/* launch_kernels.c, launch_algebra.c, launch_kron.c */
gram_status launch_cdist(struct launch_call *c);
gram_status launch_kernel_of_long_rows(struct launch_call *c);
gram_status launch_median(struct launch_call *c);
gram_status launch_median_of_samples(struct launch_call *c);
gram_status launch_nearest(struct launch_call *c);
gram_status launch_kernel_reduce(struct launch_call *c);
gram_status launch_kernel_reduce_vjp(struct launch_call *c);
gram_status launch_kernel_matmul(struct launch_call *c);
gram_status launch_kernel_matmul_symmetric(struct launch_call *c);
gram_status launch_kernel_vjp(struct launch_call *c);
gram_status launch_kernel_vjp_gaussian(struct launch_call *c);
gram_status launch_kernel_vjp_cosine(struct launch_call *c);
gram_status launch_kernel_matmul_vjp(struct launch_call *c);
gram_status launch_kernel_vjp_lengths(struct launch_call *c);
gram_status launch_cdist_grad(struct launch_call *c);
gram_status launch_agop(struct launch_call *c);
gram_status launch_agop_diagonal(struct launch_call *c);
gram_status launch_solve_cholesky(struct launch_call *c);
gram_status launch_solve_cholesky_jitter(struct launch_call *c);
gram_status launch_solve_lu(struct launch_call *c);
gram_status launch_matmul_batched(struct launch_call *c);
gram_status launch_matmul_batched_of_numbers(struct launch_call *c);
gram_status launch_matmul_chunked(struct launch_call *c);
gram_status launch_syrk_ema(struct launch_call *c);
gram_status launch_natural_gradient(struct launch_call *c);
gram_status launch_eigh(struct launch_call *c);
gram_status launch_eigh_closed_form(struct launch_call *c);
gram_status launch_eigh_largest(struct launch_call *c);
gram_status launch_matrix_power_eigh(struct launch_call *c);
gram_status launch_matrix_power_minimax(struct launch_call *c);
gram_status launch_matrix_power_newton(struct launch_call *c);
gram_status launch_kron(struct launch_call *c);
gram_status launch_kron_matmul(struct launch_call *c);
gram_status launch_kron_matmul_shared(struct launch_call *c);
gram_status launch_kron_matmul_vjp(struct launch_call *c);
gram_status launch_kron_matmul_vjp_shared(struct launch_call *c);
gram_status launch_kron_diagonal(struct launch_call *c);
gram_status launch_kron_trace(struct launch_call *c);
gram_status launch_kron_logdet(struct launch_call *c);
gram_status launch_kron_solve_lu(struct launch_call *c);
gram_status launch_kron_solve_cholesky(struct launch_call *c);
gram_status launch_kron_solve_eigen(struct launch_call *c);
gram_status launch_sample_grad(struct launch_call *c);
gram_status launch_sample_grad_sums(struct launch_call *c);
gram_status launch_kfac_factors(struct launch_call *c);
#endif
