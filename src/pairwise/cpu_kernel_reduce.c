/*
 * cpu_kernel_reduce.c - extremes and soft sums of the rows of a kernel matrix on the CPU
 *
 * Blocks of the matrix come from cpu_pair_blocks.c.  A soft sum keeps the largest exponent so far;
 * where a block has a larger one, what was summed is scaled down.  Sums are doubles, in an order
 * that depends on sizes alone.  Where a strip has several parts, their results are merged in order.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_pair_blocks.h"
#include "pairwise.h"
#include <math.h>

/* What is known of a row.  Of extremes: the value and where it is.  Of soft sums: the largest
 * exponent, and the sum of exp(exponent - largest); the weighted sums of v lie apart. */
struct reduce_row {
    double value, sum;
    int64_t index; /* -1: there was none */
};

struct reduce_job {
    const struct gram_kernel_reduce_op *op;
    const struct gram_cpu_kernels *kernels;
    struct pair_walk walk;
    struct gram_map exponential; /* s to exp(-s) */
    bool merged;                 /* strips have several parts */
    int64_t columns;             /* of v */
    /* Scratch: rows and their weighted sums, of each thread, or of each task where they are
     * merged; exponentials of each thread. */
    struct reduce_row *rows;
    double *sums;
    char *weights;
    size_t weights_bytes;
};

static bool is_soft(const struct reduce_job *job)
{
    return job->op->what == GRAM_REDUCE_LOGSUMEXP || job->op->what == GRAM_REDUCE_SOFTMAX;
}

static int64_t place_of(const struct reduce_job *job, const struct pair_strip *strip)
{
    return (job->merged ? strip->task : strip->thread) * job->walk.strip_rows;
}

static double value_at(gram_dtype dtype, const void *values, int64_t at)
{
    return dtype == GRAM_F32 ? (double)((const float *)values)[at] : ((const double *)values)[at];
}

/* ---- Loops over one dtype ------------------------------------------------------------------- */

#define TEMPLATE "pairwise/kernel_reduce_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

/* ---- Extremes ------------------------------------------------------------------------------- */

/* A later extreme, at a higher index, replaces an earlier one only if it is beyond it. */
static void offer(const struct reduce_job *job, struct reduce_row *row, double value, int64_t index)
{
    const bool least = job->op->what == GRAM_REDUCE_MIN;

    if (index < 0 || (row->index >= 0 && isnan(row->value)))
        return;
    if (row->index < 0 || isnan(value) || (least ? value < row->value : value > row->value))
        row->value = value, row->index = index;
}

static void take_extreme(const struct reduce_job *job, const struct pair_block *block,
                         const char *values, struct reduce_row *row)
{
    const bool least = job->op->what == GRAM_REDUCE_MIN;
    int64_t at = job->walk.dtype == GRAM_F32
                     ? first_extreme_f32(block->cols, (const float *)values, least)
                     : first_extreme_f64(block->cols, (const double *)values, least);

    offer(job, row, value_at(job->walk.dtype, values, at), block->j + at);
}

/* ---- Soft sums ------------------------------------------------------------------------------ */

/* exp(a - b) for a <= b, where both may be -INFINITY. */
static double ratio(double a, double b)
{
    return a == b && isinf(a) ? 1 : exp(a - b);
}

/* Makes `largest` the exponent that the sums of a row refer to. */
static void refer(const struct reduce_job *job, struct reduce_row *row, double *sums,
                  double largest)
{
    const double by = row->sum == 0 ? 0 : ratio(row->value, largest);

    row->value = largest;
    row->sum *= by;
    for (int64_t c = 0; c < job->columns; c++)
        sums[c] *= by;
}

/* The numbers of v that belong to a block. */
static const char *rows_of_v(const struct reduce_job *job, int64_t item, int64_t j)
{
    const struct gram_view *v = &job->op->v;

    return gram_view_item(v, &job->op->kernel.batch, item) + j * v->row_stride * job->walk.element;
}

