/*
 * move.h - the strided move of the CPU: a matrix, or a triangle of it, to another place
 *
 *     to[i][j]  = from[i][order[j]]        or, with add,
 *     to[i][j] += from[i][order[j]]
 *
 * Both sides have any strides, so that a move also transposes, gathers columns and packs what BLAS
 * is to read.  cpu_convert changes the dtype on the way.  The sides may overlap only where the move
 * mirrors one triangle of a matrix to the other, as cpu_mirror does.
 *
 * Three kinds of copies have functions of their own: panels for tiles (of cdist, cdist_grad and
 * kron_matmul), layers of networks, whose rows are axes of several dimensions
 * (layers/cpu_layer.h), and sums that a copy scales on its way.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_MOVE_H
#define GRAM_CPU_MOVE_H
#include "core/view.h"

enum cpu_move_part {
    CPU_MOVE_ALL,
    CPU_MOVE_LOWER, /* j <= i + diagonal */
    CPU_MOVE_UPPER  /* j >= i + diagonal */
};

/* Strides are in elements, first from row to row, then from column to column. */
struct cpu_move {
    void *to;
    const void *from;
    int64_t to_stride[2], from_stride[2];
    int64_t rows, cols;
    enum cpu_move_part part;
    int64_t diagonal;     /* of a triangle; 0 is the main diagonal */
    const int32_t *order; /* NULL: columns stay in their order */
    bool add;             /* to both sides' elements of f32 or f64, which have the same dtype */
};

/* A move between elements of the same dtype, whichever it is. */
void cpu_move(gram_dtype dtype, const struct cpu_move *m);
/* The same by all threads of the context, where it is large enough to wake them. */
void cpu_move_parallel(gram_context *g, gram_dtype dtype, const struct cpu_move *m);

/* A move from elements of one dtype to those of another, rounded to nearest.  At least one of them
 * is f32 or f64; m->add is false. */
void cpu_convert(gram_dtype to, gram_dtype from, const struct cpu_move *m);

/* The move of a whole matrix between two views of the same shape, whose items are given. */
static inline struct cpu_move cpu_move_between(const struct gram_view *to, void *to_item,
                                               const struct gram_view *from, const void *from_item)
{
    return (struct cpu_move){
        .to = to_item,
        .from = from_item,
        .to_stride = {  to->row_stride,   to->col_stride},
        .from_stride = {from->row_stride, from->col_stride},
        .rows = from->rows,
        .cols = from->cols,
    };
}

/* Makes an n by n matrix of f32 or f64 without gaps symmetric: column-major, its lower triangle
 * goes to the upper one; row-major, its upper triangle to the lower one. */
void cpu_mirror(gram_dtype dtype, int64_t n, void *matrix);

/* Fills an item of a matrix of f32 or f64 with NaN. */
void cpu_fill_nan(const struct gram_view *v, void *item);
#endif
