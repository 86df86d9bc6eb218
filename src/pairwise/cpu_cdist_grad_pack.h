/*
 * cpu_cdist_grad_pack.h - moves pieces of strided matrices into panels, and tiles back out
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_CDIST_GRAD_PACK_H
#define GRAM_CPU_CDIST_GRAD_PACK_H
#include "core/view.h"

/* A piece of a matrix: rows by cols elements from data on; strides in elements. */
struct grad_piece {
    char *data;
    int64_t rows, cols, row_stride, col_stride;
};

/* At most `rows` rows from `row` on and `cols` columns from `col` on. */
struct grad_range {
    int64_t row, col, rows, cols;
};

/* Panels next to each other, each with all rows of the piece: panel[q][r][w], w < width, is
 * piece[r][q width + w] factor[r], or 0 where that is outside; there are depth >= rows rows. */
struct grad_panels {
    void *panel;
    int64_t depth, width;
    const char *factor; /* NULL: 1 */
    int64_t factor_stride;
};

struct grad_moves {
    void (*pack)(const struct grad_piece *piece, const struct grad_panels *to);
    /* piece[r][w] = tile[r stride + w], or += with add */
    void (*store)(const struct grad_piece *piece, const void *tile, int64_t stride, bool add);
};

/* For f32 and f64. */
const struct grad_moves *cpu_grad_moves(gram_dtype dtype);

/* The part of a piece that lies in range; of its transpose; and of an item's first plane. */
struct grad_piece cpu_grad_part(const struct grad_piece *of, struct grad_range range,
                                size_t element);
struct grad_piece cpu_grad_part_transposed(const struct grad_piece *of, struct grad_range range,
                                           size_t element);
struct grad_piece cpu_grad_piece(const struct gram_view *v, const struct gram_batch *batch,
                                 int64_t item, struct grad_range range);
#endif
