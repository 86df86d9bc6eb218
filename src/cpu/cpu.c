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
    .scratch = gram_scratch,
    .scratch_lend = gram_scratch_lend_host,
    .scratch_return = gram_scratch_return_host,
    .strip_multiply = cpu_strip_multiply,
    .solve_cholesky_workspace = cpu_solve_cholesky_workspace,
    .solve_lu_workspace = cpu_solve_lu_workspace,
    .matmul_batched_workspace = cpu_matmul_batched_workspace,
    .eigh_workspace = cpu_eigh_workspace,
    .matrix_power_workspace = cpu_matrix_power_workspace,
    .tune_kron = cpu_tune_kron,
    .optimizer_workspace = cpu_optimizer_workspace,
#define GRAM_CPU_BOTH(name) .name = cpu_##name,
#define GRAM_CPU_CUDA(name)
#define GRAM_OP(name, op, devices) GRAM_CPU_##devices(name)
#include "core/ops.def"
#undef GRAM_CPU_BOTH
#undef GRAM_CPU_CUDA
};
