/*
 * cpu_kron_matmul_vjp.c - gram_kron_matmul_vjp on the CPU: units of rows, rounds of units, their
 * sums
 *
 * The gradients of the factors are sums over the rows, and over the items of the batch that a
 * factor is broadcast to.  A unit leaves its part in a slot; the slots of a round are then added
 * to the output in the order of the units.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_kron_matmul_vjp.h"
#include "core/blas.h"
#include "core/threads.h"
#include <string.h>

enum {
    STORED_ROWS = 64 /* of a gradient that a thread adds up at a time */
};

struct round {
    const struct kron_vjp_plan *plan;
    int64_t base, count; /* units */
    int factor;          /* whose gradient is stored */
};

/* ---- Sums to outputs ----------------------------------------------------------------------- */

/* Adds a slot to the output of an item, or stores it there. */
static void store_slot(const struct round *r, int64_t slot, int64_t item, bool first, int64_t row,
                       int64_t rows)
{
    const struct kron_vjp_plan *plan = r->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    const struct gram_view *to = &op->to_factor[r->factor];
    int64_t size = (int64_t)gram_dtype_size(to->dtype);
    const struct kron_vjp_move m = {
        .to = gram_view_item(to, &op->batch, item) + row * to->row_stride * size,
        .from = plan->scratch + plan->sum_at[r->factor] +
                (size_t)slot * cpu_kron_matmul_vjp_sum_bytes(op, r->factor) +
                (size_t)(row * to->cols * size),
        .to_stride = {to->row_stride, to->col_stride},
        .from_stride = {      to->cols,              1},
        .rows = rows,
        .cols = to->cols,
        .add = !(first && cpu_kron_matmul_vjp_first(to, &op->batch, item)),
    };

    cpu_kron_matmul_vjp_move(to->dtype, &m);
}

static void store_rows(void *arg, int64_t index, int thread)
{
    const struct round *r = arg;
    const struct kron_vjp_plan *plan = r->plan;
    int64_t row = index * STORED_ROWS;
    int64_t rows = gram_least(STORED_ROWS, plan->op->factor[r->factor].rows - row);

    (void)thread;
    for (int64_t u = 0; plan->wide && u < plan->slots[r->factor]; u++)
        store_slot(r, u, r->base, u == 0, row, rows);
    for (int64_t u = 0; !plan->wide && u < r->count; u++)
        store_slot(r, u, (r->base + u) / plan->units, (r->base + u) % plan->units == 0, row, rows);
}

static void store_sums(struct round *r)
{
    const struct kron_vjp_plan *plan = r->plan;
    int64_t start = gram_trace_begin(plan->g);

    for (r->factor = 0; r->factor < plan->op->count; r->factor++)
        if (plan->op->want_factor[r->factor])
            gram_parallel_for(plan->g, gram_ceil_div(plan->op->factor[r->factor].rows, STORED_ROWS),
                              store_rows, r);
    gram_trace_end(plan->g, "kron sums", 0, start);
}

/* ---- Rows ---------------------------------------------------------------------------------- */

static void run_unit(void *arg, int64_t index, int thread)
{
    const struct round *r = arg;
    const struct kron_vjp_plan *plan = r->plan;
    int64_t unit = r->base + index, first = unit % plan->units * plan->unit_rows;
    int64_t end = gram_least(first + plan->unit_rows, plan->op->x.rows);
    struct kron_vjp_rows rows = {
        .plan = plan,
        .memory = plan->scratch + (size_t)thread * plan->at.bytes,
        .item = unit / plan->units,
        .slot = index,
        .thread = thread,
    };

    for (rows.row = first; rows.row < end; rows.row += rows.count) {
        rows.count = gram_least(plan->rows, end - rows.row);
        rows.accumulate = rows.row > first;
        cpu_kron_matmul_vjp_chain(&rows);
    }
}

static void run_rounds(const struct kron_vjp_plan *plan)
{
    struct round r = {.plan = plan};

    for (r.base = 0; r.base < plan->total; r.base += r.count) {
        r.count = gram_least(VJP_SLOTS, plan->total - r.base);
        if (plan->x_shared) /* of one item, or two threads add to one place */
            r.count = gram_least(r.count, plan->units - r.base % plan->units);
        gram_blas_for(plan->g, r.count, run_unit, &r);
        store_sums(&r);
    }
}

/* Slots begin at zero: which of them a step uses depends on its sizes. */
static void run_wide(const struct kron_vjp_plan *plan)
{
    size_t sums = plan->bytes - plan->sums_at;

    for (int64_t item = 0; item < plan->op->batch.count; item++) {
        struct kron_vjp_rows rows = {
            .plan = plan, .memory = plan->scratch, .item = item, .accumulate = true};
        struct round r = {.plan = plan, .base = item, .count = 1};
        if (sums)
            memset(plan->scratch + plan->sums_at, 0, sums);
        for (; rows.row < plan->op->x.rows; rows.row += rows.count) {
            rows.count = gram_least(plan->rows, plan->op->x.rows - rows.row);
            cpu_kron_matmul_vjp_chain(&rows);
        }
        store_sums(&r);
    }
}

/* ---- The call ------------------------------------------------------------------------------ */

/* Without rows, columns or items gradients are sums of nothing. */
static bool is_empty(const struct gram_kron_matmul_vjp_op *op)
{
    return op->batch.count == 0 || op->x.rows == 0 || op->x.cols == 0 || op->grad.cols == 0;
}

static void fill_zero(const struct gram_kron_matmul_vjp_op *op, const struct gram_view *v)
{
    static const double zero = 0;
    int64_t size = (int64_t)gram_dtype_size(v->dtype);
    struct gram_batch own = op->batch; /* which may have items where the call has none */

    own.count = 1;
    for (int i = 0; i < own.ndim; i++) {
        own.shape[i] = v->batch_stride[i] == 0 ? 1 : own.shape[i];
        own.count *= own.shape[i];
    }
    for (int64_t item = 0; v->rows * v->cols > 0 && item < own.count; item++)
        for (int64_t i = 0; i < v->rows; i++)
            for (int64_t j = 0; j < v->cols; j++)
                memcpy(gram_view_item(v, &own, item) +
                           (i * v->row_stride + j * v->col_stride) * size,
                       &zero, (size_t)size);
}

gram_status cpu_kron_matmul_vjp(gram_context *g, const struct gram_kron_matmul_vjp_op *op)
{
    struct kron_vjp_plan plan;
    void *scratch;

    if (is_empty(op)) {
        for (int i = 0; i < op->count; i++)
            if (op->want_factor[i])
                fill_zero(op, &op->to_factor[i]);
        if (op->want_x)
            fill_zero(op, &op->to_x);
        return GRAM_OK;
    }
    TRY(cpu_kron_matmul_vjp_plan(g, op, &plan));
    TRY(gram_scratch(g, plan.bytes, &scratch));
    plan.scratch = scratch;
    if (plan.wide)
        run_wide(&plan);
    else
        run_rounds(&plan);
    return GRAM_OK;
}

gram_status cpu_kron_matmul_vjp_workspace(gram_context *g, const struct gram_kron_matmul_vjp_op *op,
                                          size_t *bytes)
{
    struct kron_vjp_plan plan;

    *bytes = 0;
    if (is_empty(op))
        return GRAM_OK;
    TRY(cpu_kron_matmul_vjp_plan(g, op, &plan));
    *bytes = plan.bytes;
    return GRAM_OK;
}
