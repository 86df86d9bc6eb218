/*
 * cuda_agop.c - the average gradient outer product on the device, a block of points at a time
 *
 *   out[n, l] = (1 / points) sum_{o, m} g[o, n, m] g[o, l, m]
 *
 * Items go together, in rounds of as many as scratch has room for.  The gradients of a block of
 * points go to scratch, a column of features for every output of every point.  Products of chunks
 * of columns are added to parts, one a chunk and tile of out, which the last launch adds up in
 * order: timing does not matter.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include "pairwise.h"

enum {
    BLOCK_BYTES = 64 << 20, /* of an item's gradients that are held: a few rounds of tiles */
    ROUND_BYTES = 1 << 28,  /* of the gradients and the parts of many small items */
    POINT_GRAIN = 64,       /* points of a tile of cdist_grad.cu */
    COLUMN_GRAIN = 16,      /* columns of a panel of agop.cu */
    BLOCKS = 8,             /* of products for a processor */
    TILE_THREADS = 64,      /* of agop.cu */
    THREADS = 256,          /* of the other kernels here */
};

static const struct cuda_kernel agop = {"agop.cu", "agop"},
                                agop_diagonal = {"agop.cu", "agop_diagonal"},
                                agop_sum = {"agop.cu", "agop_sum"};

/* A round of items. */
struct agop_job {
    const struct gram_agop_op *op;
    struct gram_batch batch; /* of the round, which begins with item `first` */
    int64_t first;
    int processors;
    int64_t points, ld, chunks; /* points: of a whole block */
    int64_t side, part;         /* of a pair of tiles in parts; numbers of a chunk's parts */
    size_t element;
    /* Scratch of a round: the gradients of a block of points, the parts, what finding the gradients
     * takes. */
    char *gradients, *parts, *inner;
    size_t inner_bytes;
};

/* The gradients of points [first, first + count), as (outputs times points) by features. */
static struct gram_cdist_grad_op gradients_of(const struct agop_job *job, int64_t first,
                                              int64_t count)
{
    struct gram_cdist_grad_op grad =
        gram_agop_gradients(job->op, &job->batch, job->first, first, count);

    grad.out = gram_view_dense_items(job->gradients, grad.a.dtype, grad.c.rows * count, job->ld,
                                     &job->batch);
    grad.out.planes = grad.c.rows, grad.out.rows = grad.d.rows, grad.out.cols = count;
    grad.out.plane_stride = count * job->ld;
    grad.out.row_stride = 1, grad.out.col_stride = job->ld;
    return grad;
}

/* Finds the scratch that the gradients of so many points take, with that of others before. */
static gram_status measure_gradients(gram_context *g, struct agop_job *job, int64_t count)
{
    const struct gram_cdist_grad_op op = gradients_of(job, 0, count);
    size_t bytes;

    TRY(gram_measure(g, &bytes, cuda_cdist_grad_queue(g, &op, false)));
    job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
    return GRAM_OK;
}

/* Pairs of tiles on and below the diagonal of out, which is symmetric. */
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

    if (column > 0 && most > BLOCK_BYTES / column)
        most = BLOCK_BYTES / column;
    if (most < POINT_GRAIN)
        most = POINT_GRAIN;
    job->points = all > 0 ? gram_ceil_div(all, gram_ceil_div(all, most)) : 0;
    job->points = gram_round_up(job->points, POINT_GRAIN);
    if (job->points > all)
        job->points = all;
}

/* The items of a round, and the cut of the columns of each. */
static void share(struct agop_job *job, const struct gram_batch *round)
{
    const struct gram_agop_op *op = job->op;
    const int64_t columns = gram_ceil_div(op->c.rows * job->points, COLUMN_GRAIN);
    int64_t tiles = op->diagonal ? gram_ceil_div(op->d.rows, 32) : pairs_of(op);

    job->batch = *round;
    tiles *= round->count;
    job->chunks = gram_ceil_div((int64_t)BLOCKS * job->processors, tiles);
    if (job->chunks > columns)
        job->chunks = columns;
    if (job->chunks < 1)
        job->chunks = 1;
}

/* What all rounds have in common.  A column of gradients is padded to groups of 16 bytes, and a
 * part of the diagonal has a number for each feature. */
static struct agop_job make_job(const gram_context *g, const struct gram_agop_op *op)
{
    const struct cuda_device *device = g->device;
    struct agop_job job = {
        .op = op, .processors = device->processors, .element = gram_dtype_size(op->a.dtype)};
    int64_t lanes = 16 / (int64_t)job.element;

