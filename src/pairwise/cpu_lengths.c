/*
 * cpu_lengths.c - points divided by lengths, and gradients of lengths, on the CPU
 *
 * Both go once over points, which is little beside the pairs that they are divided for.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "pairwise.h"
#include <math.h>

enum {
    COLUMNS = 16 /* of a task that sums columns: two cache lines of f64 */
};

/* A row and what it is divided by; steps are strides in elements. */
struct divide_row {
    const void *in, *centre, *lengths; /* centre NULL: none; lengths NULL: all are 1 */
    void *out;
    int64_t in_step, centre_step, lengths_step, out_step, cols;
};

#define TEMPLATE "pairwise/lengths_loops.h"
#define HALVES   1
#define INTEGERS 0
#include "cpu/each_dtype.h"

/* ---- Quotients ------------------------------------------------------------------------------ */

static void divide_row(void *arg, int64_t index, int thread)
{
    static void (*const divide[])(const struct divide_row *row) = {
        [GRAM_F32] = divide_row_f32,
        [GRAM_F64] = divide_row_f64,
        [GRAM_F16] = divide_row_f16,
        [GRAM_BF16] = divide_row_bf16,
    };
    const struct gram_lengths_divide_op *op = arg;
    const int64_t item = index / op->in.rows, i = index % op->in.rows;
    const struct gram_view in = gram_view_alone(&op->in, &op->batch, item);
    const struct gram_view out = gram_view_alone(&op->out, &op->batch, item);
    struct divide_row row = {
        .in = gram_view_rows(&in, i, 1).data,
        .out = gram_view_rows(&out, i, 1).data,
        .in_step = in.col_stride,
        .centre_step = op->centre.col_stride,
        .lengths_step = op->lengths.col_stride,
        .out_step = out.col_stride,
        .cols = in.cols,
    };

    (void)thread;
    if (op->lengths.data)
        row.lengths = gram_view_item(&op->lengths, &op->batch, item);
    if (op->centre.data)
        row.centre = gram_view_item(&op->centre, &op->batch, item);
    divide[in.dtype](&row);
}

gram_status cpu_lengths_divide(gram_context *g, const struct gram_lengths_divide_op *op)
{
    const int64_t rows = op->in.cols > 0 ? op->batch.count * op->in.rows : 0;
    const double ns = 3; /* of an element: a division in double and a stride */

    gram_for(g, ns * (double)rows * (double)op->in.cols, rows, divide_row, (void *)op);
    return GRAM_OK;
}

/* ---- Gradients ------------------------------------------------------------------------------ */

/* Columns [k, k + cols) of a view of one item. */
static struct gram_view columns_of(const struct gram_view *v, const struct gram_batch *batch,
                                   int64_t item, int64_t k)
{
    struct gram_view part = gram_view_alone(v, batch, item);

    if (part.data)
        part.data += k * part.col_stride * (int64_t)gram_dtype_size(part.dtype);
    return part;
}

static int64_t tasks_of(const struct gram_lengths_grad_op *op)
{
    return gram_ceil_div(op->out.cols, COLUMNS);
}

/* Some columns of an item: sums in the order of the rows of x, then of y. */
static void sum_columns(void *arg, int64_t index, int thread)
{
    const struct gram_lengths_grad_op *op = arg;
    const int64_t item = index / tasks_of(op), k = index % tasks_of(op) * COLUMNS;
    const int64_t cols = gram_least(COLUMNS, op->out.cols - k);
    const bool f32 = op->out.dtype == GRAM_F32;
    const struct gram_view *sides[2][2] = {
        {&op->x, &op->to_x},
        {&op->y, &op->to_y},
    };
    const struct gram_view lengths = columns_of(&op->lengths, &op->batch, item, k);
    const struct gram_view out = columns_of(&op->out, &op->batch, item, k);
    double sums[COLUMNS] = {0};

    (void)thread;
    for (int i = 0; i < 2; i++) {
        const struct gram_view points = columns_of(sides[i][0], &op->batch, item, k);
        const struct gram_view to = columns_of(sides[i][1], &op->batch, item, k);
        (f32 ? add_products_f32 : add_products_f64)(&points, &to, cols, sums);
    }
    (f32 ? store_gradient_f32 : store_gradient_f64)(&lengths, &out, cols, sums);
}

gram_status cpu_lengths_grad(gram_context *g, const struct gram_lengths_grad_op *op)
{
    const struct gram_layout none = {0};
    const double elements =
        (double)op->batch.count * (double)op->out.cols * ((double)op->x.rows + (double)op->y.rows);

    TRY(gram_layout_open(g, &none));
    gram_for(g, elements, op->batch.count * tasks_of(op), sum_columns, (void *)op);
    return GRAM_OK;
}
