/*
 * cpu_agop.c - the average gradient outer product on the CPU, a block of points at a time
 *
 *   out[n, l] = (1 / points) sum_{o, m} g[o, n, m] g[o, l, m]
 *
 * The gradients of a block of points are laid out features by (outputs times points), so that the
 * block's part of a tile of out is one matrix product, which is added to both triangles of out from
 * a scratch tile: any strides will do, and out is as symmetric as it was.  The diagonal alone is
 * the squared length of each row.  Blocks and tiles come in order: timing does not matter.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/threads.h"
#include "cpu_cdist.h"
#include "pairwise.h"

enum {
    BLOCK_BYTES = 16 << 20, /* of the gradients that are held: half a last-level cache */
    LEAST_POINTS = 64,      /* of a block, however many features and outputs there are */
    TILE = 512,             /* rows and columns of out in a product */
};

struct agop_job {
    gram_context *g;
    const struct gram_agop_op *op;
    int64_t features, points; /* points: of a whole block */
    size_t element;
    /* Scratch: the gradients of a block, a tile of out, what finding the gradients takes. */
    char *gradients, *tile, *inner;
    size_t inner_bytes;
    struct gram_view out; /* of the item */
    int64_t columns;      /* outputs * points of the block at work */
    double scale;         /* 1 / points */
    bool add;             /* out holds something */
};

/* The gradients of points [first, first + count), as features by (outputs times points). */
static struct gram_cdist_grad_op gradients_of(const struct agop_job *job, int64_t item,
                                              int64_t first, int64_t count)
{
    struct gram_cdist_grad_op grad =
        gram_agop_gradients(job->op, &(struct gram_batch){.count = 1}, item, first, count);

    grad.out = (struct gram_view){.data = job->gradients,
                                  .dtype = grad.a.dtype,
                                  .planes = grad.c.rows,
                                  .rows = grad.d.rows,
                                  .cols = count,
                                  .plane_stride = count,
                                  .row_stride = grad.c.rows * count,
                                  .col_stride = 1};
    return grad;
}

/* The larger need of a whole block's gradients and of the last one's. */
static gram_status measure_gradients(gram_context *g, struct agop_job *job)
{
    int64_t rest = job->points > 0 ? job->op->d.cols % job->points : 0;
    struct gram_cdist_grad_op whole = gradients_of(job, 0, 0, job->points);
    struct gram_cdist_grad_op last = gradients_of(job, 0, 0, rest);
    size_t whole_bytes, last_bytes;

    TRY(gram_measure(g, &whole_bytes, cpu_cdist_grad(g, &whole)));
    TRY(gram_measure(g, &last_bytes, cpu_cdist_grad(g, &last)));
    job->inner_bytes = gram_most_bytes(whole_bytes, last_bytes);
    return GRAM_OK;
}

static struct agop_job make_job(gram_context *g, const struct gram_agop_op *op)
{
    struct agop_job job = {
        .g = g,
        .op = op,
        .features = op->d.rows,
        .element = gram_dtype_size(op->a.dtype),
        .scale = op->points > 0 ? 1 / (double)op->points : 0,
    };
    int64_t row = job.features * op->c.rows * (int64_t)job.element;

    job.points = row > 0 ? BLOCK_BYTES / row : op->d.cols;
    if (job.points < LEAST_POINTS)
        job.points = LEAST_POINTS;
    if (job.points > op->d.cols)
        job.points = op->d.cols;
    return job;
}

static gram_status lay_out(struct agop_job *job)
{
    const int64_t column = job->features * job->op->c.rows, side = gram_least(job->features, TILE);
    struct gram_layout layout = {0};

    TRY(measure_gradients(job->g, job));
    gram_take(&layout, &job->gradients, (size_t)(job->points * column) * job->element);
    gram_take(&layout, &job->tile, job->op->diagonal ? 0 : (size_t)(side * side) * job->element);
    gram_take(&layout, &job->inner, job->inner_bytes);
    return gram_layout_open(job->g, &layout);
}

static double element_at(const struct agop_job *job, const char *data, int64_t index)
{
    return job->element == sizeof(float) ? (double)((const float *)data)[index]
                                         : ((const double *)data)[index];
}

static void store_element(const struct agop_job *job, int64_t at, double value)
{
    char *to = job->out.data + at * (int64_t)job->element;

    if (job->element == sizeof(float))
        *(float *)to = (job->add ? *(float *)to : 0) + (float)value;
    else
        *(double *)to = (job->add ? *(double *)to : 0) + value;
}

/* The squared length of one row of gradients. */
static void square_row(void *arg, int64_t n, int thread)
{
    const struct agop_job *job = arg;
    const char *row = job->gradients + (size_t)(n * job->columns) * job->element;
    double sum = 0;

    (void)thread;
    for (int64_t i = 0; i < job->columns; i++) {
        double g = element_at(job, row, i);
        sum += g * g;
    }
    store_element(job, n * job->out.col_stride, sum * job->scale);
}

/* rows by cols of out from (n, l) on, n >= l: the lower triangle, and its mirror image. */
static void add_tile(const struct agop_job *job, int64_t n, int64_t l, int64_t rows, int64_t cols)
{
    char *tile = job->tile;
    const struct gram_blas_matrix left = {
        job->gradients + (size_t)(l * job->columns) * job->element, job->columns, true};
    const struct gram_blas_matrix right = {
        job->gradients + (size_t)(n * job->columns) * job->element, job->columns, false};
    const int64_t mnk[3] = {cols, rows, job->columns}, r = job->out.row_stride,
                  c = job->out.col_stride;

    gram_blas_gemm(job->op->a.dtype, mnk, job->scale, left, right, 0, tile, cols);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols && l + j <= n + i; j++) {
            double value = element_at(job, tile, i * cols + j);
            store_element(job, (n + i) * r + (l + j) * c, value);
            if (n + i != l + j)
                store_element(job, (l + j) * r + (n + i) * c, value);
        }
}

static void add_block(struct agop_job *job)
{
    int64_t all = job->features;

    if (job->op->diagonal) {
        gram_parallel_for(job->g, all, square_row, job);
        return;
    }
    gram_blas_threads(job->g);
    for (int64_t n = 0; n < all; n += TILE)
        for (int64_t l = 0; l <= n; l += TILE)
            add_tile(job, n, l, all - n < TILE ? all - n : TILE, all - l < TILE ? all - l : TILE);
}

static gram_status run_item(struct agop_job *job, int64_t item)
{
    const struct gram_agop_op *op = job->op;
    int64_t first = 0;

    job->out = gram_view_alone(&op->out, &op->batch, item);
    job->add = op->accumulate;
    do { /* once even without points: zeros */
        int64_t rest = op->d.cols - first, count = rest < job->points ? rest : job->points;
        struct gram_cdist_grad_op grad = gradients_of(job, item, first, count);

        TRY(cpu_cdist_grad_in(job->g, &grad, false, job->inner, job->inner_bytes));
        job->columns = op->c.rows * count;
        add_block(job);
        job->add = true;
        first += count;
    } while (first < op->d.cols);
    return GRAM_OK;
}

gram_status cpu_agop(gram_context *g, const struct gram_agop_op *op)
{
    struct agop_job job;

    if (op->batch.count == 0 || op->d.rows == 0)
        return GRAM_OK;
    job = make_job(g, op);
    TRY(lay_out(&job));
    for (int64_t item = 0; item < op->batch.count; item++)
        TRY(run_item(&job, item));
    return GRAM_OK;
}
