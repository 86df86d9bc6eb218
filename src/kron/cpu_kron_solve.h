/*
 * cpu_kron_solve.h - systems with a Kronecker product: where a call keeps what it works on
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KRON_SOLVE_H
#define GRAM_CPU_KRON_SOLVE_H
#include "core/threads.h"
#include "cpu/cpu.h"

struct kron_solve_plan {
    gram_context *g;
    const struct gram_kron_solve_op *op;
    gram_dtype dtype;
    int64_t order, rows, pieces; /* n; rows in a piece of b */
    bool parallel;               /* pieces at the same time */
    /* Offsets of each factor: LU, L or V; pivots or w; of small ones 1 over the diagonal, and where
     * LU has put the unknowns. */
    size_t factor[GRAM_MAX_FACTORS], values[GRAM_MAX_FACTORS], reciprocal[GRAM_MAX_FACTORS],
        from[GRAM_MAX_FACTORS];
    size_t work, iwork, buffers, buffer_bytes, bytes;
    int64_t lwork, liwork; /* of the eigenproblem */
    char *scratch;
    const char *made_of[GRAM_MAX_FACTORS]; /* the matrix that factor was made of; NULL: none yet */
    int info[GRAM_MAX_FACTORS];
    bool can_sweep[GRAM_MAX_FACTORS]; /* the factor as it is now */
    bool sweeps;                      /* all of them: LAPACK has nothing to solve */
    int64_t item;
    atomic_bool singular; /* an eigenvalue of the shifted product is 0 */
};

/* Room for the sweeps of factor i, where its order and the method allow them. */
void cpu_kron_sweeps_lay_out(struct kron_solve_plan *p, int i);
/* After a factorisation by LAPACK: whether factor i can be divided by in sweeps. */
bool cpu_kron_sweeps_prepare(const struct kron_solve_plan *p, int i);
/* Divides rows of p->order numbers by all factors, in place; shared: by all threads. */
void cpu_kron_sweeps_divide(const struct kron_solve_plan *p, int64_t rows, void *data, bool shared);
#endif
