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
#include "cpu_kernels.h"
#include "cpu_kron_matmul.h"

enum {
    /* Of each of the two buffers of a tile.  Zen 4 with 32 KB and 1 MB of cache a core, GFLOP/s in
     * f32 with 16, 32, 64, 128 KB: 64 rows of 8^5: 58 59 63 64, 256 rows of 5^6: 35 39 43 44. */
    TILE_BYTES = 131072,
    UNITS_A_THREAD = 4,    /* fewer, and the tiles of a unit go to different threads */
    APART_STEPS = 1 << 17, /* unless a unit has fewer multiply-adds: 2 us, as a parallel loop */
};

/* The contraction that comes first costs least. */
static double key(int64_t in, int64_t out)
{
    return 1 / (double)in - 1 / (double)out;
}

/* Factors first .. first + count - 1 in the order of their passes; gives the most elements that
 * their indices have on the way. */
static int64_t order_passes(const struct gram_kron_matmul_op *op, struct kron_group *group)
{
    int64_t elements = 1, most;

    group->in = group->out = 1;
    for (int i = 0; i < group->count; i++) {
        int factor = group->first + group->count - 1 - i, at = i;
        const struct gram_view *f = &op->factor[factor];
        for (; at > 0; at--) {
            const struct gram_view *other = &op->factor[group->order[at - 1]];
            if (key(other->rows, other->cols) <= key(f->rows, f->cols))
                break;
            group->order[at] = group->order[at - 1];
        }
        group->order[at] = factor;
        group->in *= f->rows;
        group->out *= f->cols;
    }
    most = elements = group->in;
    for (int i = 0; i < group->count; i++) {
        const struct gram_view *f = &op->factor[group->order[i]];
        elements = elements / f->rows * f->cols;
        most = gram_most(most, elements);
    }
    return most;
}

/* Cuts the factors into groups, from the last one on, as long as a tile fits. */
static void make_groups(struct kron_plan *plan)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t budget = TILE_BYTES / (int64_t)plan->moves->element, after = plan->lanes;

    plan->groups = 0;
    for (int last = op->count - 1; last >= 0;) {
        struct kron_group *group = &plan->group[plan->groups++];
        int64_t width = gram_least(after, 2 * plan->kernels->lanes);
        *group = (struct kron_group){.first = last, .count = 1};
        while (group->first > 0) {
            struct kron_group longer = {.first = group->first - 1, .count = group->count + 1};
            if (order_passes(op, &longer) > budget / width)
                break;
            *group = longer;
        }
        order_passes(op, group);
        after *= gram_most(group->in, group->out);
        last = group->first - 1;
    }
}

static void order_groups(struct kron_plan *plan)
{
    for (int i = 1; i < plan->groups; i++) {
        struct kron_group moved = plan->group[i];
        int at = i;
        for (; at > 0; at--) {
            const struct kron_group *other = &plan->group[at - 1];
            if (key(other->in, other->out) <= key(moved.in, moved.out))
                break;
            plan->group[at] = *other;
        }
        plan->group[at] = moved;
    }
}

/* What is around each group when its turn comes, and the elements between groups. */
static void place_groups(struct kron_plan *plan)
{
    plan->row = 0;
    for (int i = 0; i < plan->groups; i++) {
        struct kron_group *group = &plan->group[i];
        group->before = 1, group->after = plan->lanes;
        for (int j = 0; j < plan->groups; j++) {
            const struct kron_group *other = &plan->group[j];
            int64_t size = j < i ? other->out : other->in;
            if (j != i)
                *(other->first < group->first ? &group->before : &group->after) *= size;
        }
        if (i + 1 < plan->groups)
            plan->row = gram_most(plan->row, group->before * group->out * group->after);
    }
}

/* Tiles of even widths, whole vectors where there is more than one. */
static void choose_tiles(struct kron_plan *plan)
{
    int64_t budget = TILE_BYTES / (int64_t)plan->moves->element;

    plan->tile = 0;
    for (int i = 0; i < plan->groups; i++) {
        struct kron_group *group = &plan->group[i];
        struct kron_group copy = *group;
        int64_t most = order_passes(plan->op, &copy), step = plan->kernels->lanes;
        int64_t before = group->before * plan->rows;
        if (plan->lanes > 1)
            step = plan->lanes;
        group->width = gram_least(group->after, gram_most(budget / most, 2 * step));
        group->col_tiles = gram_ceil_div(group->after, group->width);
        group->width = gram_least(
            group->after, gram_round_up(gram_ceil_div(group->after, group->col_tiles), step));
        group->col_tiles = gram_ceil_div(group->after, group->width);
        group->blocks = 1;
        if (group->col_tiles == 1)
            group->blocks = gram_least(before, gram_most(budget / (most * group->after), 1));
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
        double elements = (double)group->before * (double)group->in * (double)group->after;
        for (int j = 0; j < group->count; j++) {
            const struct gram_view *f = &plan->op->factor[group->order[j]];
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
        int64_t inside = group->after;
        for (int f = group->first + group->count - 1; f >= group->first; f--) {
            int64_t now = 1;
            for (int j = 0; group->order[j] != f; j++) /* those after f that come before it */
                if (group->order[j] > f)
                    now *= op->factor[group->order[j]].cols;
            for (int j = group->count - 1; group->order[j] != f; j--)
                if (group->order[j] > f)
                    now *= op->factor[group->order[j]].rows;
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

void cpu_kron_matmul_plan(const gram_context *g, const struct gram_kron_matmul_op *op,
                          struct kron_plan *plan)
{
    int64_t rows = op->x.rows, all = rows * op->batch.count;

    *plan = (struct kron_plan){.op = op, .lanes = 1, .rows = 1};
    plan->moves = cpu_kron_moves(op->x.dtype);
    plan->kernels = gram_cpu_kernels_of(g)->kron[plan->moves->arithmetic];
    if (rows_are_lanes(op))
        plan->lanes = rows < 2 * most_lanes(g, op) ? rows : most_lanes(g, op);
    make_groups(plan);
    order_groups(plan);
    place_groups(plan);
    if (plan->lanes == 1 && plan->groups == 1) { /* several tiles of rows */
        int64_t most = gram_most(plan->group[0].in, plan->group[0].out);
        int64_t share = gram_ceil_div(all, (int64_t)g->threads * UNITS_A_THREAD);
        plan->rows = 4 * TILE_BYTES / (int64_t)plan->moves->element / most;
        plan->rows = gram_most(gram_least(gram_least(plan->rows, rows), share), 1);
    }
    plan->units = gram_ceil_div(rows, gram_most(plan->lanes, plan->rows));
    choose_tiles(plan);
    place_factors(plan);
    plan->tiles_apart = g->threads > 1 && steps(plan) > APART_STEPS &&
                        plan->units * op->batch.count < (int64_t)g->threads * UNITS_A_THREAD;
}
