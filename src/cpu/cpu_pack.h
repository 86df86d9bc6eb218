/*
 * cpu_pack.h - strided matrices of any dtype into panels, the form that distance tiles read
 *
 * A panel holds `width` rows of a matrix with the columns outermost: panel[k*width + r] = row r,
 * column k, zeros where there is no row.  f16 and bf16 become f32.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_PACK_H
#define GRAM_CPU_PACK_H
#include "core/view.h"

/* Rows from data on; strides in elements of dtype. */
struct gram_rows {
    const char *data;
    gram_dtype dtype;
    int64_t row_stride, col_stride;
};

/* Packs count <= width rows of `depth` columns. */
void gram_pack_panel(const struct gram_rows *from, int64_t count, int64_t depth, int64_t width,
                     void *panel);

/* inverse[r] = 1 / |row r|, or 0 for a row of zeros, in double. */
void gram_pack_norms(const struct gram_rows *from, int64_t count, int64_t cols, double *inverse);

/* The dtype of arithmetic on elements of a dtype: f32 for f16 and bf16. */
static inline gram_dtype gram_compute_dtype(gram_dtype dtype)
{
    return dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
}

/* The part of an item that begins at a row and a column. */
struct gram_rows gram_rows_at(const struct gram_view *v, const struct gram_batch *batch,
                              int64_t item, int64_t row, int64_t col);
#endif
