/*
 * harness_ops.c - the list of all operations that have a table of cases
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness.h"

extern const struct case_op case_cdist, case_kernel, case_expression, case_median;
extern const struct case_op case_cdist_grad, case_agop, case_kernel_vjp, case_kernel_matmul;
extern const struct case_op case_solve_cholesky, case_solve_lu, case_eigh, case_matrix_power;
extern const struct case_op case_eigh_kernel, case_matmul_batched, case_syrk_ema;
extern const struct case_op case_kron, case_kron_matmul, case_kron_matmul_vjp, case_kron_solve;
extern const struct case_op case_sample_grad, case_kfac_factors;

/* clang-format off */
const struct case_op *const harness_ops[] = {
    &case_cdist,
    &case_kernel,
    &case_expression,
    &case_median,
    &case_cdist_grad,
    &case_agop,
    &case_kernel_vjp,
    &case_kernel_matmul,
    &case_solve_cholesky,
    &case_solve_lu,
    &case_matmul_batched,
    &case_syrk_ema,
    &case_eigh,
    &case_eigh_kernel,
    &case_matrix_power,
    &case_kron,
    &case_kron_matmul,
    &case_kron_matmul_vjp,
    &case_kron_solve,
    &case_sample_grad,
    &case_kfac_factors,
    NULL,
};
/* clang-format on */
