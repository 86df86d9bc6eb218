/*
 * cpu_eigh_small.c - many small eigenproblems: one in each lane of a vector, groups on all threads
 *
 * A group of as many items as a vector has lanes is brought into lanes, solved, sorted and stored
 * by one thread.  A lane does the same whatever stands in the others, so an item's result does not
 * depend on its neighbours or on the number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu/move.h"
#include "cpu_eigh.h"

struct lanes_loop {
    struct eigh_plan *plan;
    char *scratch; /* share_bytes for each thread */
    size_t share_bytes;
};

/* What each thread has: triangles, vectors and values in lanes; the values of one lane, sorted, and
 * the order of each lane. */
struct lanes_share {
    char *a, *v, *w, *sorted;
    int32_t *order;
};

static void lay_out(const struct eigh_plan *plan, struct gram_layout *l, struct lanes_share *s)
{
    const struct gram_eigh_op *op = plan->op;
    const size_t n = (size_t)op->a.rows, size = gram_dtype_size(op->a.dtype);
    const size_t vector = (size_t)plan->kernels->lanes * size;

    gram_take(l, &s->a, n * (n + 1) / 2 * vector);
    gram_take(l, &s->v, op->has_vectors ? n * n * vector : 0);
    gram_take(l, &s->w, n * vector);
    gram_take(l, &s->sorted, n * size);
    gram_take(l, &s->order, EIGH_LANES * EIGH_SMALL * sizeof(int32_t));
}

/* The item of one lane, its values sorted. */
static void store_lane(const struct lanes_loop *loop, int64_t item, int lane,
                       const struct lanes_share *s)
{
    const struct gram_eigh_kernels *kernels = loop->plan->kernels;
    const struct gram_eigh_op *op = loop->plan->op;
    int64_t n = op->a.rows, lanes = kernels->lanes;
    size_t size = gram_dtype_size(op->a.dtype);
    const struct cpu_move values = {
        .to = s->sorted,
        .from = s->w + (size_t)lane * size,
        .to_stride = {    1, 0},
        .from_stride = {lanes, 0},
        .rows = n,
        .cols = 1,
    };
    struct eigh_pairs pairs = {
        .w = s->sorted,
        .v = op->has_vectors ? s->v + (size_t)lane * size : NULL,
        .stride = {lanes, n * lanes},
        .order = s->order + lane * EIGH_SMALL,
    };

    cpu_move(op->a.dtype, &values);
    cpu_eigh_choose(loop->plan, n, &pairs);
    cpu_eigh_store(loop->plan, item, &pairs);
}

static void solve_group(void *arg, int64_t index, int thread)
{
    const struct lanes_loop *loop = arg;
    struct eigh_plan *plan = loop->plan;
    const struct gram_eigh_kernels *kernels = plan->kernels;
    const struct gram_eigh_op *op = plan->op;
    int64_t n = op->a.rows, first = index * kernels->lanes, left = op->batch.count - first;
    int64_t count = left < kernels->lanes ? left : kernels->lanes, row = op->a.row_stride;
    struct gram_layout layout = {0};
    struct lanes_share s;
    struct gram_eigh_load load = {.n = n};
    uint32_t bad, unfinished;

    lay_out(plan, &layout, &s);
    gram_layout_place(&layout, loop->scratch + (size_t)thread * loop->share_bytes);
    load.a = s.a;
    load.stride[0] = op->uplo == GRAM_LOWER ? row : op->a.col_stride;
    load.stride[1] = op->uplo == GRAM_LOWER ? op->a.col_stride : row;
    for (int64_t l = 0; l < count; l++)
        load.item[l] = cpu_eigh_item(plan, &op->a, first + l);
    bad = kernels->load(&load);
    unfinished = (plan->driver == GRAM_EIGH_DRIVER_CLOSED_FORM
                      ? kernels->closed_form
                      : kernels->jacobi)(n, s.a, op->has_vectors ? s.v : NULL, s.w);
    kernels->sort_lanes(n, s.w, s.order);
    for (int l = 0; l < count; l++) {
        kernels->raise(n, s.w + (size_t)l * gram_dtype_size(op->a.dtype), kernels->lanes,
                       load.exponent[l]);
        if (bad >> l & 1)
            cpu_eigh_fail(plan, first + l, EIGH_NOT_FINITE);
        else if (unfinished >> l & 1)
            cpu_eigh_fail(plan, first + l, EIGH_NOT_CONVERGED);
        else
            store_lane(loop, first + l, l, &s);
    }
}

static gram_status run(gram_context *g, struct eigh_plan *plan)
{
    struct lanes_loop loop = {.plan = plan};
    struct gram_layout layout = {0}, share = {0};
    struct lanes_share one;

    lay_out(plan, &share, &one);
    loop.share_bytes = gram_layout_bytes(&share);
    gram_take_many(&layout, &loop.scratch, (size_t)g->threads, loop.share_bytes);
    TRY(gram_layout_open(g, &layout));
    gram_parallel_for(g, gram_ceil_div(plan->op->batch.count, plan->kernels->lanes), solve_group,
                      &loop);
    return GRAM_OK;
}

static bool takes_three(const struct gram_eigh_op *op)
{
    return op->a.rows <= 3;
}

static bool takes_small(const struct gram_eigh_op *op)
{
    return op->a.rows <= EIGH_SMALL;
}

const struct eigh_driver cpu_eigh_closed_form = {"the closed form", takes_three, run};
const struct eigh_driver cpu_eigh_jacobi = {"Jacobi", takes_small, run};
