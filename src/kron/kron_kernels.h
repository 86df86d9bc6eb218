/*
 * kron_kernels.h - what an instruction set offers for Kronecker products: passes of a product,
 * gradients of a factor, and divisions by a small factor
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_KERNELS_H
#define GRAM_KRON_KERNELS_H
#include "core/context.h"
#include <stdbool.h>
#include <stdint.h>

/* ---- Products ------------------------------------------------------------------------------- */

/*
 * A pass contracts one index of a tensor with one factor F, `depth` by `outs`:
 *   columns   y[b y_block + q y_step + c] = sum_p F[p, q] x[b x_block + p x_step + c]
 *   slices    y[b y_block + q]            = sum_p F[p, q] x[b x_block + p x_step]
 * for b < blocks, q < outs and, in columns, c < cols.  Sums run over p = 0, 1, ... with one
 * multiply-add each in both, so that an element does not depend on which of them computed it.
 * Strides count elements.
 *
 * Vectors overlap where they do not fit; but of less than few_lanes numbers columns (cols) reads
 * and writes few_lanes of them, slices (outs) writes them.  What is written beyond a row is written
 * before the row that follows it in memory, so passes into scratch need that much room at the end
 * and nothing else.
 */
struct gram_kron_pass {
    int64_t blocks, depth, outs, cols;
    const void *x, *factor; /* factor: as pack_columns or pack_slices left it */
    void *y;
    int64_t x_block, x_step, y_block, y_step;
};
typedef void gram_kron_kernel(const struct gram_kron_pass *pass);

struct gram_kron_kernels {
    int rows;             /* most rows of a register tile */
    int lanes, few_lanes; /* numbers of a vector, and of the one for short rows */
    gram_kron_kernel *columns, *slices;
};

/*
 * Factors as the kernels read them.  columns: panels of at most `rows` outputs, all but a few of
 * one size, of which p = 0, 1, ... follow each other.  slices: pairs of vectors of outputs (the
 * last one alone if their number is odd), again with p running inside; the last vector ends with
 * the last output if there are enough of them, else zeros fill it up.
 */

/* How many panels `outs` outputs are cut into. */
static inline int64_t gram_kron_panels(const struct gram_kron_kernels *k, int64_t outs)
{
    return gram_ceil_div(outs, k->rows);
}

/* The numbers in a vector of slices. */
static inline int64_t gram_kron_slice_lanes(const struct gram_kron_kernels *k, int64_t outs)
{
    return outs < k->lanes ? k->few_lanes : k->lanes;
}

/* The first output of a vector of slices. */
static inline int64_t gram_kron_slice_first(int64_t vector, int64_t lanes, int64_t outs)
{
    return outs < lanes ? 0 : gram_least(vector * lanes, outs - lanes);
}

/* Elements of a packed factor. */
static inline int64_t gram_kron_slice_elements(const struct gram_kron_kernels *k, int64_t depth,
                                               int64_t outs)
{
    int64_t lanes = gram_kron_slice_lanes(k, outs);

    return depth * gram_round_up(outs, lanes);
}

/* ---- Gradients ------------------------------------------------------------------------------ */

/* out[j q + i] += alpha sum over s < depth of right[i right_step + s] left[s p + j], i < q, j < p;
 * p is at least the lanes of the kernel. */
struct gram_kron_gradient {
    int64_t depth, p, q, right_step;
    const void *left, *right;
    void *out;
    double alpha;
};
typedef void gram_kron_gradient_kernel(const struct gram_kron_gradient *t);

struct gram_kron_vjp_kernels {
    int lanes[2]; /* of the two kernels: the most, and half of it */
    gram_kron_gradient_kernel *gradient[2];
};

/* ---- Solves --------------------------------------------------------------------------------- */

enum {
    KRON_SOLVE_SMALL = 64 /* the largest n that is divided by without LAPACK */
};

/*
 * Two sweeps through each of some systems of n unknowns, matrix being n by n, row-major:
 *   y[j] = (b[j] - sum over k < j of matrix[j][k] y[k]) reciprocal[j]
 *   z[j] = (y[j] - sum over k > j of matrix[j][k] z[k]) reciprocal[j], or without that if unit
 * and then z[from[j]] is unknown j.  With P L U = F as LAPACK leaves it, by columns, and the
 * reciprocals of U's diagonal, that is F^T z = b; with L in both triangles it is L L^T z = b.
 */
struct gram_kron_sweeps {
    int64_t n;
    const void *matrix, *reciprocal;
    const int32_t *from;
    bool unit;
};

/* Solves systems first to last in place.  Unknown j of system q is
 *   data[(q / right * n + j) * right + q % right].
 * Neighbouring systems go side by side in the lanes of a vector, and what is in one does not touch
 * another. */
typedef void gram_kron_solve_kernel(const struct gram_kron_sweeps *s, int64_t right, int64_t first,
                                    int64_t last, void *data);
#endif
