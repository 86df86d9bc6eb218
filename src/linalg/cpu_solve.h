/*
 * cpu_solve.h - what the two ways of solving share: LAPACK for large items, tiles for small ones
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_SOLVE_H
#define GRAM_CPU_SOLVE_H
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

/* Items up to SOLVE_SMALL: scratch has cpu_solve_small_bytes(). */
void cpu_solve_small(gram_context *g, struct solve_plan *plan, void *scratch);
size_t cpu_solve_small_bytes(const gram_context *g, const struct solve_plan *plan);

/* All other items, by LAPACK; SIZE_MAX bytes: more than can be counted. */
void cpu_solve_large(gram_context *g, struct solve_plan *plan, void *memory);
size_t cpu_solve_large_bytes(const struct solve_plan *plan);

/* What is asked for beside a solution (cpu_solve_options.c): rcond, jitters, refinement. */
bool cpu_solve_has_options(const struct gram_solve_op *op);
void cpu_solve_options(gram_context *g, struct solve_plan *plan, void *scratch);
size_t cpu_solve_options_bytes(const gram_context *g, const struct solve_plan *plan);
#endif
