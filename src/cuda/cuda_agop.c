/*
 * cuda_agop.c - the average gradient outer product on the device, a block of points at a time
 *
 *   out[n, l] = (1 / points) sum_{o, m} g[o, n, m] g[o, l, m]
 *
 * The gradients of a block of points go to scratch, a column of features for every output of every
 * point.  Products of chunks of columns are added to parts, one a chunk and tile of out, which the
 * last launch adds up in order: timing does not matter.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../agop.h"
#include "arena.h"
#include "cuda_cdist_grad.h"
#include "kernels/agop_params.h"

enum {
    BLOCK_BYTES = 64 << 20, /* of the gradients that are held: a few rounds of tiles */
    POINT_GRAIN = 64,       /* points of a tile of cdist_grad.cu */
    COLUMN_GRAIN = 16,      /* columns of a panel of agop.cu */
    BLOCKS = 8,             /* of products for a processor */
    TILE_THREADS = 64,      /* of agop.cu */
    THREADS = 256,          /* of the other kernels here */
};

struct agop_job {
    const struct gram_agop_op *op;
    int processors;
    int64_t points, ld, chunks; /* points: of a whole block */
    size_t element;
    size_t parts_at, grad_at, bytes; /* scratch: gradients, parts, what the gradients need */
    char *scratch;
};

/* The gradients of points [first, first + count), as (outputs times points) by features. */
static struct gram_cdist_grad_op gradients_of(const struct agop_job *job, int64_t item,
                                              int64_t first, int64_t count)
{
    struct gram_cdist_grad_op grad = gram_agop_gradients(job->op, item, first, count);

    grad.out = (struct gram_view){.data = job->scratch,
                                  .dtype = grad.a.dtype,
                                  .planes = grad.c.rows,
                                  .rows = grad.d.rows,
                                  .cols = count,
                                  .plane_stride = count * job->ld,
                                  .row_stride = 1,
                                  .col_stride = job->ld};
    return grad;
}

static size_t gradient_bytes(const struct agop_job *job, int64_t count)
{
    const struct gram_cdist_grad_op op = gradients_of(job, 0, 0, count);
    struct cuda_grad_plan plan;

    cuda_cdist_grad_plan(&op, false, job->processors, &plan);
    return plan.bytes;
}

static int64_t pairs_of(const struct gram_agop_op *op)
{
    int64_t tiles = gram_ceil_div(op->d.rows, AGOP_TILE);

    return tiles * (tiles + 1) / 2;
}

/* Blocks of equal size of points, and the cut of their columns. */
static void cut(struct agop_job *job)
{
    const struct gram_agop_op *op = job->op;
    int64_t column = op->c.rows * job->ld * (int64_t)job->element, all = op->d.cols, most = all;
    int64_t tiles = op->diagonal ? gram_ceil_div(op->d.rows, 32) : pairs_of(op), columns;

    if (column > 0 && most > BLOCK_BYTES / column)
        most = BLOCK_BYTES / column;
    if (most < POINT_GRAIN)
        most = POINT_GRAIN;
    job->points = all > 0 ? gram_ceil_div(all, gram_ceil_div(all, most)) : 0;
    job->points = gram_round_up(job->points, POINT_GRAIN);
    if (job->points > all)
        job->points = all;
    columns = gram_ceil_div(op->c.rows * job->points, COLUMN_GRAIN);
    job->chunks = gram_ceil_div((int64_t)BLOCKS * job->processors, tiles);
    if (job->chunks > columns)
        job->chunks = columns;
    if (job->chunks < 1)
        job->chunks = 1;
}

static struct agop_job make_job(const gram_context *g, const struct gram_agop_op *op)
{
    const struct cuda_device *device = g->device;
    struct agop_job job = {
        .op = op, .processors = device->processors, .element = gram_dtype_size(op->a.dtype)};
    int64_t lanes = 16 / (int64_t)job.element, part = op->d.rows;
    size_t last;

