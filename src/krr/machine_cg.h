/*
 * machine_cg.h - preconditioned conjugate gradients for (K + diag(ridge)) X = B, all columns at
 * once
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_CG_H
#define GRAM_MACHINE_CG_H
#include "machine_blocks.h"
#include "machine_nystrom.h"
#include "machine_precondition.h"

struct machine_cg_report {
    int iterations;
    double residual; /* largest over the columns of |B - A X| / |B|, computed afresh at the end */
};

/* (K + diag(ridge)) X = B with `columns` columns, and what preconditions it.  K is in blocks on the
 * CPU, and n by n without gaps on a GPU.  ridge is where the context computes. */
struct machine_system {
    int64_t n, columns;
    gram_dtype dtype;
    const double *ridge;
    const struct machine_blocks *k; /* on the CPU, with */
    const struct machine_preconditioner *p;
    const void *matrix; /* on a GPU, with */
    const struct machine_nystrom *nystrom;
};

/*
 * Solves down to tolerance or as far as most iterations and the rounding of the dtype allow; the
 * report says what was reached.  x (its content does not matter) and b are n by columns,
 * column-major, where the context computes.
 */
gram_status gram_machine_cg(gram_context *g, const struct machine_system *system, double tolerance,
                            const void *b, void *x, struct machine_cg_report *report);

size_t gram_machine_cg_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype);
#endif
