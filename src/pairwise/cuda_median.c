/*
 * cuda_median.c - the median distance on the device: a sample, its distances, a selection
 *
 * Items go together, in rounds of as many as scratch has room for.  The rows that the host draws,
 * the same of every item, travel as parameters of launches, so that nothing is waited for and a
 * graph keeps them.  The middle two distances are found by eight of their bits at a time: of few
 * rows by one block per item, else in passes over all distances of the round.  Scratch: what is
 * known of them, the distances, the rows of a sample.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/random.h"
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include "median_params.h"
#include "pairwise.h"

enum {
    THREADS = 256,         /* of every kernel here */
    BLOCKS = 1024,         /* enough for every processor */
    SMALL = 96,            /* rows whose distances a block goes through in 40 us */
    ROUND_BYTES = 1 << 28, /* of the distances and samples of many items */
};

static const struct cuda_kernel median_rows = {"median.cu", "median_rows"},
                                median_count = {"median.cu", "median_count"},
                                median_pick = {"median.cu", "median_pick"},
                                median_small = {"median.cu", "median_small"};

/* A round of items. */
struct median_job {
    const struct gram_median_op *op;
    struct gram_cdist_op distances; /* of the samples of the round */
    bool sampled, empty, small;
    int64_t first;     /* item of the round */
    size_t item_bytes; /* of a sample */
    /* Scratch: what is known of the middle two distances, the distances, the rows of a sample. */
    struct median_state *states;
    char *matrix, *rows;
};

/* What all rounds have in common. */
static struct median_job make_job(const struct gram_median_op *op)
{
    return (struct median_job){
        .op = op,
        .sampled = gram_median_sampled(op),
        .empty = op->rows < 2,
        .small = op->rows <= SMALL,
        .distances = gram_median_distances(op),
        .item_bytes = (size_t)op->rows * (size_t)op->x.cols * gram_dtype_size(op->x.dtype),
    };
}

/* As many items at a time as fill about ROUND_BYTES with their distances and samples. */
static struct gram_rounds rounds_of(const struct median_job *job)
{
    const struct gram_median_op *op = job->op;
    const int64_t distances = op->rows * op->rows * (int64_t)gram_dtype_size(op->out.dtype);
    const int64_t bytes = distances + (job->sampled ? (int64_t)job->item_bytes : 0);

    return gram_rounds_of(&op->batch, gram_most(1, ROUND_BYTES / gram_most(1, bytes)));
}

static gram_status open_round(gram_context *g, struct median_job *job,
                              const struct gram_batch *round, int64_t first)
{
    const struct gram_median_op *op = job->op;
    const size_t items = (size_t)round->count, rows = (size_t)op->rows;
    const size_t matrix = rows * rows * gram_dtype_size(op->out.dtype);
    struct gram_layout layout = {0};

    job->first = first;
    job->distances.batch = *round;
    gram_take(&layout, &job->states,
              job->small ? 0 : gram_round64(items * sizeof(struct median_state)));
    gram_take(&layout, &job->matrix, job->empty ? 0 : gram_round64(items * matrix));
    gram_take(&layout, &job->rows,
              job->empty || !job->sampled ? 0 : gram_round64(items * job->item_bytes));
    return gram_layout_open(g, &layout);
}

/* The batch of the round as kernels see it. */
static struct median_batch batch_of(const struct median_job *job)
{
    const struct gram_batch *round = &job->distances.batch;
    struct median_batch batch = {.items = round->count, .ndim = round->ndim};

    for (int d = 0; d < round->ndim; d++)
        batch.shape[d] = round->shape[d];
    return batch;
}

/* ---- Launches ------------------------------------------------------------------------------- */

/* Queues a launch that copies the rows drawn so far, and begins a new list of rows behind them. */
static gram_status copy_rows(gram_context *g, const struct median_job *job,
                             struct median_rows_params *rows)
{
    int64_t elements = rows->count * rows->cols;
    int64_t blocks = gram_ceil_div(rows->batch.items * elements, THREADS);
    gram_status status = cuda_launch_plain(g, &median_rows, job->op->out.dtype,
                                           gram_least(blocks, BLOCKS), THREADS, rows);

    rows->to += elements * rows->element;
    rows->count = 0;
    return status;
}

