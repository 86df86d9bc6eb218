/*
 * machine_cg.h - preconditioned conjugate gradients for (K + diag(ridge)) X = B, all columns at
 * once
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_CG_H
#define GRAM_MACHINE_CG_H
#include "machine_blocks.h"
#include "machine_precondition.h"

struct machine_cg_report {
    int iterations;
    double residual; /* largest over the columns of |B - A X| / |B|, computed afresh at the end */
};

/* (K + diag(ridge)) X = B with so many columns, and what preconditions it. */
struct machine_system {
    const struct machine_blocks *k;
    const double *ridge;
    const struct machine_preconditioner *p;
    int64_t columns;
};

/*
 * Solves down to tolerance or as far as most iterations and the rounding of the dtype allow; the
 * report says what was reached.  x (the start, overwritten) and b are n by columns, column-major.
 */
gram_status gram_machine_cg(gram_context *g, const struct machine_system *system, double tolerance,
                            const void *b, void *x, struct machine_cg_report *report);

size_t gram_machine_cg_bytes(int64_t n, int64_t columns, gram_dtype dtype);
#endif
