/*
 * cuda_median.c - the median distance on the device: a sample, its distances, a selection
 *
 * Items one after the other.  The rows that the host draws travel as parameters of launches, so
 * that nothing is waited for and a graph keeps them.  The middle two distances are found by eight
 * of their bits at a time.  Scratch: what is known of them, the distances, the rows of a sample.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../median.h"
#include "../random.h"
#include "arena.h"
#include "cuda_ops.h"
#include "kernels/median_params.h"

enum {
    THREADS = 256, /* of every kernel here */
    BLOCKS = 1024, /* enough for every processor */
};

struct median_job {
    const struct gram_median_op *op;
    struct gram_cdist_op distances; /* of the sample of one item */
    bool sampled, empty;
    size_t distances_at, rows_at, bytes;
    char *scratch;
};

static struct median_job make_job(const struct gram_median_op *op)
{
    struct median_job job = {
        .op = op,
        .sampled = gram_median_sampled(op),
        .empty = op->rows < 2,
        .distances = gram_median_distances(op),
    };
    size_t rows = (size_t)op->rows;

    job.distances_at = gram_round64(sizeof(struct median_state));
    job.rows_at = job.distances_at;
    if (!job.empty)
        job.rows_at += gram_round64(rows * rows * gram_dtype_size(op->out.dtype));
    job.bytes = job.rows_at;
    if (!job.empty && job.sampled)
        job.bytes += gram_round64(rows * (size_t)op->x.cols * gram_dtype_size(op->x.dtype));
    return job;
}

/* ---- Launches ------------------------------------------------------------------------------- */

static gram_status copy_rows(gram_context *g, const struct median_job *job,
                             struct median_rows_params *rows)
{
    int64_t elements = rows->count * rows->cols, blocks = elements / THREADS + 1;
    gram_status status = gram_cuda_launch_plain(g, CUDA_VARIANT_MEDIAN_ROWS, job->op->out.dtype,
                                                blocks < BLOCKS ? blocks : BLOCKS, THREADS, rows);

    rows->to += elements * rows->element;
    rows->count = 0;
    return status;
}

static gram_status queue_sample(gram_context *g, const struct median_job *job, const char *item)
{
    const struct gram_view *x = &job->op->x;
    struct median_rows_params rows = {.x = item,
                                      .to = job->scratch + job->rows_at,
                                      .row_stride = x->row_stride,
                                      .col_stride = x->col_stride,
                                      .cols = x->cols,
                                      .element = (long long)gram_dtype_size(x->dtype)};
    struct gram_random_sample sample = {
        .state = job->op->seed, .all = x->rows, .wanted = job->op->rows};

    for (int64_t i; (i = gram_random_sample_next(&sample)) >= 0;) {
        rows.row[rows.count++] = i;
        if (sample.wanted == 0 || rows.count == MEDIAN_ROWS)
            TRY(copy_rows(g, job, &rows));
    }
    return GRAM_OK;
}

static gram_status queue_selection(gram_context *g, const struct median_job *job, void *out)
{
    gram_dtype dtype = job->op->out.dtype;
    int64_t rows = job->empty ? 0 : job->op->rows;
    struct median_params params = {.distances = job->scratch + job->distances_at,
                                   .out = out,
                                   .state = (struct median_state *)job->scratch,
                                   .rows = rows,
                                   .shift = 8 * (long long)gram_dtype_size(dtype)};

    TRY(gram_cuda_launch_plain(g, CUDA_VARIANT_MEDIAN_PICK, dtype, 1, MEDIAN_BINS, &params));
    while (params.shift > 0) {
        params.shift -= MEDIAN_DIGIT;
        if (rows > 0)
            TRY(gram_cuda_launch_plain(g, CUDA_VARIANT_MEDIAN_COUNT, dtype,
                                       rows < BLOCKS ? rows : BLOCKS, THREADS, &params));
        TRY(gram_cuda_launch_plain(g, CUDA_VARIANT_MEDIAN_PICK, dtype, 1, MEDIAN_BINS, &params));
    }
    return GRAM_OK;
}

static gram_status queue_item(gram_context *g, const struct median_job *job, int64_t item)
{
    const struct gram_median_op *op = job->op;
    struct gram_cdist_op distances = job->distances;
    char *x = gram_view_item(&op->x, &op->batch, item);

    if (job->sampled && !job->empty && op->x.cols > 0) {
        TRY(queue_sample(g, job, x));
        x = job->scratch + job->rows_at;
    }
    distances.x.data = distances.y.data = x;
    distances.out.data = job->scratch + job->distances_at;
    distances.p = gram_hyper_alone(&op->p, &op->batch, item);
    if (!job->empty)
        TRY(cuda_cdist_queue(g, &distances));
    return queue_selection(g, job, gram_view_item(&op->out, &op->batch, item));
}

size_t cuda_median_workspace(const gram_context *g, const struct gram_median_op *op)
{
    (void)g;
    return op->batch.count == 0 ? 0 : make_job(op).bytes;
}

gram_status cuda_median(gram_context *g, const struct gram_median_op *op)
{
    struct median_job job = make_job(op);
    gram_status status;
    void *scratch;
    bool entered;

    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    TRY(gram_cuda_check_pointer(g, "p", &op->p.tensor));
    TRY(gram_cuda_check_pointer(g, "out", &op->out));
    entered = gram_cuda_enter(g->device);
    status = gram_cuda_scratch(g, cuda_median_workspace(g, op), &scratch);
    job.scratch = scratch;
    for (int64_t item = 0; status == GRAM_OK && item < op->batch.count; item++)
        status = queue_item(g, &job, item);
    gram_cuda_leave(g->device, entered);
    return status;
}
