/*
 * cuda_kernel_reduce.c - extremes and soft sums of the rows of a kernel matrix on the device
 *
 * A panel of the matrix is written as gram_kernel does it, and kernel_reduce.cu adds it to what is
 * known of its rows while most of it is in the second-level cache.  Items go together, in rounds of
 * as many as scratch has room for.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include "kernel_reduce_params.h"
#include "pairwise.h"

enum {
    REDUCE_ROWS = 2048,
    REDUCE_COLUMNS = 8192, /* 64 MiB of f32: about what an H200's second-level cache has */
    ROUND_BYTES = 1 << 28, /* of many small items */
    BLOCKS = 1 << 20
};

static const struct cuda_kernel kernel_reduce_take = {"kernel_reduce.cu", "kernel_reduce_take"};

struct reduce_job {
    const struct gram_kernel_reduce_op *op;
    gram_dtype dtype;
    int64_t rows, cols; /* of a panel */
    struct kernel_reduce_params params;
};

static struct reduce_job make_job(const struct gram_kernel_reduce_op *op)
{
    struct reduce_job job = {.op = op,
                             .dtype = op->kernel.x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32,
                             .rows = gram_least(op->kernel.x.rows, REDUCE_ROWS),
                             .cols = gram_least(op->kernel.y.rows, REDUCE_COLUMNS)};
    struct kernel_reduce_params *p = &job.params;
    const bool weighted = op->what == GRAM_REDUCE_SOFTMAX;

    p->what = op->what;
    p->scale = op->scale;
    p->columns = weighted ? op->v.cols : 0;
    cuda_set_batch(&op->kernel.batch, &p->ndim, p->shape);
    p->v = cuda_given_view(&op->v, weighted);
    p->out = cuda_given_view(&op->out, op->has_out);
    p->indices = cuda_given_view(&op->indices, op->has_indices);
    return job;
}

static int64_t item_bytes(const struct reduce_job *job)
{
    return job->rows * (job->cols * (int64_t)gram_dtype_size(job->dtype) +
                        job->params.columns * (int64_t)sizeof(double) +
                        (int64_t)sizeof(struct kernel_reduce_state));
}

static gram_status open_round(gram_context *g, struct reduce_job *job, int64_t items)
{
    const size_t rows = (size_t)(items * job->rows);
    struct gram_layout layout = {0};

    gram_take_many(&layout, &job->params.panel, rows,
                   (size_t)job->cols * gram_dtype_size(job->dtype));
    gram_take_many(&layout, &job->params.state, rows, sizeof(struct kernel_reduce_state));
    gram_take_many(&layout, &job->params.sums, rows, (size_t)job->params.columns * sizeof(double));
    return gram_layout_open(g, &layout);
}

/* Queues a panel of the matrix, unless it has no columns, and what is made of it. */
static gram_status queue_panel(gram_context *g, struct reduce_job *job,
                               const struct gram_cdist_op *round)
{
    struct kernel_reduce_params *p = &job->params;
    struct gram_cdist_op op = *round;

    op.symmetric = false;
    op.row_offset += p->i;
    op.column_offset += p->j;
    op.x = gram_view_rows(&op.x, p->i, p->rows);
    op.y = gram_view_rows(&op.y, p->j, p->cols);
    op.out = gram_view_dense_items(p->panel, job->dtype, p->rows, p->cols, &op.batch);
    if (p->cols > 0)
        TRY(cuda_cdist_queue(g, &op));
    return cuda_launch_plain(g, &kernel_reduce_take, job->dtype,
                             gram_least(p->items * p->rows, BLOCKS), REDUCE_THREADS, p);
}

static gram_status run_round(gram_context *g, void *of, const struct gram_batch *batch,
                             int64_t first)
{
    struct reduce_job *job = of;
    const struct gram_cdist_op round = gram_cdist_round(&job->op->kernel, batch, first);
    const int64_t m = round.x.rows, n = round.y.rows;
    struct kernel_reduce_params *p = &job->params;

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

static gram_status check_pointers(gram_context *g, const struct gram_kernel_reduce_op *op)
{
    struct gram_cdist_op kernel = op->kernel;

    if (op->kernel.x.rows > INT32_MAX || op->kernel.y.rows > INT32_MAX)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "x has %lld rows and y has %lld, but the GPU takes at most %d",
                         (long long)op->kernel.x.rows, (long long)op->kernel.y.rows, INT32_MAX);
    kernel.out = op->out; /* data NULL: not looked at */
    TRY(cuda_cdist_check(g, &kernel));
    if (op->what == GRAM_REDUCE_SOFTMAX)
        TRY(gram_cuda_check_pointer(g, "v", &op->v));
    return op->has_indices ? gram_cuda_check_pointer(g, "indices", &op->indices) : GRAM_OK;
}

gram_status cuda_kernel_reduce(gram_context *g, const struct gram_kernel_reduce_op *op)
{
    struct reduce_job job = make_job(op);
    const struct gram_rounds rounds = gram_rounds_of(
        &op->kernel.batch, gram_most(1, ROUND_BYTES / gram_most(1, item_bytes(&job))));
    gram_status status;
    bool entered;

    if (op->kernel.batch.count == 0 || op->kernel.x.rows == 0)
        return GRAM_OK;
    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    status = cuda_run_rounds(g, &op->kernel.batch, &rounds, run_round, &job);
    gram_cuda_leave(g->device, entered);
    return status;
}
