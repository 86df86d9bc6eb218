/*
 * cpu_kernel_reduce.c - extremes and soft sums of the rows of a kernel matrix on the CPU
 *
 * Blocks of the matrix come from cpu_pair_blocks.c.  A soft sum keeps the largest exponent so far;
 * where a block has a larger one, what was summed is scaled down.  Some rows at a time, a block
 * becomes exponentials in pieces that stay in L1 (kernel_reduce_tile.h), and these are multiplied
 * by v (kernel_matmul_tile.h).  The sums of a block are of the dtype, those of all blocks are
 * doubles, in an order that depends on sizes alone.  Where a strip has several parts, their results
 * are merged in order.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_pair_blocks.h"
#include "pairwise.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    GROUP = 24,       /* rows at a time: whole tiles of every instruction set */
    PIECE_BYTES = 768 /* of a row of a piece: with GROUP rows 18 KiB of L1 */
};

/* What is known of a row.  Of extremes: the value and where it is.  Of soft sums: the largest
 * exponent, and the sum of exp(exponent - largest); the weighted sums of v lie apart. */
struct reduce_row {
    double value, sum;
    double reference; /* of soft sums: what the tile calls the largest */
    int64_t index;    /* -1: there was none */
};

struct reduce_job {
    const struct gram_kernel_reduce_op *op;
    const struct gram_reduce_kernels *kernels;
    const struct gram_product_kernels *products;
    struct pair_walk walk;
    bool merged;             /* strips have several parts */
    int64_t columns, padded; /* of v, and with zeros behind them */
    double scale;            /* a number of the dtype */
    /* Scratch: rows and their weighted sums, of each thread, or of each task where they are
     * merged; and a share of each thread. */
    struct reduce_row *rows;
    double *sums;
    char *shares;
    size_t share_bytes;
};

/* A thread's scratch. */
struct reduce_share {
    char *weights;         /* a piece */
    char *sums;            /* of the rows of a group: a vector each */
    char *products;        /* a vector for each column of v and each row of a group */
    char *v, *logs;        /* of a block, packed */
    double largest[GROUP]; /* not scratch: of the rows of a group */
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

static void take_share(const struct reduce_job *job, struct reduce_share *share,
                       struct gram_layout *layout)
{
    const size_t vectors = GROUP * (size_t)job->products->vector_bytes;

    *share = (struct reduce_share){0};
    if (!is_soft(job))
        return;
    gram_take(layout, &share->weights, (size_t)GROUP * PIECE_BYTES);
    gram_take(layout, &share->sums, vectors);
    gram_take(layout, &share->products, vectors * (size_t)job->padded);
    gram_take(layout, &share->logs,
              job->op->has_log_weights ? (size_t)(job->walk.ld * job->walk.element) : 0);
    gram_take(layout, &share->v, (size_t)(job->padded * job->walk.ld * job->walk.element));
}

static struct reduce_share share_of(const struct reduce_job *job, int thread)
{
    struct gram_layout layout = {0};
    struct reduce_share share;

