/*
 * cpu_solve.h - a call taken apart, and what its options need of the plain ways
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_SOLVE_H
#define GRAM_CPU_SOLVE_H
#include "core/scratch.h"
#include "cpu/cpu.h"
#include "solve_batch.h"
#include "solve_kernels.h"

enum {
    SOLVE_WIDTH = 16,      /* right-hand sides that a small item takes at a time */
    SOLVE_RHS_BLOCK = 256, /* and a large one: enough for full speed of the triangular solve */
};

/* A call, its batch taken apart (solve_batch.h). */
struct solve_plan {
    const struct gram_solve_op *op;
    const struct gram_solve_kernels *kernels; /* of the dtype */
    const struct gram_solve_kernels *const *of_dtype;
    bool lu;
    struct gram_batch own, shared;
    atomic_llong failed; /* item of own * (n + 1) + info, the smallest; LLONG_MAX: none */
};

/* Address of the matrix of v at an item of own and one of shared; NULL if v is empty. */
char *cpu_solve_item(const struct solve_plan *plan, const struct gram_view *v, int64_t own,
                     int64_t shared);

/* Keeps what became of an item of own: info where wanted, the first failure for the message. */
void cpu_solve_report(struct solve_plan *plan, int64_t own, int64_t info);

/* Copies pivots between a vector of n and the caller's tensor. */
void cpu_solve_pivots_in(const struct solve_plan *plan, int64_t own, int32_t *pivots);
void cpu_solve_pivots_out(const struct solve_plan *plan, int64_t own, const int32_t *pivots);

/* Opens the layout of a way and refuses the caller's pivots where they are out of range: what
 * follows cannot fail.  It reads the caller's memory, which a workspace query does not have. */
gram_status cpu_solve_open(gram_context *g, const struct solve_plan *plan,
                           const struct gram_layout *layout);

/* What is asked for beside a solution: rcond, jitters and refinement (cpu_solve_options.c). */
bool cpu_solve_has_options(const struct gram_solve_op *op);
gram_status cpu_solve_options(gram_context *g, struct solve_plan *plan);
#endif
