/*
 * cpu_median.c - the median distance between rows: a sample, its distances, a selection
 *
 * Items one after the other.  Scratch: the distances of r rows, r by r, of which the upper half is
 * gathered in place; a copy of the rows if they are a sample; what cpu_cdist needs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/random.h"
#include "cpu_cdist.h"
#include "pairwise.h"
#include <math.h>
#include <string.h>

#define SUFFIX f32
#define real   float
#include "cpu_median_select.h"

#define SUFFIX f64
#define real   double
#include "cpu_median_select.h"

struct median_plan {
    struct cdist_plan distances; /* of the sample of one item */
    size_t rows_at, cdist_at, bytes;
};

static void plan_median(const gram_context *g, const struct gram_median_op *op,
                        struct median_plan *plan)
{
    size_t element = gram_dtype_size(op->out.dtype), stored = gram_dtype_size(op->x.dtype);
    const struct gram_cdist_op one = gram_median_distances(op);

    *plan = (struct median_plan){0};
    if (op->batch.count == 0 || op->rows < 2)
        return; /* nothing to do in 0 bytes */
    cpu_cdist_plan(g, &one, &plan->distances);
    plan->rows_at = gram_round64((size_t)(op->rows * op->rows) * element);
    plan->cdist_at = plan->rows_at;
    if (gram_median_sampled(op))
        plan->cdist_at += gram_round64((size_t)(op->rows * op->x.cols) * stored);
    plan->bytes = plan->cdist_at + plan->distances.bytes;
}

static void copy_row(const struct gram_view *x, const char *row, char *to)
{
    int64_t size = (int64_t)gram_dtype_size(x->dtype);

    for (int64_t k = 0; k < x->cols; k++)
        memcpy(to + k * size, row + k * x->col_stride * size, (size_t)size);
}

static void sample(const struct gram_median_op *op, const char *item, char *to)
{
    int64_t size = (int64_t)gram_dtype_size(op->x.dtype);
    struct gram_random_sample s = {.state = op->seed, .all = op->x.rows, .wanted = op->rows};

    for (int64_t i; (i = gram_random_sample_next(&s)) >= 0; to += op->x.cols * size)
        copy_row(&op->x, item + i * op->x.row_stride * size, to);
}

static void store_median(const struct gram_median_op *op, int64_t item, double value)
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

    if (gram_median_sampled(op) && op->x.cols > 0) {
        sample(op, x, scratch + plan->rows_at);
        x = scratch + plan->rows_at;
    }
    one->x.data = one->y.data = x;
    one->out.data = scratch;
    one->p.value = gram_hyper_at(&op->p, &op->batch, item);
    cpu_cdist_run(&plan->distances, scratch + plan->cdist_at);
    store_median(op, item,
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
            store_median(op, item, NAN);
    return GRAM_OK;
}

size_t cpu_median_workspace(const gram_context *g, const struct gram_median_op *op)
{
    struct median_plan plan;

    plan_median(g, op, &plan);
    return plan.bytes;
}
