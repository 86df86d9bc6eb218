/*
 * cuda_kernel_vjp.c - vector-Jacobian products of kernels on the device, a block of the matrices at
 * a time
 *
 * Items go together, in rounds of as many as scratch has room for.  A block of the weights w,
 *   d k / d x = w sgn(x - y) |x - y|^(p - 1), or w y for an inner product,
 * is computed as gram_kernel does it, multiplied by grad and given to gram_cdist_grad's kernels
 * with one output:
 *   gradient of x: centres y, points x, a = w^T
 *   gradient of y: centres x, points y, a = w
 * The gradients of an inner product are the same with p = 2, all points at 0 and coefficients -1.
 * The cosine, whose norms are functions of x and y too, is in cuda_kernel_vjp_cosine.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_vjp.h"
#include "cuda/arena.h"

enum {
    BLOCK = 4096, /* rows and columns at most: 64 MiB of f32, few calls for large matrices */
    GRAIN = 64,   /* of both: the sides of tiles */
    ROUND_BYTES = 1 << 28, /* of the blocks of many small items */
};

/* Blocks of equal size. */
static int64_t block_of(int64_t size)
{
    int64_t block = size > 0 ? gram_ceil_div(size, gram_ceil_div(size, BLOCK)) : 0;

    block = gram_round_up(block, GRAIN);
    return block < size ? block : size;
}

/* An item's: sums of the rows of x, and what the cosine wants. */
static int64_t doubles_of(const struct gram_cdist_op *kernel)
{
    return kernel->x.rows + (kernel->function == GRAM_COSINE ? cuda_vjp_cosine_doubles(kernel) : 0);
}

/* ---- Scratch --------------------------------------------------------------------------------- */

/* So many items at a time that their blocks and sums fill about ROUND_BYTES. */
static struct gram_rounds rounds_of(const struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *k = &op->kernel;
    const int64_t item =
        block_of(k->x.rows) * block_of(k->y.rows) * (int64_t)gram_dtype_size(k->x.dtype) +
        doubles_of(k) * (int64_t)sizeof(double);

    return gram_rounds_of(&k->batch, gram_most(1, ROUND_BYTES / gram_most(1, item)));
}

/* A round's work without its data, which the layout of scratch does not depend on. */
static void lay_out(struct vjp_job *job, const struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *k = &job->kernel;
    const size_t items = (size_t)k->batch.count;
    int64_t m = k->x.rows, n = k->y.rows;

    job->block_rows = block_of(m), job->block_cols = block_of(n);
    job->doubles = doubles_of(k);
    job->constants =
        gram_round64(items * (size_t)(job->block_rows * job->block_cols) * job->element);
    job->sums = job->constants + gram_round64(VJP_NUMBERS * job->element);
    job->more = job->sums + gram_round64(items * (size_t)job->doubles * sizeof(double));
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
                               const struct gram_batch *round, int64_t first)
{
    const struct cuda_device *device = g->device;
    const struct gram_batch *batch = &op->kernel.batch;
    struct vjp_job job = {.g = (gram_context *)g,
                          .processors = device->processors,
                          .kernel = gram_cdist_round(&op->kernel, round, first),
                          .grad = gram_view_alone(&op->grad, batch, first),
                          .to_x = gram_view_alone(&op->x, batch, first),
                          .to_y = gram_view_alone(&op->y, batch, first),
                          .element = gram_dtype_size(op->kernel.x.dtype)};

    lay_out(&job, op);
    return job;
}

/* ---- The gradients --------------------------------------------------------------------------- */

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
        TRY(cuda_vjp_sum(job,
                         (struct vjp_sums_params){.u = cuda_vjp_elements(job),
                                                  .v = cuda_vjp_matrix(&job->grad, b->i, b->j),
                                                  .sums = sums + b->i,
                                                  .add = b->j > 0},
                         b->rows, b->cols));
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
    TRY(cuda_vjp_sum(job, (struct vjp_sums_params){.v = diagonal, .sums = sums}, 1, d.count));
    return cuda_vjp_number(job, out, sums, 1);
}

static gram_status queue_round(gram_context *g, const struct gram_kernel_vjp_op *op,
                               const struct gram_batch *round, int64_t first, void *scratch)
{
    const struct gram_batch *batch = &op->kernel.batch;
    struct vjp_job job = make_job(g, op, round, first);
    struct gram_view out;

    job.scratch = scratch;
    if (op->want_x || op->want_y)
        TRY(points_gradients(&job));
    out = gram_view_alone(&op->bandwidth, batch, first);
    if (op->want_bandwidth)
        TRY(bandwidth_gradient(&job, &out));
    out = gram_view_alone(&op->regularization, batch, first);
    return op->want_regularization ? regularization_gradient(&job, &out) : GRAM_OK;
}

size_t cuda_kernel_vjp_workspace(const gram_context *g, const struct gram_kernel_vjp_op *op)
{
    const struct gram_batch *batch = &op->kernel.batch;
    struct gram_rounds rounds;
    struct gram_batch round, last;

    if (batch->count == 0)
        return 0;
    rounds = rounds_of(op);
    round = gram_round_at(batch, &rounds, 0);
    last = gram_round_at(batch, &rounds, batch->count - rounds.last_items);
    return gram_most_bytes(make_job(g, op, &round, 0).total, make_job(g, op, &last, 0).total);
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
    const struct gram_batch *batch = &op->kernel.batch;
    const struct gram_rounds rounds = rounds_of(op);
    struct gram_batch round;
    bool entered;
    gram_status status;
    void *scratch;

    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    status = gram_cuda_scratch(g, cuda_kernel_vjp_workspace(g, op), &scratch);
    for (int64_t first = 0; status == GRAM_OK && first < batch->count; first += round.count) {
        round = gram_round_at(batch, &rounds, first);
        status = queue_round(g, op, &round, first, scratch);
    }
    gram_cuda_leave(g->device, entered);
    return status;
}