    job.ld = gram_round_up(op->d.rows, lanes);
    job.side = gram_least(op->d.rows, AGOP_TILE);
    job.part = op->diagonal ? op->d.rows : pairs_of(op) * job.side * job.side;
    cut(&job);
    return job;
}

/* As many items at a time as fill about ROUND_BYTES with their gradients and parts. */
static struct gram_rounds rounds_of(const struct agop_job *job)
{
    const int64_t item = job->op->c.rows * job->points * job->ld + job->part;

    return gram_rounds_of(&job->op->batch,
                          gram_most(1, ROUND_BYTES / (int64_t)job->element / gram_most(1, item)));
}

static gram_status open_round(gram_context *g, struct agop_job *job, const struct gram_batch *round,
                              int64_t first)
{
    const struct gram_agop_op *op = job->op;
    const int64_t gradients = round->count * op->c.rows * job->points * job->ld;
    struct gram_layout layout = {0};

    job->first = first;
    share(job, round);
    job->inner_bytes = 0;
    TRY(measure_gradients(g, job, job->points));
    if (job->points > 0)
        TRY(measure_gradients(g, job, op->d.cols % job->points));
    gram_take(&layout, &job->gradients, (size_t)gradients * job->element);
    gram_take(&layout, &job->parts,
              (size_t)(round->count * job->chunks * job->part) * job->element);
    gram_take(&layout, &job->inner, job->inner_bytes);
    return gram_layout_open(g, &layout);
}

/* ---- Launches ------------------------------------------------------------------------------- */

/* What the kernels of a round are told; columns and first change from block to block. */
static void fill_params(const struct agop_job *job, struct agop_params *params)
{
    const struct gram_agop_op *op = job->op;

    *params = (struct agop_params){
        .items = job->batch.count,
        .ndim = job->batch.ndim,
        .gradients = job->gradients,
        .parts = job->parts,
        .out = gram_view_item(&op->out, &op->batch, job->first),
        .features = op->d.rows,
        .ld = job->ld,
        .side = job->side,
        .chunks = job->chunks,
        .pairs = pairs_of(op),
        .first = 1,
        .row_stride = op->out.row_stride,
        .col_stride = op->out.col_stride,
        .add = op->accumulate,
        .diagonal = op->diagonal,
        .scale = op->points > 0 ? 1 / (double)op->points : 0,
    };
    for (int d = 0; d < job->batch.ndim; d++) {
        params->shape[d] = job->batch.shape[d];
        params->batch_stride[d] = op->out.batch_stride[d];
    }
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
    return cuda_launch_plain(g, diagonal ? &agop_diagonal : &agop, job->op->a.dtype,
                             tiles * job->chunks * params->items, diagonal ? THREADS : TILE_THREADS,
                             params);
}

/* The gradients of each block of points are found, multiplied and added to the parts; the sum of
 * the parts is stored once, at the end. */
static gram_status run_round(gram_context *g, void *of, const struct gram_batch *round,
                             int64_t begin)
{
    struct agop_job *job = of;
    const struct gram_agop_op *op = job->op;
    struct agop_params params;
    int64_t first = 0;

    TRY(open_round(g, job, round, begin));
    fill_params(job, &params);
    do { /* once even without points: zeros */
        int64_t rest = op->d.cols - first, count = rest < job->points ? rest : job->points;
        const struct gram_cdist_grad_op grad = gradients_of(job, first, count);

        TRY(cuda_cdist_grad_in(g, &grad, false, job->inner, job->inner_bytes));
        TRY(queue_products(g, job, count, &params));
        params.first = 0;
        first += count;
    } while (first < op->d.cols);
    return cuda_launch_plain(g, &agop_sum, op->a.dtype,
                             gram_ceil_div(params.items * job->part, THREADS), THREADS, &params);
}

gram_status cuda_agop(gram_context *g, const struct gram_agop_op *op)
{
    const struct gram_cdist_grad_op inputs = {
        .a = op->a, .b = op->b, .c = op->c, .d = op->d, .p = op->p, .out = op->out};
    struct gram_rounds rounds;
    struct agop_job job;
    gram_status status;
    bool entered;

    if (op->batch.count == 0 || op->d.rows == 0)
        return GRAM_OK;
    TRY(cuda_cdist_grad_check(g, &inputs));
    job = make_job(g, op);
    rounds = rounds_of(&job);
    entered = gram_cuda_enter(g->device);
    status = cuda_run_rounds(g, &op->batch, &rounds, run_round, &job);
    gram_cuda_leave(g->device, entered);
    return status;
}
