/*
 * cpu.c - the CPU's backend table: what it offers
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu.h"

const struct gram_backend gram_cpu_backend = {
    .version = GRAM_VERSION,
    .name = "the CPU",
    .open = cpu_open,
    .describe = cpu_describe,
    .machine = cpu_machine,
    .cdist = cpu_cdist,
    .cdist_workspace = cpu_cdist_workspace,
    .median = cpu_median,
    .median_workspace = cpu_median_workspace,
    .kernel_matmul = cpu_kernel_matmul,
    .kernel_matmul_workspace = cpu_kernel_matmul_workspace,
    .kernel_vjp = cpu_kernel_vjp,
    .kernel_vjp_workspace = cpu_kernel_vjp_workspace,
    .cdist_grad = cpu_cdist_grad,
    .cdist_grad_workspace = cpu_cdist_grad_workspace,
    .agop = cpu_agop,
    .agop_workspace = cpu_agop_workspace,
    .solve_cholesky = cpu_solve_cholesky,
    .solve_cholesky_workspace = cpu_solve_cholesky_workspace,
    .solve_lu = cpu_solve_lu,
    .solve_lu_workspace = cpu_solve_lu_workspace,
    .eigh_implicit = cpu_eigh,
    .eigh_implicit_workspace = cpu_eigh_workspace,
    .eigh = cpu_eigh,
    .eigh_workspace = cpu_eigh_workspace,
    .matrix_power = cpu_matrix_power,
    .matrix_power_workspace = cpu_matrix_power_workspace,
    .kron = cpu_kron,
    .kron_workspace = cpu_kron_workspace,
    .kron_matmul = cpu_kron_matmul,
    .kron_matmul_workspace = cpu_kron_matmul_workspace,
    .kron_move = cpu_kron_move,
    .kron_matmul_vjp = cpu_kron_matmul_vjp,
    .kron_matmul_vjp_workspace = cpu_kron_matmul_vjp_workspace,
    .kron_trace = cpu_kron_trace,
    .kron_logdet = cpu_kron_logdet,
    .kron_logdet_workspace = cpu_kron_logdet_workspace,
    .kron_solve = cpu_kron_solve,
    .kron_solve_workspace = cpu_kron_solve_workspace,
};
