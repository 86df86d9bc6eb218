/*
 * cpu_kron_matmul_plan.c - which factors are applied together, in which order, to tiles of what
 * size
 *
 * Contracting index i, of P_i elements, leaves Q_i in its place and costs P_i multiply-adds an
 * element of the result.  Two contractions cost least when the one with the smaller 1/P - 1/Q comes
 * first (compare Q_i P_j (P_i + Q_j) both ways), so what shrinks comes before what grows and no
 * tensor on the way is larger than the larger of x and y.  Groups are ordered so, and the passes
 * inside of each; equal ones go from the last factor to the first, which reads x in order.  The
 * order depends on the sizes of the factors alone, and so does every sum.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu/cpu_kernels.h"
#include "cpu_kron_matmul.h"

/* Of each of the two buffers of a tile; the first is the library's own choice, gram_tune_kron
 * measures the others.  Zen 4 with 32 KB and 1 MB of cache a core, GFLOP/s in f32 with 16, 32, 64,
 * 128 KB: 64 rows of 8^5: 58 59 63 64, 256 rows of 5^6: 35 39 43 44.  Zen 3 with 512 KB a core, a
 * thread, ms in f32 with 32 KB to 1 MB, doubled each time: 1 row of 8^8: 80 64 48 48 47 42, 4 rows
 * of 4^10: 14.0 11.2 10.4 9.9 10.3 10.1, others within 4 % of 128 KB. */
static const int64_t tile_bytes[CPU_KRON_CHOICES + 1] = {131072, 32768,  65536,
                                                         262144, 524288, 1048576};

enum {
    UNITS_A_THREAD = 4,    /* fewer, and the tiles of a unit go to different threads */
    APART_STEPS = 1 << 17, /* unless a unit has fewer multiply-adds: 2 us, as a parallel loop */
};

/* Cuts the factors into groups, from the last one on, as long as a tile fits. */
static void make_groups(struct kron_plan *plan)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t budget = plan->tile_bytes / (int64_t)plan->moves->element, after = plan->lanes;

    plan->groups = 0;
    for (int last = op->count - 1; last >= 0;) {
        struct kron_group *group = &plan->group[plan->groups++];
        int64_t width = gram_least(after, 2 * plan->kernels->lanes);
        *group = (struct kron_group){
            .span = {.first = last, .count = 1}
        };
        while (group->span.first > 0) {
            struct gram_kron_span longer = {.first = group->span.first - 1,
                                            .count = group->span.count + 1};
            if (gram_kron_span_order(op, &longer) > budget / width)
                break;
            group->span = longer;
        }
        gram_kron_span_order(op, &group->span);
        after *= gram_most(group->span.in, group->span.out);
        last = group->span.first - 1;
    }
}

/* Tiles of even widths, whole vectors where there is more than one. */
static void choose_tiles(struct kron_plan *plan)
{
    int64_t budget = plan->tile_bytes / (int64_t)plan->moves->element;

    plan->tile = 0;
    for (int i = 0; i < plan->groups; i++) {
        struct kron_group *group = &plan->group[i];
        struct kron_group copy = *group;
        int64_t most = gram_kron_span_order(plan->op, &copy.span), step = plan->kernels->lanes;
        int64_t before = group->span.before * plan->rows;
        if (plan->lanes > 1)
            step = plan->lanes;
        group->width = gram_least(group->span.after, gram_most(budget / most, 2 * step));
        group->col_tiles = gram_ceil_div(group->span.after, group->width);
        group->width =
            gram_least(group->span.after,
                       gram_round_up(gram_ceil_div(group->span.after, group->col_tiles), step));
        group->col_tiles = gram_ceil_div(group->span.after, group->width);
        group->blocks = 1;
        if (group->col_tiles == 1)
            group->blocks = gram_least(before, gram_most(budget / (most * group->span.after), 1));
        group->row_tiles = gram_ceil_div(before, group->blocks);
        plan->tile = gram_most(plan->tile, most * group->blocks * group->width);
    }
}

/* Multiply-adds of a unit. */
static double steps(const struct kron_plan *plan)
{
    double total = 0;

    for (int i = 0; i < plan->groups; i++) {
        const struct kron_group *group = &plan->group[i];
        double elements =
            (double)group->span.before * (double)group->span.in * (double)group->span.after;
        for (int j = 0; j < group->span.count; j++) {
            const struct gram_view *f = &plan->op->factor[group->span.order[j]];
            total += elements * (double)f->cols;
            elements = elements / (double)f->rows * (double)f->cols;
        }
    }
    return total * (double)plan->rows;
}

