/*
 * cuda_nearest.c - nearest neighbours on the device: panels of distances, and what is kept of them
 *
 * A panel is written as gram_cdist does it, and read once by nearest.cu while most of it is in the
 * second-level cache.  Scratch: a panel, and the neighbours so far of its rows.  Items go together,
 * in rounds of as many as scratch has room for.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include "nearest_params.h"
#include "pairwise.h"

enum {
    NEAREST_ROWS = 2048,
    NEAREST_COLUMNS = 8192, /* 64 MiB of f32: about what an H200's second-level cache has */
    ROUND_BYTES = 1 << 28,  /* of many small items */
    LEAST_CAPACITY = 2 * NEAREST_THREADS,
    BLOCKS = 1 << 20
};

static const struct cuda_kernel nearest_take = {"nearest.cu", "nearest_take"};

struct nearest_job {
    const struct gram_nearest_op *op;
    gram_dtype dtype;
    int64_t rows, cols; /* of a panel */
    struct nearest_params params;
    char *panel; /* scratch */
};

static int64_t item_bytes(const struct nearest_job *job)
{
    const int64_t size = (int64_t)gram_dtype_size(job->dtype);

    return job->rows * (job->cols * size + job->op->count * (size + (int64_t)sizeof(int)) +
                        (int64_t)sizeof(struct nearest_state));
}

/* Room for all that are kept, and for what a block appends before it sorts: a power of 2. */
static int64_t capacity_of(int64_t count)
{
    int64_t capacity = LEAST_CAPACITY;

    while (capacity < count + NEAREST_THREADS)
        capacity *= 2;
    return capacity;
}

static struct nearest_job make_job(const struct gram_nearest_op *op)
{
    struct nearest_job job = {.op = op,
                              .dtype = op->distance.x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32,
                              .rows = gram_least(op->distance.x.rows, NEAREST_ROWS),
                              .cols = gram_least(op->distance.y.rows, NEAREST_COLUMNS)};
    struct nearest_params *p = &job.params;

    p->count = op->count;
    p->capacity = capacity_of(op->count);
    p->radius = op->radius;
    p->exclude_self = op->exclude_self;
    cuda_set_batch(&op->distance.batch, &p->ndim, p->shape);
    p->indices = cuda_given_view(&op->indices, op->has_indices);
    p->distances = cuda_given_view(&op->distances, op->has_distances);
    p->counts = cuda_given_view(&op->counts, op->has_counts);
    return job;
}

static gram_status open_round(gram_context *g, struct nearest_job *job, int64_t items)
{
    const size_t rows = (size_t)(items * job->rows), size = gram_dtype_size(job->dtype),
                 count = (size_t)job->op->count;
    struct gram_layout layout = {0};

    gram_take_many(&layout, &job->panel, rows, (size_t)job->cols * size);
    gram_take_many(&layout, &job->params.values, rows, count * size);
    gram_take_many(&layout, &job->params.places, rows, count * sizeof(int));
    gram_take_many(&layout, &job->params.state, rows, sizeof(struct nearest_state));
    return gram_layout_open(g, &layout);
}

/* Queues a panel of distances, unless it has no columns, and the search in it. */
static gram_status queue_panel(gram_context *g, struct nearest_job *job,
                               const struct gram_cdist_op *round)
{
    struct nearest_params *p = &job->params;
    const struct cuda_grid grid = {.blocks = gram_least(p->items * p->rows, BLOCKS),
                                   .threads = NEAREST_THREADS,
                                   .shared = (size_t)p->capacity *
                                                 (gram_dtype_size(job->dtype) + sizeof(int)) +
                                             NEAREST_THREADS / 32 * sizeof(int)};
    struct gram_cdist_op op = *round;
    struct cuda_variant v;

    op.symmetric = false;
    op.x = gram_view_rows(&op.x, p->i, p->rows);
    op.y = gram_view_rows(&op.y, p->j, p->cols);
    op.out = gram_view_dense_items(job->panel, job->dtype, p->rows, p->cols, &op.batch);
    if (p->cols > 0)
        TRY(cuda_cdist_queue(g, &op));
    p->panel = job->panel;
    cuda_variant(&v, &nearest_take, CUDA_OPTIONS({"REAL", cuda_type(job->dtype)}));
    return cuda_launch(g, &v, &grid, (void *[]){p});
}

static gram_status run_round(gram_context *g, void *of, const struct gram_batch *batch,
                             int64_t first)
{
    struct nearest_job *job = of;
    const struct gram_cdist_op round = gram_cdist_round(&job->op->distance, batch, first);
    const int64_t m = round.x.rows, n = round.y.rows;
    struct nearest_params *p = &job->params;

    TRY(open_round(g, job, batch->count));
    p->items = batch->count, p->first = first;
    for (p->i = 0; p->i < m; p->i += p->rows) {
        p->rows = gram_least(job->rows, m - p->i);
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
        p->j = 0;
        do {
            p->cols = gram_least(job->cols, n - p->j);
            p->begin = p->j == 0;
            p->end = p->j + p->cols == n;
            TRY(queue_panel(g, job, &round));
            p->j += p->cols;
        } while (p->j < n);
    }
    return GRAM_OK;
}

static gram_status check_pointers(gram_context *g, const struct gram_nearest_op *op)
{
    struct gram_cdist_op distance = op->distance;

    if (op->distance.x.rows > INT32_MAX || op->distance.y.rows > INT32_MAX)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "x has %lld rows and y has %lld, but the GPU takes at most %d",
                         (long long)op->distance.x.rows, (long long)op->distance.y.rows, INT32_MAX);
    distance.out = op->distances; /* NULL: not looked at */
    TRY(cuda_cdist_check(g, &distance));
    if (op->has_indices)
        TRY(gram_cuda_check_pointer(g, "indices", &op->indices));
    if (op->has_distances)
        TRY(gram_cuda_check_pointer(g, "distances", &op->distances));
    return op->has_counts ? gram_cuda_check_pointer(g, "options.counts", &op->counts) : GRAM_OK;
}

gram_status cuda_nearest(gram_context *g, const struct gram_nearest_op *op)
{
    struct nearest_job job = make_job(op);
    const struct gram_rounds rounds = gram_rounds_of(
        &op->distance.batch, gram_most(1, ROUND_BYTES / gram_most(1, item_bytes(&job))));
    gram_status status;
    bool entered;

    if (op->distance.batch.count == 0 || op->distance.x.rows == 0)
        return GRAM_OK;
    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    status = cuda_run_rounds(g, &op->distance.batch, &rounds, run_round, &job);
    gram_cuda_leave(g->device, entered);
    return status;
}
