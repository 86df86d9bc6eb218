/*
 * cpu_cdist_store.c - blocks of finished or partial sums between buffers and an output of any
 * layout
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_cdist.h"
#include <string.h>

static int64_t first_column(const struct cdist_piece *piece, int64_t row)
{
    int64_t first = row + piece->diagonal;

    return first < 0 ? 0 : first > piece->cols ? piece->cols : first;
}

#define SUFFIX f32
#define real   float
#include "cpu_cdist_move.h"

#define SUFFIX f64
#define real   double
#include "cpu_cdist_move.h"

void cpu_cdist_store(const struct cdist_plan *plan, const struct cdist_piece *piece)
{
    if (plan->stream && first_column(piece, piece->rows - 1) == 0)
        plan->kernels->stream_rows(piece->out, piece->row_stride * plan->element, piece->buffer,
                                   piece->ld * plan->element, piece->rows,
                                   piece->cols * plan->element);
    else if (plan->dtype == GRAM_F32)
        store_f32(piece);
    else
        store_f64(piece);
}

void cpu_cdist_load(const struct cdist_plan *plan, const struct cdist_piece *piece)
{
    if (plan->dtype == GRAM_F32)
        load_f32(piece);
    else
        load_f64(piece);
}

void cpu_cdist_mirror(const struct cdist_plan *plan, const struct cdist_piece *piece)
{
    if (plan->dtype == GRAM_F32)
        mirror_f32(piece);
    else
        mirror_f64(piece);
}
