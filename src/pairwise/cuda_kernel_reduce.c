/*
 * cuda_kernel_reduce.c - extremes and soft sums of the rows of a kernel matrix on the device
 *
 * Panels come from cuda_pair_panels.c, and kernel_reduce.cu adds each to what is known of its rows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_pair_panels.h"
#include "kernel_reduce_params.h"
#include "pairwise.h"

enum {
    BLOCKS = 1 << 20
};

static const struct cuda_kernel kernel_reduce_take = {"kernel_reduce.cu", "kernel_reduce_take"};

struct reduce_job {
    struct cuda_panels panels;
    struct kernel_reduce_params params;
};

static void take_rows(void *of, struct gram_layout *layout, size_t rows)
{
    struct kernel_reduce_params *p = &((struct reduce_job *)of)->params;

    gram_take_many(layout, &p->state, rows, sizeof(struct kernel_reduce_state));
    gram_take_many(layout, &p->sums, rows, (size_t)p->columns * sizeof(double));
}

static gram_status queue_reduction(gram_context *g, void *of)
{
    struct reduce_job *job = of;
    const struct pair_panel *panel = &job->params.panel;

    return cuda_launch_plain(g, &kernel_reduce_take, job->panels.dtype,
                             gram_least(panel->items * panel->rows, BLOCKS), REDUCE_THREADS,
                             &job->params);
}

static void describe(const struct gram_kernel_reduce_op *op, struct reduce_job *job)
{
    struct kernel_reduce_params *p = &job->params;
    const bool weighted = op->what == GRAM_REDUCE_SOFTMAX;

    *job = (struct reduce_job){
        .panels = {.op = &op->kernel, .take = take_rows, .queue = queue_reduction, .of = job}
    };
    p->what = op->what;
    p->scale = op->scale;
    p->logarithms = op->logarithms;
    p->item_rows = op->kernel.x.rows;
    p->columns = weighted ? op->v.cols : 0;
    p->v = cuda_given_view(&op->v, weighted);
    p->log_weights = cuda_given_view(&op->log_weights, op->has_log_weights);
    p->out = cuda_given_view(&op->out, op->has_out);
    p->indices = cuda_given_view(&op->indices, op->has_indices);
    job->panels.row_bytes =
        (size_t)p->columns * sizeof(double) + sizeof(struct kernel_reduce_state);
    job->panels.panel = &p->panel;
    cuda_panels_plan(&job->panels);
}

static gram_status check_pointers(gram_context *g, const struct gram_kernel_reduce_op *op)
{
    TRY(cuda_panels_check(g, &op->kernel, &op->out));
    if (op->what == GRAM_REDUCE_SOFTMAX)
        TRY(gram_cuda_check_pointer(g, "v", &op->v));
    if (op->has_log_weights)
        TRY(gram_cuda_check_pointer(g, "options.log_weights", &op->log_weights));
    return op->has_indices ? gram_cuda_check_pointer(g, "indices", &op->indices) : GRAM_OK;
}

static gram_status run_call(gram_context *g, const void *work)
{
    const struct gram_kernel_reduce_op *op = work;
    struct reduce_job job;

    TRY(check_pointers(g, op));
    describe(op, &job);
    return cuda_panels_run(g, &job.panels);
}

gram_status cuda_kernel_reduce(gram_context *g, const struct gram_kernel_reduce_op *op)
{
    struct gram_kernel_reduce_op rows = *op;

    if (op->kernel.batch.count == 0 || op->kernel.x.rows == 0)
        return GRAM_OK;
    return cuda_metric_call(g, &rows.kernel, run_call, &rows);
}