static void take_soft(const struct reduce_job *job, const struct pair_strip *strip,
                      const struct pair_block *block, const char *values, int64_t place)
{
    const bool is_float = job->walk.dtype == GRAM_F32;
    char *weights = job->weights + (size_t)strip->thread * job->weights_bytes;
    struct reduce_row *row = &job->rows[place];
    double *sums = job->sums + place * job->columns, largest, scale = job->op->scale;

    largest = is_float ? largest_f32(block->cols, (const float *)values, scale)
                       : largest_f64(block->cols, (const double *)values, scale);
    if (!(largest < INFINITY)) /* NaN, or an exponential that is infinite */
        largest = NAN;
    if (!(largest <= row->value))
        refer(job, row, sums, isnan(row->value) ? NAN : largest);
    if (row->value == -INFINITY) /* all weights are equal, and 0 */
        return;
    if (is_float)
        exponents_f32(block->cols, (const float *)values, scale, row->value, (float *)weights);
    else
        exponents_f64(block->cols, (const double *)values, scale, row->value, (double *)weights);
    job->kernels->map[job->walk.dtype](block->cols, weights, &job->exponential, NULL);
    row->sum += is_float ? sum_f32(block->cols, (const float *)weights)
                         : sum_f64(block->cols, (const double *)weights);
    if (job->columns == 0)
        return;
    if (is_float)
        weigh_f32(block->cols, (const float *)weights, rows_of_v(job, strip->item, block->j),
                  &job->op->v, sums);
    else
        weigh_f64(block->cols, (const double *)weights, rows_of_v(job, strip->item, block->j),
                  &job->op->v, sums);
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

static void begin(void *of, const struct pair_strip *strip)
{
    const struct reduce_job *job = of;
    const int64_t place = place_of(job, strip);
    const double none = job->op->what == GRAM_REDUCE_MIN ? INFINITY : -INFINITY;

    for (int64_t r = 0; r < strip->rows; r++)
        job->rows[place + r] = (struct reduce_row){.value = none, .index = -1};
    for (int64_t c = 0; c < strip->rows * job->columns; c++)
        job->sums[place * job->columns + c] = 0;
}

static void take(void *of, const struct pair_strip *strip, const struct pair_block *block)
{
    const struct reduce_job *job = of;
    const int64_t place = place_of(job, strip);
    const char *values = block->values;

    for (int64_t r = 0; r < strip->rows; r++) {
        if (is_soft(job))
            take_soft(job, strip, block, values, place + r);
        else
            take_extreme(job, block, values, &job->rows[place + r]);
        values += block->ld * job->walk.element;
    }
}

/* ---- Results -------------------------------------------------------------------------------- */

static void put(const struct gram_view *v, char *item, int64_t row, int64_t col, double value)
{
    const int64_t at = row * v->row_stride + col * v->col_stride;

    if (v->dtype == GRAM_F32)
        ((float *)item)[at] = (float)value;
    else
        ((double *)item)[at] = value;
}

/* Row i of the results of an item. */
static void store(const struct reduce_job *job, int64_t item, int64_t i, int64_t place)
{
    const struct gram_kernel_reduce_op *op = job->op;
    const struct gram_batch *batch = &op->kernel.batch;
    const struct reduce_row *row = &job->rows[place];

    if (op->has_indices)
        ((int64_t *)gram_view_item(&op->indices, batch, item))[i * op->indices.col_stride] =
            row->index;
    if (!op->has_out)
        return;
    if (op->what == GRAM_REDUCE_SOFTMAX) {
        for (int64_t c = 0; c < job->columns; c++)
            put(&op->out, gram_view_item(&op->out, batch, item), i, c,
                job->sums[place * job->columns + c] / row->sum);
        return;
    }
    put(&op->out, gram_view_item(&op->out, batch, item), 0, i,
        !is_soft(job)       ? row->value
        : row->sum == 0     ? -INFINITY
        : isnan(row->value) ? NAN
                            : row->value + log(row->sum));
}

static void end(void *of, const struct pair_strip *strip)
{
    const struct reduce_job *job = of;
    const int64_t place = place_of(job, strip);

    for (int64_t r = 0; !job->merged && r < strip->rows; r++)
        store(job, strip->item, strip->i + r, place + r);
}

/* Adds what a later part knows of a row. */
static void merge(const struct reduce_job *job, int64_t to, int64_t from)
{
    struct reduce_row *row = &job->rows[to], *other = &job->rows[from];
    double *sums = job->sums + to * job->columns, *others = job->sums + from * job->columns;

    if (!is_soft(job)) {
        offer(job, row, other->value, other->index);
        return;
    }
    if (!(other->value <= row->value))
        refer(job, row, sums, isnan(row->value) ? NAN : other->value);
    else
        refer(job, other, others, row->value);
    row->sum += other->sum;
    for (int64_t c = 0; c < job->columns; c++)
        sums[c] += others[c];
}

/* Merges the parts of a strip into the first one. */
static void merge_task(void *arg, int64_t index, int thread)
{
    const struct reduce_job *job = arg;
    const struct pair_walk *walk = &job->walk;
    const int64_t i = index % walk->strips * walk->strip_rows,
                  rows = gram_least(walk->strip_rows, walk->op.x.rows - i);

    (void)thread;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t place = index * walk->parts * walk->strip_rows + r;
        for (int64_t part = 1; part < walk->parts; part++)
            merge(job, place, place + part * walk->strip_rows);
        store(job, index / walk->strips, i + r, place);
    }
}

