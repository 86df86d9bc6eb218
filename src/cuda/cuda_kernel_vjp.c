/*
 * cuda_kernel_vjp.c - vector-Jacobian products of kernels on the device, a block of the matrix at a
 * time
 *
 * A block of the weights w (d k / d x = w sgn(x - y) |x - y|^(p - 1), or w y) is computed as
 * gram_kernel does it, multiplied by grad and given to gram_cdist_grad's kernels with one output:
 *   x: centres y, points x, a = w^T        y: centres x, points y, a = w
 * The gradients of an inner product are the same with p = 2, all points at 0 and coefficients -1.
 * The cosine, whose norms are functions of x and y too, is in cuda_kernel_vjp_cosine.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_vjp.h"
#include "arena.h"

enum {
    BLOCK = 4096, /* rows and columns at most: 64 MiB of f32, few calls for large matrices */
    GRAIN = 64,   /* of both: the sides of tiles */
};

/* Blocks of equal size. */
static int64_t block_of(int64_t size)
{
    int64_t block = size > 0 ? gram_ceil_div(size, gram_ceil_div(size, BLOCK)) : 0;

    block = gram_round_up(block, GRAIN);
    return block < size ? block : size;
}

/* ---- Scratch ----------------------------------------------------------------------------------
 */

/* One item's work without its data, which the layout of scratch does not depend on. */
static void lay_out(struct vjp_job *job, const struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *k = &job->kernel;
    int64_t m = k->x.rows, n = k->y.rows, doubles = m;

    job->block_rows = block_of(m), job->block_cols = block_of(n);
    if (k->function == GRAM_COSINE)
        doubles += cuda_vjp_cosine_doubles(k);
    job->constants = gram_round64((size_t)(job->block_rows * job->block_cols) * job->element);
    job->sums = job->constants + gram_round64(VJP_NUMBERS * job->element);
    job->more = job->sums + gram_round64((size_t)doubles * sizeof(double));
    job->total = job->more;
    for (int i = 0; i < 4; i++) {
        int64_t rest_rows = job->block_rows ? m % job->block_rows : 0;
        int64_t rest_cols = job->block_cols ? n % job->block_cols : 0;
        job->block = (struct vjp_block){.rows = i & 1 ? rest_rows : job->block_rows,
                                        .cols = i & 2 ? rest_cols : job->block_cols};
        job->total = gram_most_bytes(job->total, job->more + cuda_vjp_block_workspace(job, op));
    }
    job->block = (struct vjp_block){0};
}

static struct vjp_job make_job(const gram_context *g, const struct gram_kernel_vjp_op *op,
                               int64_t item)
{
    const struct cuda_device *device = g->device;
    const struct gram_batch *batch = &op->kernel.batch;
    struct vjp_job job = {.g = (gram_context *)g,
                          .processors = device->processors,
                          .kernel = gram_cdist_alone(&op->kernel, item),
                          .grad = gram_view_alone(&op->grad, batch, item),
                          .to_x = gram_view_alone(&op->x, batch, item),
                          .to_y = gram_view_alone(&op->y, batch, item),
                          .element = gram_dtype_size(op->kernel.x.dtype)};

    lay_out(&job, op);
    return job;
}

/* ---- The gradients ------------------------------------------------------------------------------
 */

static gram_status points_gradients(struct vjp_job *job)
{
    if (job->kernel.function == GRAM_COSINE)
        return cuda_vjp_cosine(job);
    while (cuda_vjp_next(job)) {
        TRY(cuda_vjp_kernel(job, GRAM_WEIGHT));
        TRY(cuda_vjp_weigh(job, NULL, NULL));
        TRY(cuda_vjp_gradients(job));
    }
    return GRAM_OK;
}

static gram_status bandwidth_gradient(struct vjp_job *job, const struct gram_view *out)
{
    double *sums = (double *)(job->scratch + job->sums);
    int64_t rows = 0;

    job->block = (struct vjp_block){0};
    while (gram_vjp_has_bandwidth(job->kernel.function) && job->kernel.y.rows > 0 &&
           cuda_vjp_next(job)) {
        const struct vjp_block *b = &job->block;
        TRY(cuda_vjp_kernel(job, GRAM_BANDWIDTH_DERIVATIVE));
        TRY(cuda_vjp_sum(job, (struct vjp_sums_params){.u = cuda_vjp_elements(job),
                                                       .v = cuda_vjp_matrix(&job->grad, b->i, b->j),
                                                       .sums = sums + b->i,
                                                       .rows = b->rows,
                                                       .cols = b->cols,
                                                       .add = b->j > 0}));
        rows = job->kernel.x.rows;
    }
    return cuda_vjp_number(job, out, sums, rows);
}

/* grad summed where the regularization was added. */
static gram_status regularization_gradient(const struct vjp_job *job, const struct gram_view *out)
{
    const struct vjp_diagonal d = gram_vjp_diagonal(&job->kernel);
    double *sums = (double *)(job->scratch + job->sums);
    struct vjp_matrix diagonal = cuda_vjp_matrix(&job->grad, d.i, d.j);

    if (d.count == 0)
        return cuda_vjp_number(job, out, sums, 0);
    diagonal.col_stride += diagonal.row_stride;
    TRY(cuda_vjp_sum(
        job, (struct vjp_sums_params){.v = diagonal, .sums = sums, .rows = 1, .cols = d.count}));
    return cuda_vjp_number(job, out, sums, 1);
}

static gram_status queue_item(gram_context *g, const struct gram_kernel_vjp_op *op, int64_t item,
                              void *scratch)
{
    const struct gram_batch *batch = &op->kernel.batch;
    struct vjp_job job = make_job(g, op, item);
    struct gram_view out;

    job.scratch = scratch;
    if (op->want_x || op->want_y)
        TRY(points_gradients(&job));
    out = gram_view_alone(&op->bandwidth, batch, item);
    if (op->want_bandwidth)
        TRY(bandwidth_gradient(&job, &out));
    out = gram_view_alone(&op->regularization, batch, item);
    return op->want_regularization ? regularization_gradient(&job, &out) : GRAM_OK;
}

size_t cuda_kernel_vjp_workspace(const gram_context *g, const struct gram_kernel_vjp_op *op)
{
    return op->kernel.batch.count ? make_job(g, op, 0).total : 0;
}

static gram_status check_pointers(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    TRY(cuda_cdist_check(g, &op->kernel));
    TRY(gram_cuda_check_pointer(g, "grad", &op->grad));
    TRY(gram_cuda_check_pointer(g, "grads.x", &op->x));
    TRY(gram_cuda_check_pointer(g, "grads.y", &op->y));
    TRY(gram_cuda_check_pointer(g, "grads.bandwidth", &op->bandwidth));
    return gram_cuda_check_pointer(g, "grads.regularization", &op->regularization);
}

gram_status cuda_kernel_vjp(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    bool entered;
    gram_status status;
    void *scratch;

    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    status = gram_cuda_scratch(g, cuda_kernel_vjp_workspace(g, op), &scratch);
    for (int64_t item = 0; status == GRAM_OK && item < op->kernel.batch.count; item++)
        status = queue_item(g, op, item, scratch);
    gram_cuda_leave(g->device, entered);
    return status;
}