    job.ld = gram_round_up(op->d.rows, lanes);
    cut(&job);
    if (!op->diagonal)
        part = pairs_of(op) * AGOP_TILE * AGOP_TILE;
    job.parts_at = gram_round64((size_t)(op->c.rows * job.points * job.ld) * job.element);
    job.grad_at = job.parts_at + gram_round64((size_t)(job.chunks * part) * job.element);
    last = job.points > 0 ? gradient_bytes(&job, op->d.cols % job.points) : 0;
    job.bytes = gradient_bytes(&job, job.points);
    job.bytes = job.grad_at + (last > job.bytes ? last : job.bytes);
    return job;
}

/* ---- Launches ------------------------------------------------------------------------------- */

static void fill_params(const struct agop_job *job, int64_t item, struct agop_params *params)
{
    const struct gram_agop_op *op = job->op;

    *params = (struct agop_params){
        .gradients = job->scratch,
        .parts = job->scratch + job->parts_at,
        .out = gram_view_item(&op->out, &op->batch, item),
        .features = op->d.rows,
        .ld = job->ld,
        .chunks = job->chunks,
        .pairs = pairs_of(op),
        .first = 1,
        .row_stride = op->out.row_stride,
        .col_stride = op->out.col_stride,
        .add = op->accumulate,
        .diagonal = op->diagonal,
        .scale = op->points > 0 ? 1 / (double)op->points : 0,
    };
}

/* The products of a block of points, whose gradients are in scratch. */
static gram_status queue_products(gram_context *g, const struct agop_job *job, int64_t count,
                                  struct agop_params *params)
{
    bool diagonal = job->op->diagonal;
    int64_t tiles = diagonal ? gram_ceil_div(job->op->d.rows, 32) : params->pairs;

    params->columns = job->op->c.rows * count;
    params->chunk_columns =
        gram_round_up(gram_ceil_div(params->columns, job->chunks), COLUMN_GRAIN);
    return gram_cuda_launch_plain(g, diagonal ? CUDA_VARIANT_AGOP_DIAGONAL : CUDA_VARIANT_AGOP,
                                  job->op->a.dtype, tiles * job->chunks,
                                  diagonal ? THREADS : TILE_THREADS, params);
}

static gram_status queue_item(gram_context *g, const struct agop_job *job, int64_t item)
{
    const struct gram_agop_op *op = job->op;
    struct agop_params params;
    int64_t first = 0, all;

    fill_params(job, item, &params);
    do { /* once even without points: zeros */
        int64_t rest = op->d.cols - first, count = rest < job->points ? rest : job->points;
        const struct gram_cdist_grad_op grad = gradients_of(job, item, first, count);
        struct cuda_grad_plan plan;

        cuda_cdist_grad_plan(&grad, false, job->processors, &plan);
        TRY(cuda_cdist_grad_queue(g, &plan, job->scratch + job->grad_at));
        TRY(queue_products(g, job, count, &params));
        params.first = 0;
        first += count;
    } while (first < op->d.cols);
    all = op->diagonal ? op->d.rows : params.pairs * AGOP_TILE * AGOP_TILE;
    return gram_cuda_launch_plain(g, CUDA_VARIANT_AGOP_SUM, op->a.dtype,
                                  gram_ceil_div(all, THREADS), THREADS, &params);
}

static gram_status queue(gram_context *g, struct agop_job *job)
{
    void *scratch;

    TRY(gram_cuda_scratch(g, job->bytes, &scratch));
    job->scratch = scratch;
    for (int64_t item = 0; item < job->op->batch.count; item++)
        TRY(queue_item(g, job, item));
    return GRAM_OK;
}

size_t cuda_agop_workspace(const gram_context *g, const struct gram_agop_op *op)
{
    return op->batch.count == 0 || op->d.rows == 0 ? 0 : make_job(g, op).bytes;
}

gram_status cuda_agop(gram_context *g, const struct gram_agop_op *op)
{
    const struct cuda_device *device = g->device;
    struct gram_cdist_grad_op inputs;
    struct agop_job job;
    gram_status status;
    bool entered;

    if (op->batch.count == 0 || op->d.rows == 0)
        return GRAM_OK;
    inputs = (struct gram_cdist_grad_op){
        .a = op->a, .b = op->b, .c = op->c, .d = op->d, .p = op->p, .out = op->out};
    TRY(cuda_cdist_grad_check(g, &inputs));
    job = make_job(g, op);
    entered = gram_cuda_enter(device);
    status = queue(g, &job);
    gram_cuda_leave(device, entered);
    return status;
}
