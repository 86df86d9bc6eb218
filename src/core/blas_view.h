/*
 * blas_view.h - how a strided matrix goes to BLAS: as it lies, or else packed by rows
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_BLAS_VIEW_H
#define GRAM_BLAS_VIEW_H
#include "blas.h"
#include "view.h"

/* True if rows lie one after the other without gaps between columns. */
static inline bool gram_blas_by_rows(const struct gram_view *v)
{
    return (v->cols == 1 || v->col_stride == 1) && (v->rows == 1 || v->row_stride >= v->cols);
}

/* True if BLAS takes v as it lies. */
static inline bool gram_blas_direct(const struct gram_view *v)
{
    bool by_cols =
        (v->rows == 1 || v->row_stride == 1) && (v->cols == 1 || v->col_stride >= v->rows);

    return (gram_blas_by_rows(v) || by_cols) && v->row_stride <= INT32_MAX &&
           v->col_stride <= INT32_MAX;
}

/* So many bytes behind data; NULL where data is NULL, as of a matrix that has no elements. */
static inline void *gram_blas_behind(const void *data, int64_t bytes)
{
    return data ? (char *)data + bytes : NULL;
}

/* The transpose of v as BLAS sees it, of a v that gram_blas_direct says true of; data is the
 * item's.
 */
static inline struct gram_blas_matrix gram_blas_transpose_of(const struct gram_view *v,
                                                             const void *data)
{
    if (gram_blas_by_rows(v))
        return (struct gram_blas_matrix){data, v->rows == 1 ? v->cols : v->row_stride, false};
    return (struct gram_blas_matrix){data, v->cols == 1 ? v->rows : v->col_stride, true};
}
#endif
