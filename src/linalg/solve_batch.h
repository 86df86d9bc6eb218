/*
 * solve_batch.h - a solve's batch taken apart, and how LAPACK sees a matrix: for every backend
 *
 * own: dimensions along which a (or its factor or pivots) changes; shared: those where one matrix
 * meets several right-hand sides.  Each has 1 where the other has a size, so a pair of their items
 * is one item of the call.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SOLVE_BATCH_H
#define GRAM_SOLVE_BATCH_H
#include "core/backend.h"
#include <limits.h>

static inline void gram_solve_split(const struct gram_solve_op *op, struct gram_batch *own,
                                    struct gram_batch *shared)
{
    *own = *shared = op->batch;
    own->count = shared->count = 1;
    for (int i = 0; i < op->batch.ndim; i++) {
        bool is_own = op->a.batch_stride[i] || (op->has_factor && op->factor.batch_stride[i]) ||
                      (op->has_pivots && op->pivots.batch_stride[i]) ||
                      (op->has_rcond && op->rcond.batch_stride[i]) ||
                      (op->has_jittered && op->jittered.batch_stride[i]);
        struct gram_batch *still = is_own ? shared : own;

        still->shape[i] = 1;
        own->count *= own->shape[i];
        shared->count *= shared->shape[i];
        if (op->batch.shape[i] == 0) /* the counts say it; what has the other part may divide */
            own->shape[i] = shared->shape[i] = 1;
    }
}

/* LAPACK is column-major: a row-major matrix is its transpose there. */
struct gram_solve_layout {
    int64_t ld;
    bool row_major;
    bool direct; /* in place as it stands: unit stride and a leading dimension */
};

static inline struct gram_solve_layout gram_solve_layout(const struct gram_view *v)
{
    int64_t n = v->rows, r = v->row_stride, c = v->col_stride;

    if (n <= 1)
        return (struct gram_solve_layout){.ld = 1, .direct = true};
    if (r == 1 && c >= n && c <= INT_MAX)
        return (struct gram_solve_layout){.ld = c, .direct = true};
    if (c == 1 && r >= n && r <= INT_MAX)
        return (struct gram_solve_layout){.ld = r, .row_major = true, .direct = true};
    return (struct gram_solve_layout){.ld = n, .row_major = (c < 0 ? -c : c) < (r < 0 ? -r : r)};
}

/* True if LAPACK can take the columns of x where they lie. */
static inline bool gram_solve_columns_direct(const struct gram_view *x)
{
    return x->row_stride == 1 &&
           (x->cols <= 1 || (x->col_stride >= x->rows && x->col_stride <= INT_MAX));
}
#endif
