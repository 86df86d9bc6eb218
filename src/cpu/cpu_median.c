/*
 * cpu_median.c - the median distance between rows: a sample, its distances, a selection
 *
 * Items one after the other.  Scratch: the distances of r rows, r by r, of which the upper half is
 * gathered in place; a copy of the rows if they are a sample; what cpu_cdist needs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../random.h"
#include "cpu_cdist.h"
#include <math.h>
#include <string.h>

#define SUFFIX f32
#define real   float
#include "median_select.h"

#define SUFFIX f64
#define real   double
#include "median_select.h"

struct median_plan {
    struct cdist_plan distances; /* of the sample of one item */
    bool sampled;
    size_t rows_at, cdist_at, bytes;
};

static void plan_median(const gram_context *g, const struct gram_median_op *op,
                        struct median_plan *plan)
{
    gram_dtype dtype = op->out.dtype;
    size_t element = gram_dtype_size(dtype), stored = gram_dtype_size(op->x.dtype);
    struct gram_cdist_op one = {
        .batch.count = 1,
        .x = op->x,
        .out = {.dtype = dtype,
                .planes = 1,
                .rows = op->rows,
                .cols = op->rows,
                .row_stride = op->rows,
                .col_stride = 1},
        .symmetric = true,
        .inner = GRAM_DIFFERENCE,
        .root = op->root,
        .outer_power.value = 1,
        .function = GRAM_IDENTITY,
        .output = GRAM_VALUE
    };

    *plan = (struct median_plan){.sampled = op->rows < op->x.rows};
    one.x.rows = op->rows;
    if (plan->sampled)
        one.x.row_stride = op->x.cols, one.x.col_stride = 1;
    one.y = one.x;
    if (op->batch.count == 0 || op->rows < 2)
        return; /* nothing to do in 0 bytes */
    cpu_cdist_plan(g, &one, &plan->distances);
    plan->rows_at = gram_round64((size_t)(op->rows * op->rows) * element);
    plan->cdist_at = plan->rows_at;
    if (plan->sampled)
        plan->cdist_at += gram_round64((size_t)(op->rows * op->x.cols) * stored);
    plan->bytes = plan->cdist_at + plan->distances.bytes;
}

static void copy_row(const struct gram_view *x, const char *row, char *to)
{
    int64_t size = (int64_t)gram_dtype_size(x->dtype);

    for (int64_t k = 0; k < x->cols; k++)
        memcpy(to + k * size, row + k * x->col_stride * size, (size_t)size);
}

/* Each row in turn is taken with probability (still wanted) / (still to come), which makes every
 * set of rows equally likely (Knuth, The Art of Computer Programming, 3.4.2, algorithm S). */
static void sample(const struct gram_median_op *op, const char *item, char *to)
{
    int64_t size = (int64_t)gram_dtype_size(op->x.dtype), wanted = op->rows;
    uint64_t state = op->seed;

    for (int64_t i = 0; wanted > 0; i++) {
        if (gram_random_below(&state, op->x.rows - i) >= wanted)
            continue;
        copy_row(&op->x, item + i * op->x.row_stride * size, to);
        to += op->x.cols * size;
        wanted--;
    }
}

static void put(const struct gram_median_op *op, int64_t item, double value)
{
    char *to = gram_view_item(&op->out, &op->batch, item);

    if (op->out.dtype == GRAM_F32)
        *(float *)to = (float)value;
    else
        *(double *)to = value;
}

static void one_item(const struct gram_median_op *op, struct median_plan *plan, int64_t item,
                     char *scratch)
{
    struct gram_cdist_op *one = &plan->distances.op;
    char *x = gram_view_item(&op->x, &op->batch, item);

    if (plan->sampled && op->x.cols > 0) {
        sample(op, x, scratch + plan->rows_at);
        x = scratch + plan->rows_at;
    }
    one->x.data = one->y.data = x;
    one->out.data = scratch;
    one->p.value = gram_hyper_at(&op->p, &op->batch, item);
    cpu_cdist_run(&plan->distances, scratch + plan->cdist_at);
    put(op, item,
        op->out.dtype == GRAM_F32 ? median_f32((float *)scratch, op->rows)
                                  : median_f64((double *)scratch, op->rows));
}

gram_status cpu_median(gram_context *g, const struct gram_median_op *op)
{
    struct median_plan plan;
    void *scratch;

    plan_median(g, op, &plan);
    TRY(gram_scratch(g, plan.bytes, &scratch));
    for (int64_t item = 0; item < op->batch.count; item++)
        if (plan.bytes > 0)
            one_item(op, &plan, item, scratch);
        else
            put(op, item, NAN);
    return GRAM_OK;
}

size_t cpu_median_workspace(const gram_context *g, const struct gram_median_op *op)
{
    struct median_plan plan;

    plan_median(g, op, &plan);
    return plan.bytes;
}
