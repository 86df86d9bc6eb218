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

enum {
    LEADING_BITS = 12
};

#define TEMPLATE "pairwise/median_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

struct median_job {
    const struct gram_median_op *op;
    struct cdist_plan distances; /* of the sample of one item */
    bool empty;                  /* there are no distances */
    char *matrix, *rows;         /* scratch: the distances, and a copy of the rows of a sample */
};

static gram_status open_job(gram_context *g, const struct gram_median_op *op,
                            struct median_job *job)
{
    const struct gram_cdist_op one = gram_median_distances(op);
    struct gram_layout layout = {0};

    *job = (struct median_job){.op = op, .empty = op->batch.count == 0 || op->rows < 2};
    if (!job->empty) {
        cpu_cdist_plan(g, &one, &job->distances);
        gram_take(&layout, &job->matrix,
                  (size_t)(op->rows * op->rows) * gram_dtype_size(op->out.dtype));
        if (gram_median_sampled(op))
            gram_take(&layout, &job->rows,
                      (size_t)(op->rows * op->x.cols) * gram_dtype_size(op->x.dtype));
        cpu_cdist_take(&job->distances, &layout);
    }
    return gram_layout_open(g, &layout);
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

static void run_item(struct median_job *job, int64_t item)
{
    const struct gram_median_op *op = job->op;
    struct gram_cdist_op *one = &job->distances.op;
    char *x = gram_view_item(&op->x, &op->batch, item);

    if (gram_median_sampled(op) && op->x.cols > 0) {
        sample(op, x, job->rows);
        x = job->rows;
    }
    one->x.data = one->y.data = x;
    one->out.data = job->matrix;
    one->p.value = gram_hyper_at(&op->p, &op->batch, item);
    cpu_cdist_run(&job->distances);
    store_median(op, item,
                 op->out.dtype == GRAM_F32 ? median_f32((float *)job->matrix, op->rows)
                                           : median_f64((double *)job->matrix, op->rows));
}

gram_status cpu_median(gram_context *g, const struct gram_median_op *op)
{
    struct median_job job;

    TRY(open_job(g, op, &job));
    for (int64_t item = 0; item < op->batch.count; item++)
        if (job.empty)
            store_median(op, item, NAN);
        else
            run_item(&job, item);
    return GRAM_OK;
}
