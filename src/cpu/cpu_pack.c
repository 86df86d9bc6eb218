/*
 * cpu_pack.c - panels from f32, f64, f16 and bf16: pack_panel.h once for each
 *
 * Packing costs one pass over x and y, against n or m steps for each of their elements.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_pack.h"
#include <math.h>
#include <string.h>

#define TEMPLATE "cpu/pack_panel.h"
#define INTEGERS 0
#include "each_dtype.h"

void gram_pack_panel(const struct gram_rows *from, int64_t count, int64_t depth, int64_t width,
                     void *panel)
{
    if (from->dtype == GRAM_F32)
        pack_f32(from, count, depth, width, panel);
    else if (from->dtype == GRAM_F64)
        pack_f64(from, count, depth, width, panel);
    else if (from->dtype == GRAM_F16)
        pack_f16(from, count, depth, width, panel);
    else
        pack_bf16(from, count, depth, width, panel);
}

void gram_pack_norms(const struct gram_rows *from, int64_t count, int64_t cols, double *inverse)
{
    if (from->dtype == GRAM_F32)
        norms_f32(from, count, cols, inverse);
    else if (from->dtype == GRAM_F64)
        norms_f64(from, count, cols, inverse);
    else if (from->dtype == GRAM_F16)
        norms_f16(from, count, cols, inverse);
    else
        norms_bf16(from, count, cols, inverse);
}

struct gram_rows gram_rows_at(const struct gram_view *v, const struct gram_batch *batch,
                              int64_t item, int64_t row, int64_t col)
{
    struct gram_rows at = {gram_view_item(v, batch, item), v->dtype, v->row_stride, v->col_stride};

    if (at.data)
        at.data += (row * v->row_stride + col * v->col_stride) * (int64_t)gram_dtype_size(v->dtype);
    return at;
}
