/*
 * cpu_kron_matmul.c - products with Kronecker factors: units through groups of passes
 *
 * A unit (a row of x, several, or some lanes) goes through the groups of cpu_kron_matmul_plan.c one
 * after the other, tile by tile (cpu_kron_matmul_tile.c); between groups it lies in a buffer. Units
 * are the parallel loop; where there are few, the tiles of one group of one unit are.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_kron_matmul.h"
#include "core/threads.h"
#include "cpu/cpu.h"

/* ---- Scratch ------------------------------------------------------------------------------- */

/* False if it is more than can be counted. */
static bool lay_out(const gram_context *g, const struct kron_plan *plan, struct kron_layout *l)
{
    size_t element = plan->moves->element, threads = (size_t)g->threads;
    size_t reach = (size_t)plan->kernels->few_lanes;
    int rows = plan->groups > 2 ? 2 : plan->groups - 1;
    int64_t packed = plan->packed_at[plan->op->count];

    if ((double)packed + 2 * (double)threads * ((double)plan->row + (double)plan->tile) > 0x1p58)
        return false;
    l->row = gram_round64(((size_t)plan->row + reach) * element);
    l->tile = gram_round64(((size_t)plan->tile + reach) * element);
    l->rows_at = gram_round64((size_t)packed * element);
    l->thread_rows = plan->tiles_apart ? 0 : (size_t)rows * l->row;
    l->tiles_at = l->rows_at + (plan->tiles_apart ? 1 : threads) * (size_t)rows * l->row;
    l->thread_tiles = 2 * l->tile;
    l->all = l->tiles_at + threads * l->thread_tiles;
    return true;
}

/* ---- Units --------------------------------------------------------------------------------- */

static struct kron_unit unit_at(const struct kron_plan *plan, int64_t index)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t rows = gram_most(plan->rows, plan->lanes);
    struct kron_unit unit = {.item = index / plan->units, .first = index % plan->units * rows};

    unit.rows = plan->lanes > 1 ? 1 : gram_least(plan->rows, op->x.rows - unit.first);
    unit.scale[0] = gram_hyper_at(&op->alpha, &op->batch, unit.item);
    unit.scale[1] = gram_hyper_at(&op->beta, &op->batch, unit.item);
    return unit;
}

static void run_unit(void *arg, int64_t index, int thread)
{
    const struct kron_loop *loop = arg;
    const struct kron_plan *plan = loop->plan;
    int64_t start = gram_trace_begin(loop->g);
    struct kron_unit unit = unit_at(plan, index);

    for (int i = 0; i < plan->groups; i++)
        for (int64_t t = 0, n = cpu_kron_tiles(&unit, &plan->group[i]); t < n; t++)
            cpu_kron_tile(loop, &unit, i, t, thread);
    gram_trace_end(loop->g, "kron unit", thread, start);
}

static void run_one_tile(void *arg, int64_t index, int thread)
{
    const struct kron_loop *loop = arg;
    int64_t start = gram_trace_begin(loop->g);

    cpu_kron_tile(loop, &loop->unit, loop->group, index, thread);
    gram_trace_end(loop->g, "kron tile", thread, start);
}

static void pack_factor(void *arg, int64_t index, int thread)
{
    const struct kron_loop *loop = arg;
    const struct kron_plan *plan = loop->plan;
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t item = index / op->count, start = gram_trace_begin(loop->g), at;
    int f = (int)(index % op->count);
    const struct gram_view *v = &op->factor[f];
    struct kron_factor factor = {.data = gram_view_item(v, &op->batch, item),
                                 .depth = v->rows,
                                 .outs = v->cols,
                                 .step = v->row_stride,
                                 .next = v->col_stride};

    if (item > 0 && plan->packed_step[f] == 0)
        return;
    at = (plan->packed_at[f] + item * plan->packed_step[f]) * (int64_t)plan->moves->element;
    (plan->slices[f] ? plan->moves->pack_slices : plan->moves->pack_columns)(&factor, plan->kernels,
                                                                             loop->scratch + at);
    gram_trace_end(loop->g, "kron pack", thread, start);
}

/* Nanoseconds that the call takes one thread, about: eight multiplications each. */
static double work_of(const struct gram_kron_matmul_op *op)
{
    double rows = (double)op->x.rows * (double)op->batch.count, depth = 0;

    for (int i = 0; i < op->count; i++)
        depth += (double)op->factor[i].rows;
    return rows * (double)gram_most(op->x.cols, op->y.cols) * depth / 8;
}

