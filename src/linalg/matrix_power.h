/*
 * matrix_power.h - what gram_matrix_power and its callers know of the methods; those by products
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MATRIX_POWER_H
#define GRAM_MATRIX_POWER_H
#include "core/backend.h"

/* True where the method is the eigendecomposition, on a CPU and on devices without a better one. */
static inline bool gram_matrix_power_by_eigh(const struct gram_matrix_power_op *op)
{
    return op->method == GRAM_POWER_AUTO || op->method == GRAM_POWER_EIGH;
}

/* What a CPU computes in. */
static inline gram_dtype gram_matrix_power_cpu_dtype(const struct gram_matrix_power_op *op)
{
    return gram_matrix_power_by_eigh(op) || op->precision == GRAM_POWER_PRECISION_F64 ? GRAM_F64
                                                                                      : op->a.dtype;
}

/*
 * The least ridge of a factor, which is a sum of squares with rounding errors, relative to the
 * largest eigenvalue: what rounding in a's dtype makes of an eigenvalue of 0, and what the methods
 * can still tell from 0 in the dtype that they work in.
 */
static inline double gram_power_least_ridge(const struct gram_matrix_power_op *op, gram_dtype work)
{
    if (op->a.dtype == GRAM_F32)
        return work == GRAM_F32 ? 0x1p-16 : 0x1p-20;
    return gram_matrix_power_by_eigh(op) ? (double)op->a.rows * 0x1p-50 : 0x1p-40;
}

/* ---- Powers by products (matrix_power_run.c) ------------------------------------------------- */

/* B is A' with its ridge; X is the result, M and W are the iterates of the formulas in gram.h, and
 * T is where the next product goes.  They change places. */
struct gram_power_matrices {
    char *b, *x, *m, *w, *t;
};

/* Which numbers gram_power_passes.combine takes: the shift and the factor. */
enum gram_power_numbers {
    GRAM_POWER_COPY,     /* 0 and 1 */
    GRAM_POWER_IDENTITY, /* 1 and 0: from is not read */
    GRAM_POWER_RIDGE,    /* the ridge and 1 */
    GRAM_POWER_FIRST,    /* those that an iteration begins with */
    GRAM_POWER_STEP,     /* those of a step of the iteration */
    GRAM_POWER_LAST      /* 0 and the factor that the result of the iteration lacks */
};

struct gram_power_run;

/* What a device does to the matrices of one item, or of all items of a batch.  A CPU knows the
 * numbers of its item and ends when they say so; a GPU only queues, as many steps as are needed at
 * most, and an item that is done stays as it is. */
struct gram_power_passes {
    /* to = shift I + factor from; to may be from. */
    gram_status (*combine)(struct gram_power_run *r, enum gram_power_numbers what, const char *from,
                           char *to);
    /* c = a b; the same of two that commute, so that c is symmetric and half of it is enough; and
     * of powers of the result, which commute too, as it suits the device. */
    gram_status (*multiply)(struct gram_power_run *r, const char *a, const char *b, char *c);
    gram_status (*commute)(struct gram_power_run *r, const char *a, const char *b, char *c);
    gram_status (*raise)(struct gram_power_run *r, const char *a, const char *b, char *c);
    /* An iteration: restart for each square root of Newton-Schulz but not for others, then for each
     * step what its products are computed in, and W = the polynomial of `from`.  *last: it is the
     * last one. */
    gram_status (*restart)(struct gram_power_run *r);
    gram_status (*begin_step)(struct gram_power_run *r, int step);
    gram_status (*polynomial)(struct gram_power_run *r, int step, const char *from, bool *last);
    gram_status (*end)(struct gram_power_run *r);
    /* B is what it was before the iteration. */
    gram_status (*reload)(struct gram_power_run *r);
    /* Keeps the largest magnitude of from - shift I - other as number `which`; other NULL: 0. */
    gram_status (*distance)(struct gram_power_run *r, int which, const char *from, double shift,
                            const char *other);
};

/* The first member of what a device keeps for a run: passes are given its address. */
struct gram_power_run {
    const struct gram_matrix_power_op *op; /* its method is not AUTO */
    const struct gram_power_passes *passes;
    struct gram_power_matrices s;
};

/* The best polynomial a + b y of MINIMAX for eigenvalues y in [low, high]; its largest error. */
double gram_power_minimax(double q, double low, double high, double ab[2]);
/* From B to X. */
gram_status gram_power_iterate(struct gram_power_run *r);
/* The magnitudes of which the error is made; X stays.  Where the power is negative number 0 is the
 * error, else it is number 1 over number 0, or number 2 where B^k is 0. */
gram_status gram_power_estimate(struct gram_power_run *r);
#endif
