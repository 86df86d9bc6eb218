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
    size_t tile, grad, total; /* scratch: gradients first, then these, up to total bytes */
    char *scratch;
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

    grad.out = (struct gram_view){.data = job->scratch,
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
static size_t gradient_workspace(const gram_context *g, const struct agop_job *job)
{
    int64_t rest = job->points > 0 ? job->op->d.cols % job->points : 0;
    struct gram_cdist_grad_op whole = gradients_of(job, 0, 0, job->points);
    struct gram_cdist_grad_op last = gradients_of(job, 0, 0, rest);

    return gram_most_bytes(cpu_cdist_grad_workspace(g, &whole), cpu_cdist_grad_workspace(g, &last));
}

static struct agop_job make_job(const gram_context *g, const struct gram_agop_op *op)
{
    struct agop_job job = {
        .op = op,
        .features = op->d.rows,
        .element = gram_dtype_size(op->a.dtype),
        .scale = op->points > 0 ? 1 / (double)op->points : 0,
    };
    int64_t row = job.features * op->c.rows * (int64_t)job.element;
    int64_t tile = job.features < TILE ? job.features : TILE;

    job.points = row > 0 ? BLOCK_BYTES / row : op->d.cols;
    if (job.points < LEAST_POINTS)
        job.points = LEAST_POINTS;
    if (job.points > op->d.cols)
        job.points = op->d.cols;
    job.tile = gram_round64((size_t)(job.points * row));
    job.grad = job.tile + (op->diagonal ? 0 : gram_round64((size_t)(tile * tile) * job.element));
    job.total = job.grad + gradient_workspace(g, &job);
    return job;
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
    const char *row = job->scratch + (size_t)(n * job->columns) * job->element;
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
    const char *tile = job->scratch + job->tile;
    const struct gram_blas_matrix left = {job->scratch + (size_t)(l * job->columns) * job->element,
                                          job->columns, true};
    const struct gram_blas_matrix right = {job->scratch + (size_t)(n * job->columns) * job->element,
                                           job->columns, false};
    const int64_t mnk[3] = {cols, rows, job->columns}, r = job->out.row_stride,
                  c = job->out.col_stride;

    gram_blas_gemm(job->op->a.dtype, mnk, job->scale, left, right, 0, (char *)tile, cols);
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

static void run_item(struct agop_job *job, int64_t item)
{
    const struct gram_agop_op *op = job->op;
    int64_t first = 0;

    job->out = gram_view_alone(&op->out, &op->batch, item);
    job->add = op->accumulate;
    do { /* once even without points: zeros */
        int64_t rest = op->d.cols - first, count = rest < job->points ? rest : job->points;
        struct gram_cdist_grad_op grad = gradients_of(job, item, first, count);

        cpu_cdist_grad_in(job->g, &grad, false, job->scratch + job->grad);
        job->columns = op->c.rows * count;
        add_block(job);
        job->add = true;
        first += count;
    } while (first < op->d.cols);
}

size_t cpu_agop_workspace(const gram_context *g, const struct gram_agop_op *op)
{
    return op->batch.count == 0 || op->d.rows == 0 ? 0 : make_job(g, op).total;
}

gram_status cpu_agop(gram_context *g, const struct gram_agop_op *op)
{
    struct agop_job job;
    void *scratch;

    if (op->batch.count == 0 || op->d.rows == 0)
        return GRAM_OK;
    job = make_job(g, op);
    TRY(gram_scratch(g, job.total, &scratch));
    job.g = g;
    job.scratch = scratch;
    for (int64_t item = 0; item < op->batch.count; item++)
        run_item(&job, item);
    return GRAM_OK;
}