/* The host draws the rows; a launch takes as many of their numbers as its parameters hold. */
static gram_status queue_samples(gram_context *g, const struct median_job *job)
{
    const struct gram_view *x = &job->op->x;
    struct median_rows_params rows = {.batch = batch_of(job),
                                      .x = gram_view_item(x, &job->op->batch, job->first),
                                      .to = job->rows,
                                      .row_stride = x->row_stride,
                                      .col_stride = x->col_stride,
                                      .cols = x->cols,
                                      .element = (long long)gram_dtype_size(x->dtype),
                                      .item_bytes = (long long)job->item_bytes};
    struct gram_random_sample sample = {
        .state = job->op->seed, .all = x->rows, .wanted = job->op->rows};

    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        rows.batch_stride[d] = x->batch_stride[d];
    for (int64_t i; (i = gram_random_sample_next(&sample)) >= 0;) {
        rows.row[rows.count++] = i;
        if (sample.wanted == 0 || rows.count == MEDIAN_ROWS)
            TRY(copy_rows(g, job, &rows));
    }
    return GRAM_OK;
}

/* Passes over all distances of the round, each of which finds MEDIAN_DIGIT more bits of the
 * middle two; the first launch clears the state. */
static gram_status queue_passes(gram_context *g, const struct median_job *job,
                                struct median_params *params)
{
    const gram_dtype dtype = job->op->out.dtype;
    const int64_t items = params->batch.items;

    params->blocks = gram_most(1, gram_least(params->rows, BLOCKS / items));
    params->shift = 8 * (long long)gram_dtype_size(dtype);
    TRY(cuda_launch_plain(g, &median_pick, dtype, items, MEDIAN_BINS, params));
    while (params->shift > 0) {
        params->shift -= MEDIAN_DIGIT;
        TRY(cuda_launch_plain(g, &median_count, dtype, items * params->blocks, THREADS, params));
        TRY(cuda_launch_plain(g, &median_pick, dtype, items, MEDIAN_BINS, params));
    }
    return GRAM_OK;
}

/* Few distances are gone through by a block for each item in one launch. */
static gram_status queue_selection(gram_context *g, const struct median_job *job)
{
    const struct gram_view *out = &job->op->out;
    struct median_params params = {.batch = batch_of(job),
                                   .distances = job->matrix,
                                   .out = gram_view_item(out, &job->op->batch, job->first),
                                   .state = job->states,
                                   .rows = job->empty ? 0 : job->op->rows};

    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        params.batch_stride[d] = out->batch_stride[d];
    if (!job->small)
        return queue_passes(g, job, &params);
    return cuda_launch_plain(g, &median_small, out->dtype, params.batch.items, MEDIAN_BINS,
                             &params);
}

/* Distances come from x itself, or from the rows of a sample that lie in scratch. */
static gram_status run_round(gram_context *g, void *of, const struct gram_batch *round,
                             int64_t first)
{
    struct median_job *job = of;
    const struct gram_median_op *op = job->op;
    struct gram_cdist_op *distances = &job->distances;

    TRY(open_round(g, job, round, first));
    if (job->sampled && !job->empty && op->x.cols > 0) {
        TRY(queue_samples(g, job));
        distances->x =
            gram_view_dense_items(job->rows, op->x.dtype, op->rows, op->x.cols, &distances->batch);
    } else {
        distances->x.data = gram_view_item(&op->x, &op->batch, job->first);
    }
    distances->y = distances->x;
    distances->out =
        gram_view_dense_items(job->matrix, op->out.dtype, op->rows, op->rows, &distances->batch);
    distances->p = gram_hyper_alone(&op->p, &op->batch, job->first);
    if (!job->empty)
        TRY(cuda_cdist_queue(g, distances));
    return queue_selection(g, job);
}

gram_status cuda_median(gram_context *g, const struct gram_median_op *op)
{
    struct median_job job = make_job(op);
    const struct gram_rounds rounds = rounds_of(&job);
    gram_status status;
    bool entered;

    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    TRY(gram_cuda_check_pointer(g, "p", &op->p.tensor));
    TRY(gram_cuda_check_pointer(g, "out", &op->out));
    if (op->batch.count == 0)
        return GRAM_OK;
    entered = gram_cuda_enter(g->device);
    status = cuda_run_rounds(g, &op->batch, &rounds, run_round, &job);
    gram_cuda_leave(g->device, entered);
    return status;
}
