/*
 * cuda_pair_panels.c - how a pairwise matrix is cut into panels on the device, and the walk; and
 * rounds of items, for operations that are made of distances
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_pair_panels.h"
#include "pairwise.h"

enum {
    MOST_ROWS = 2048,
    MOST_COLUMNS = 8192,  /* 64 MiB of f32: about what an H200's second-level cache has */
    ROUND_BYTES = 1 << 28 /* of many small items */
};

/* ---- Rounds of items ----------------------------------------------------------------------- */

/* A round is measured by running it: opening its layout ends it before it queues anything. */
gram_status cuda_run_rounds(gram_context *g, const struct gram_batch *batch,
                            const struct gram_rounds *rounds, cuda_round *work, void *job)
{
    struct gram_batch round = gram_round_at(batch, rounds, 0);
    const struct gram_batch last = gram_round_at(batch, rounds, batch->count - rounds->last_items);
    struct gram_scratch_before before;
    struct gram_layout layout = {0};
    size_t bytes, last_bytes;
    gram_status status = GRAM_OK;
    void *memory;

    TRY(gram_measure(g, &bytes, work(g, job, &round, 0)));
    TRY(gram_measure(g, &last_bytes, work(g, job, &last, 0)));
    bytes = gram_most_bytes(bytes, last_bytes);
    gram_take(&layout, &memory, bytes);
    TRY(gram_layout_open(g, &layout));
    gram_scratch_lend(g, memory, bytes, &before);
    for (int64_t first = 0; status == GRAM_OK && first < batch->count; first += round.count) {
        round = gram_round_at(batch, rounds, first);
        status = work(g, job, &round, first);
    }
    gram_scratch_return(g, &before);
    return status;
}

/* ---- Panels -------------------------------------------------------------------------------- */

void cuda_panels_plan(struct cuda_panels *panels)
{
    const struct gram_cdist_op *op = panels->op;

    panels->dtype = op->x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    panels->rows = gram_least(op->x.rows, MOST_ROWS);
    panels->cols = gram_least(op->y.rows, MOST_COLUMNS);
    cuda_set_batch(&op->batch, &panels->panel->ndim, panels->panel->shape);
}

gram_status cuda_panels_check(gram_context *g, const struct gram_cdist_op *op,
                              const struct gram_view *out)
{
    struct gram_cdist_op values = *op;

    if (op->x.rows > INT32_MAX || op->y.rows > INT32_MAX)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "x has %lld rows and y has %lld, but the GPU takes at most %d",
                         (long long)op->x.rows, (long long)op->y.rows, INT32_MAX);
    values.out = *out; /* data NULL: not looked at */
    return cuda_cdist_check(g, &values);
}

static gram_status open_round(gram_context *g, struct cuda_panels *panels, int64_t items)
{
    const size_t rows = (size_t)(items * panels->rows);
    struct gram_layout layout = {0};

    gram_take_many(&layout, &panels->panel->values, rows,
                   (size_t)panels->cols * gram_dtype_size(panels->dtype));
    panels->take(panels->of, &layout, rows);
    return gram_layout_open(g, &layout);
}

/* Queues a panel of the matrix, unless it has no columns, and what is made of it. */
static gram_status queue_panel(gram_context *g, const struct cuda_panels *panels,
                               const struct gram_cdist_op *round)
{
    const struct pair_panel *p = panels->panel;
    struct gram_cdist_op op = *round;

    op.symmetric = false;
    op.row_offset += p->i;
    op.column_offset += p->j;
    op.x = gram_view_rows(&op.x, p->i, p->rows);
    op.y = gram_view_rows(&op.y, p->j, p->cols);
    op.out = gram_view_dense_items(p->values, panels->dtype, p->rows, p->cols, &op.batch);
    if (p->cols > 0)
        TRY(cuda_cdist_queue(g, &op));
    return panels->queue(g, panels->of);
}

static gram_status run_round(gram_context *g, void *of, const struct gram_batch *batch,
                             int64_t first)
{
    struct cuda_panels *panels = of;
    const struct gram_cdist_op round = gram_cdist_round(panels->op, batch, first);
    const int64_t m = round.x.rows, n = round.y.rows;
    struct pair_panel *p = panels->panel;

    TRY(open_round(g, panels, batch->count));
    p->items = batch->count, p->first = first;
    for (p->i = 0; p->i < m; p->i += p->rows) {
        p->rows = gram_least(panels->rows, m - p->i);
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
        p->j = 0;
        do {
            p->cols = gram_least(panels->cols, n - p->j);
            p->begin = p->j == 0;
            p->end = p->j + p->cols == n;
            TRY(queue_panel(g, panels, &round));
            p->j += p->cols;
        } while (p->j < n);
    }
    return GRAM_OK;
}

gram_status cuda_panels_run(gram_context *g, struct cuda_panels *panels)
{
    const struct gram_batch *batch = &panels->op->batch;
    const int64_t item_bytes =
        panels->rows *
        (panels->cols * (int64_t)gram_dtype_size(panels->dtype) + (int64_t)panels->row_bytes);
    const struct gram_rounds rounds =
        gram_rounds_of(batch, gram_most(1, ROUND_BYTES / gram_most(1, item_bytes)));
    const bool entered = gram_cuda_enter(g->device);
    const gram_status status = cuda_run_rounds(g, batch, &rounds, run_round, panels);

    gram_cuda_leave(g->device, entered);
    return status;
}