/* ---- The call ------------------------------------------------------------------------------- */

static gram_status open_job(gram_context *g, const struct gram_kernel_reduce_op *op,
                            struct reduce_job *job)
{
    struct pair_walk *walk = &job->walk;
    struct gram_layout layout = {0};
    size_t threads, rows;

    *job = (struct reduce_job){
        .op = op,
        .kernels = gram_cpu_kernels_of(g),
        .columns = op->what == GRAM_REDUCE_SOFTMAX ? op->v.cols : 0,
        .exponential = {.inner = GRAM_DIFFERENCE,
                        .function = GRAM_LAPLACE,
                        .output = GRAM_VALUE,
                        .p = 1,
                        .outer = 1,
                        .bandwidth = 1},
    };
    walk->g = g, walk->op = op->kernel, walk->name = "kernel_reduce strip";
    walk->begin = begin, walk->take = take, walk->end = end, walk->of = job;
    cpu_pair_walk_plan(walk, sizeof(struct reduce_row) + (size_t)job->columns * sizeof(double));
    gram_map_prepare(&job->exponential, walk->dtype);
    job->merged = walk->parts > 1;
    threads = (size_t)gram_least(g->threads, walk->tasks);
    rows = (job->merged ? (size_t)walk->tasks : threads) * (size_t)walk->strip_rows;
    job->weights_bytes = gram_round64((size_t)(walk->ld * walk->element));
    cpu_pair_walk_take(walk, &layout);
    gram_take_many(&layout, &job->rows, rows, sizeof(struct reduce_row));
    gram_take_many(&layout, &job->sums, rows, (size_t)job->columns * sizeof(double));
    gram_take_many(&layout, &job->weights, threads, job->weights_bytes);
    return gram_layout_open(g, &layout);
}

gram_status cpu_kernel_reduce(gram_context *g, const struct gram_kernel_reduce_op *op)
{
    struct reduce_job job;

    if (op->kernel.batch.count == 0 || op->kernel.x.rows == 0)
        return GRAM_OK;
    TRY(open_job(g, op, &job));
    TRY(cpu_pair_walk_run(&job.walk));
    if (job.merged)
        gram_parallel_for(g, op->kernel.batch.count * job.walk.strips, merge_task, &job);
    return GRAM_OK;
}
