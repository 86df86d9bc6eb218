/*
 * cpu_cdist_grad_pack.c - moves pieces of strided matrices into panels, and tiles back out
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_cdist_grad_pack.h"
#include <string.h>

enum {
    AHEAD = 4, /* rows between what is prefetched and what is packed: 10 % of p = 1, one output */
};

#define real      float
#define PACK      pack_f32
#define PACK_ROWS pack_rows_f32
#define STORE     store_f32
#include "cpu_cdist_grad_move.h"
#define real      double
#define PACK      pack_f64
#define PACK_ROWS pack_rows_f64
#define STORE     store_f64
#include "cpu_cdist_grad_move.h"

const struct grad_moves *cpu_grad_moves(gram_dtype dtype)
{
    static const struct grad_moves f32 = {pack_f32, store_f32}, f64 = {pack_f64, store_f64};

    return dtype == GRAM_F32 ? &f32 : &f64;
}

static int64_t overlap(int64_t size, int64_t first, int64_t wanted)
{
    return size - first < wanted ? size - first : wanted;
}

struct grad_piece cpu_grad_part(const struct grad_piece *of, struct grad_range range,
                                size_t element)
{
    struct grad_piece part = *of;
    int64_t offset = range.row * of->row_stride + range.col * of->col_stride;

    part.rows = overlap(of->rows, range.row, range.rows);
    part.cols = overlap(of->cols, range.col, range.cols);
    if (part.data) /* an empty matrix may have none */
        part.data += offset * (int64_t)element;
    return part;
}

struct grad_piece cpu_grad_part_transposed(const struct grad_piece *of, struct grad_range range,
                                           size_t element)
{
    const struct grad_piece t = {of->data, of->cols, of->rows, of->col_stride, of->row_stride};

    return cpu_grad_part(&t, range, element);
}

struct grad_piece cpu_grad_piece(const struct gram_view *v, const struct gram_batch *batch,
                                 int64_t item, struct grad_range range)
{
    const struct grad_piece whole = {gram_view_item(v, batch, item), v->rows, v->cols,
                                     v->row_stride, v->col_stride};

    return cpu_grad_part(&whole, range, gram_dtype_size(v->dtype));
}