/* Which pass is one of slices, and where the packed factors are. */
static void place_factors(struct kron_plan *plan)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t line = 64 / (int64_t)plan->moves->element, at = 0;

    for (int i = 0; i < plan->groups; i++) {
        const struct kron_group *group = &plan->group[i];
        int64_t inside = group->span.after;
        for (int f = group->span.first + group->span.count - 1; f >= group->span.first; f--) {
            int64_t now = 1;
            for (int j = 0; group->span.order[j] != f; j++) /* those after f that come before it */
                if (group->span.order[j] > f)
                    now *= op->factor[group->span.order[j]].cols;
            for (int j = group->span.count - 1; group->span.order[j] != f; j--)
                if (group->span.order[j] > f)
                    now *= op->factor[group->span.order[j]].rows;
            plan->slices[f] = inside * now == 1;
        }
    }
    for (int f = 0; f < op->count; f++) {
        const struct gram_view *v = &op->factor[f];
        bool batched = false;
        int64_t elements = plan->slices[f]
                               ? gram_kron_slice_elements(plan->kernels, v->rows, v->cols)
                               : v->rows * v->cols;
        for (int i = 0; i < op->batch.ndim; i++)
            batched |= v->batch_stride[i] != 0;
        plan->packed_at[f] = at;
        plan->packed_step[f] = batched ? gram_round_up(elements, line) : 0;
        at += gram_round_up(elements, line) * (batched ? op->batch.count : 1);
    }
    plan->packed_at[op->count] = at;
}

/* True if the rows of x are contiguous in x and y and their elements are not. */
static bool rows_are_lanes(const struct gram_kron_matmul_op *op)
{
    return op->x.rows > 1 && op->x.row_stride == 1 && op->y.row_stride == 1 &&
           !(op->x.col_stride == 1 && op->y.col_stride == 1);
}

static int64_t most_lanes(const gram_context *g, const struct gram_kron_matmul_op *op)
{
    return 2 * gram_cpu_kernels_of(g)->kron[cpu_kron_moves(op->x.dtype)->arithmetic]->lanes;
}

int64_t cpu_kron_matmul_first_part(const gram_context *g, const struct gram_kron_matmul_op *op)
{
    int64_t lanes = most_lanes(g, op);

    if (!rows_are_lanes(op) || op->x.rows < 2 * lanes)
        return op->x.rows;
    return op->x.rows / lanes * lanes;
}

static void make_plan(const gram_context *g, const struct gram_kron_matmul_op *op, int choice,
                      struct kron_plan *plan)
{
    int64_t rows = op->x.rows, all = rows * op->batch.count;

    *plan = (struct kron_plan){
        .op = op, .lanes = 1, .rows = 1, .choice = choice, .tile_bytes = tile_bytes[choice]};
    plan->moves = cpu_kron_moves(op->x.dtype);
    plan->kernels = gram_cpu_kernels_of(g)->kron[plan->moves->arithmetic];
    if (rows_are_lanes(op))
        plan->lanes = rows < 2 * most_lanes(g, op) ? rows : most_lanes(g, op);
    make_groups(plan);
    plan->row =
        gram_kron_spans_arrange(plan->group, sizeof plan->group[0], plan->groups, plan->lanes);
    if (plan->lanes == 1 && plan->groups == 1) { /* several tiles of rows */
        int64_t most = gram_most(plan->group[0].span.in, plan->group[0].span.out);
        int64_t share = gram_ceil_div(all, (int64_t)g->threads * UNITS_A_THREAD);
        plan->rows = 4 * plan->tile_bytes / (int64_t)plan->moves->element / most;
        plan->rows = gram_most(gram_least(gram_least(plan->rows, rows), share), 1);
    }
    plan->units = gram_ceil_div(rows, gram_most(plan->lanes, plan->rows));
    choose_tiles(plan);
    place_factors(plan);
    plan->tiles_apart = g->threads > 1 && steps(plan) > APART_STEPS &&
                        plan->units * op->batch.count < (int64_t)g->threads * UNITS_A_THREAD;
}

/* Whether the factors are contracted in one order: then every sum is the same. */
static bool same_order(const struct kron_plan *a, const struct kron_plan *b)
{
    int group = 0, at = 0;

    for (int i = 0; i < a->groups; i++)
        for (int j = 0; j < a->group[i].span.count; j++) {
            if (a->group[i].span.order[j] != b->group[group].span.order[at++])
                return false;
            if (at == b->group[group].span.count)
                group++, at = 0;
        }
    return true;
}

void cpu_kron_matmul_plan(const gram_context *g, const struct gram_kron_matmul_op *op, int choice,
                          struct kron_plan *plan)
{
    struct kron_plan own;

    make_plan(g, op, choice, plan);
    if (choice == 0)
        return;
    make_plan(g, op, 0, &own);
    if (!same_order(plan, &own))
        *plan = own;
}