static void run_plan(struct kron_loop *loop)
{
    const struct kron_plan *plan = loop->plan;
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t units = plan->units * op->batch.count;
    double work = work_of(op);

    gram_for(loop->g, work, op->count * op->batch.count, pack_factor, loop);
    if (!plan->tiles_apart) {
        gram_for(loop->g, work, units, run_unit, loop);
        return;
    }
    for (int64_t u = 0; u < units; u++) {
        loop->unit = unit_at(plan, u);
        for (loop->group = 0; loop->group < plan->groups; loop->group++)
            gram_for(loop->g, work, cpu_kron_tiles(&loop->unit, &plan->group[loop->group]),
                     run_one_tile, loop);
    }
}

/* ---- The whole call ------------------------------------------------------------------------ */

/* The rows from first on, as an operation of their own. */
static struct gram_kron_matmul_op rows_of(const struct gram_kron_matmul_op *op, int64_t first,
                                          int64_t rows)
{
    struct gram_kron_matmul_op part = *op;
    struct gram_view *const views[] = {&part.x, &part.y, &part.z};

    for (int i = 0; i < 3; i++) {
        if (views[i]->data)
            views[i]->data +=
                first * views[i]->row_stride * (int64_t)gram_dtype_size(views[i]->dtype);
        views[i]->rows = rows;
    }
    return part;
}

/* A part of the rows and what it needs. */
struct kron_part {
    struct gram_kron_matmul_op op;
    struct kron_plan plan;
    struct kron_layout layout;
};

/* One part or two; 0 if their scratch is more than can be counted. */
static int make_parts(const gram_context *g, const struct gram_kron_matmul_op *op, int choice,
                      struct kron_part parts[2], size_t *bytes)
{
    int64_t first = cpu_kron_matmul_first_part(g, op);
    int count = first < op->x.rows ? 2 : 1;

    *bytes = 0;
    for (int i = 0; i < count; i++) {
        parts[i].op = i == 0 ? rows_of(op, 0, first) : rows_of(op, first, op->x.rows - first);
        cpu_kron_matmul_plan(g, &parts[i].op, choice, &parts[i].plan);
        if (!lay_out(g, &parts[i].plan, &parts[i].layout))
            return 0;
        *bytes = gram_most_bytes(*bytes, parts[i].layout.all);
    }
    return count;
}

/* y = beta z: x has no columns. */
static void scale_z(const struct gram_kron_matmul_op *op)
{
    const struct kron_moves *moves = cpu_kron_moves(op->y.dtype);
    static const double zeros[64];

    for (int64_t item = 0; item < op->batch.count; item++)
        for (int64_t c = 0; c < op->y.cols; c += 64) {
            const double scale[2] = {0, gram_hyper_at(&op->beta, &op->batch, item)};
            struct kron_piece piece[2];
            const struct gram_view *const views[] = {&op->y, &op->z};
            for (int64_t r = 0; r < op->y.rows; r++) {
                for (int i = 0; i < (scale[1] == 0 ? 1 : 2); i++)
                    piece[i] = (struct kron_piece){
                        .data = gram_view_item(views[i], &op->batch, item) +
                                (r * views[i]->row_stride + c * views[i]->col_stride) *
                                    (int64_t)gram_dtype_size(op->y.dtype),
                        .size = {1, 1, 1,        gram_least(64, op->y.cols - c)},
                        .stride = {0, 0, 0, views[i]->col_stride                }
                    };
                moves->store(&piece[0], scale[1] == 0 ? NULL : &piece[1], scale, zeros);
            }
        }
}

static bool is_empty(const struct gram_kron_matmul_op *op)
{
    return op->batch.count == 0 || op->y.rows == 0 || op->y.cols == 0;
}

gram_status cpu_kron_matmul_chosen(gram_context *g, const struct gram_kron_matmul_op *op,
                                   int choice)
{
    struct kron_part parts[2];
    size_t bytes;
    void *scratch;
    int count;

    if (is_empty(op))
        return GRAM_OK;
    if (op->x.cols == 0) {
        scale_z(op);
        return GRAM_OK;
    }
    count = make_parts(g, op, choice, parts, &bytes);
    if (count == 0)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "a row of x or y is too long: scratch overflows");
    TRY(gram_scratch(g, bytes, &scratch));
    for (int i = 0; i < count; i++) {
        struct kron_loop loop = {
            .g = g, .plan = &parts[i].plan, .layout = &parts[i].layout, .scratch = scratch};
        run_plan(&loop);
    }
    return GRAM_OK;
}

gram_status cpu_kron_matmul(gram_context *g, const struct gram_kron_matmul_op *op)
{
    return cpu_kron_matmul_chosen(g, op, cpu_kron_tuned(g, op));
}

gram_status cpu_kron_matmul_workspace(gram_context *g, const struct gram_kron_matmul_op *op,
                                      size_t *bytes)
{
    struct kron_part parts[2];

    *bytes = 0;
    if (is_empty(op) || op->x.cols == 0)
        return GRAM_OK;
    if (make_parts(g, op, cpu_kron_tuned(g, op), parts, bytes) == 0)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "a row of x or y is too long: scratch overflows");
    return GRAM_OK;
}