    take_share(job, &share, &layout);
    gram_layout_place(&layout, job->shares + (size_t)thread * job->share_bytes);
    return share;
}

/* ---- Loops over one dtype ------------------------------------------------------------------- */

#define TEMPLATE "pairwise/kernel_reduce_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

/* ---- Extremes ------------------------------------------------------------------------------- */

/* True if a later extreme, at a higher index, replaces an earlier one: if it is beyond it. */
static bool replaces(const struct reduce_job *job, const struct reduce_row *row, double value)
{
    if (row->index < 0 || isnan(row->value))
        return row->index < 0;
    if (isnan(value))
        return true;
    return job->op->what == GRAM_REDUCE_MIN ? value < row->value : value > row->value;
}

static void take_extreme(const struct reduce_job *job, const struct pair_block *block,
                         const char *values, struct reduce_row *row)
{
    const double sign = job->op->what == GRAM_REDUCE_MIN ? -1 : 1;
    const double value = sign * job->kernels->largest(block->cols, values, sign, NULL);
    int64_t at;

    if (!replaces(job, row, value))
        return;
    at = job->kernels->find(block->cols, values, value);
    row->value = value_at(job->walk.dtype, values, at);
    row->index = block->j + at;
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

/* Finds the largest exponent of a row of a block. */
static void take_largest(const struct reduce_job *job, const struct reduce_share *share,
                         const struct pair_block *block, const char *values, int64_t place)
{
    const double scale = job->op->scale, sign = scale < 0 ? -1 : 1;
    struct reduce_row *row = &job->rows[place];
    double reference, largest;

    if (job->op->has_log_weights) {
        reference = job->kernels->largest(block->cols, values, job->scale, share->logs);
        largest = reference;
    } else {
        reference = sign * job->kernels->largest(block->cols, values, sign, NULL);
        largest = scale == 0 && !isnan(reference) ? 0 : scale * reference;
    }
    if (!(largest < INFINITY)) /* NaN, or an exponential that is infinite */
        largest = NAN;
    if (largest <= row->value)
        return;
    refer(job, row, job->sums + place * job->columns, isnan(row->value) ? NAN : largest);
    row->reference = isnan(row->value) ? NAN : reference;
}

/* The columns of a matrix whose rows belong to those of a block, packed. */
static void pack(const struct reduce_job *job, const struct gram_view *matrix, int64_t padded,
                 const struct pair_block *block, char *to)
{
    const struct gram_view rows = gram_view_rows(matrix, block->j, block->cols);

    if (job->walk.dtype == GRAM_F32)
        pack_columns_f32(&rows, padded, job->walk.ld, (float *)to);
    else
        pack_columns_f64(&rows, padded, job->walk.ld, (double *)to);
}

/* What belongs to a block of v and of the log-weights, packed. */
static void pack_block(const struct reduce_job *job, int64_t item, const struct pair_block *block,
                       const struct reduce_share *share)
{
    const struct gram_kernel_reduce_op *op = job->op;
    struct gram_view v, logs;

    if (job->padded > 0) {
        v = gram_view_alone(&op->v, &op->kernel.batch, item);
        pack(job, &v, job->padded, block, share->v);
    }
    if (op->has_log_weights) { /* a row, which becomes a column */
        logs = gram_view_alone(&op->log_weights, &op->kernel.batch, item);
        logs.rows = logs.cols, logs.row_stride = logs.col_stride;
        logs.cols = 1, logs.col_stride = 1;
        pack(job, &logs, 1, block, share->logs);
    }
}

/* Adds a piece's exponentials times v, whose rows begin at column `col` of the block. */
static void multiply(const struct reduce_job *job, const struct reduce_share *share,
                     const struct gram_reduce_tile *piece, int64_t col)
{
    const int64_t element = job->walk.element, vector = job->products->vector_bytes;
    struct gram_product_tile t = {.rows = piece->rows,
                                  .vectors = gram_ceil_div(piece->cols * element, vector),
                                  .k = piece->weights,
                                  .ldk = piece->ldw,
                                  .ldv = job->walk.ld};

    for (int64_t c = 0; c < job->padded;
         c += INT64_C(1) << gram_product_width(job->products, job->padded - c)) {
        t.v = share->v + (c * t.ldv + col) * element;
        t.sums = share->products + c * GROUP * vector;
        job->products->rows[gram_product_width(job->products, job->padded - c)](&t);
    }
}

/* Adds the sums of row r of a group to those of all blocks. */
static void add_row(const struct reduce_job *job, const struct reduce_share *share, int64_t r,
                    int64_t place)
{
    const int64_t vector = job->products->vector_bytes;
    double *sums = job->sums + place * job->columns;

    if (job->rows[place].value == -INFINITY) /* all weights are equal, and 0 */
        return;
    job->products->lanes(1, share->sums + r * vector, &job->rows[place].sum);
    for (int64_t c = 0; c < job->columns;
         c += INT64_C(1) << gram_product_width(job->products, job->padded - c)) {
        const int64_t width = INT64_C(1) << gram_product_width(job->products, job->padded - c);
        job->products->lanes(gram_least(width, job->columns - c),
                             share->products + (c * GROUP + r * width) * vector, sums + c);
    }
}

/* Rows [r, r + rows) of a block, at most GROUP. */
static void take_soft(const struct reduce_job *job, struct reduce_share *share,
                      const struct pair_block *block, int64_t r, int64_t rows, int64_t place)
{
    const int64_t element = job->walk.element, most = PIECE_BYTES / element,
                  vector = job->products->vector_bytes;
    const char *values = (const char *)block->values + r * block->ld * element;
    struct gram_reduce_tile piece = {.rows = rows,
                                     .ld = block->ld,
                                     .ldw = most,
                                     .largest = share->largest,
                                     .scale = job->scale,
                                     .weights = share->weights,
                                     .sums = share->sums};

    for (int64_t i = 0; i < rows; i++) {
        take_largest(job, share, block, values + i * block->ld * element, place + i);
        share->largest[i] = job->rows[place + i].reference;
    }
    memset(share->sums, 0, (size_t)(GROUP * vector));
    memset(share->products, 0, (size_t)(GROUP * job->padded * vector));
    for (int64_t col = 0; col < block->cols; col += most) {
        piece.cols = gram_least(most, block->cols - col);
        piece.values = values + col * element;
        piece.logs = job->op->has_log_weights ? share->logs + col * element : NULL;
        job->kernels->weights(&piece);
        multiply(job, share, &piece, col);
    }
    for (int64_t i = 0; i < rows; i++)
        add_row(job, share, i, place + i);
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
    struct reduce_share share;

    if (!is_soft(job)) {
        for (int64_t r = 0; r < strip->rows; r++, values += block->ld * job->walk.element)
            take_extreme(job, block, values, &job->rows[place + r]);
        return;
    }
    share = share_of(job, strip->thread);
    pack_block(job, strip->item, block, &share);
    for (int64_t r = 0; r < strip->rows; r += GROUP)
        take_soft(job, &share, block, r, gram_least(GROUP, strip->rows - r), place + r);
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
    const double logarithm = !is_soft(job)       ? 0
                             : row->sum == 0     ? -INFINITY
                             : isnan(row->value) ? NAN
                                                 : row->value + log(row->sum);

    if (op->logarithms)
        op->logarithms[item * op->kernel.x.rows + i] = logarithm;
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
        is_soft(job) ? logarithm : row->value);
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
        if (other->index >= 0 && replaces(job, row, other->value))
            *row = *other;
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

/* A number of the dtype, no larger than the largest one. */
static double scale_in(gram_dtype dtype, double scale)
{
    return dtype == GRAM_F32 ? (double)(float)fmin(fmax(scale, -FLT_MAX), FLT_MAX) : scale;
}

static gram_status open_job(gram_context *g, const struct gram_kernel_reduce_op *op,
                            struct reduce_job *job)
{
    struct pair_walk *walk = &job->walk;
    struct gram_layout layout = {0}, one = {0};
    struct reduce_share share;
    size_t threads, rows;

    *job = (struct reduce_job){
        .op = op,
        .columns = op->what == GRAM_REDUCE_SOFTMAX ? op->v.cols : 0,
    };
    walk->g = g, walk->op = op->kernel, walk->name = "kernel_reduce strip";
    walk->begin = begin, walk->take = take, walk->end = end, walk->of = job;
    cpu_pair_walk_plan(walk, sizeof(struct reduce_row) + (size_t)job->columns * sizeof(double));
    job->kernels = gram_cpu_kernels_of(g)->reduce[walk->dtype];
    job->products = gram_cpu_kernels_of(g)->product[walk->dtype];
    job->padded = gram_product_padded(job->products, job->columns);
    job->scale = scale_in(walk->dtype, op->scale);
    job->merged = walk->parts > 1;
    threads = (size_t)gram_least(g->threads, walk->tasks);
    rows = (job->merged ? (size_t)walk->tasks : threads) * (size_t)walk->strip_rows;
    take_share(job, &share, &one);
    job->share_bytes = gram_layout_bytes(&one);
    cpu_pair_walk_take(walk, &layout);
    gram_take_many(&layout, &job->rows, rows, sizeof(struct reduce_row));
    gram_take_many(&layout, &job->sums, rows, (size_t)job->columns * sizeof(double));
    gram_take_many(&layout, &job->shares, threads, job->share_bytes);
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
