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
    char *scratch; /* bytes_per_thread for each thread */
    size_t v_at, w_at, sorted_at, order_at, bytes_per_thread;
};

static struct lanes_loop lay_out(const struct eigh_plan *plan)
{
    const struct gram_eigh_op *op = plan->op;
    size_t n = (size_t)op->a.rows, size = gram_dtype_size(op->a.dtype);
    size_t vector = (size_t)plan->kernels->lanes * size;
    struct lanes_loop loop = {.plan = NULL};

    loop.v_at = gram_round64(n * (n + 1) / 2 * vector);
    loop.w_at = loop.v_at + (op->has_vectors ? gram_round64(n * n * vector) : 0);
    loop.sorted_at = loop.w_at + gram_round64(n * vector);
    loop.order_at = loop.sorted_at + gram_round64(n * size);
    loop.bytes_per_thread = loop.order_at + EIGH_LANES * EIGH_SMALL * sizeof(int32_t);
    return loop;
}

static size_t bytes(const gram_context *g, const struct eigh_plan *plan)
{
    return (size_t)g->threads * lay_out(plan).bytes_per_thread;
}

/* The item of one lane, its values sorted. */
static void store_lane(const struct lanes_loop *loop, int64_t item, int lane, char *s)
{
    const struct gram_eigh_kernels *kernels = loop->plan->kernels;
    const struct gram_eigh_op *op = loop->plan->op;
    int64_t n = op->a.rows, lanes = kernels->lanes;
    size_t size = gram_dtype_size(op->a.dtype);
    char *sorted = s + loop->sorted_at;
    const struct cpu_move values = {
        .to = sorted,
        .from = s + loop->w_at + (size_t)lane * size,
        .to_stride = {    1, 0},
        .from_stride = {lanes, 0},
        .rows = n,
        .cols = 1,
    };
    struct eigh_pairs pairs = {
        .w = sorted,
        .v = op->has_vectors ? s + loop->v_at + (size_t)lane * size : NULL,
        .stride = {lanes, n * lanes},
        .order = (const int32_t *)(const void *)(s + loop->order_at) + lane * EIGH_SMALL,
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
    char *s = loop->scratch + (size_t)thread * loop->bytes_per_thread;
    void *v = op->has_vectors ? s + loop->v_at : NULL, *w = s + loop->w_at;
    int64_t n = op->a.rows, first = index * kernels->lanes, left = op->batch.count - first;
    int64_t count = left < kernels->lanes ? left : kernels->lanes, row = op->a.row_stride;
    struct gram_eigh_load load = {.n = n, .a = s};
    uint32_t bad, unfinished;

    load.stride[0] = op->uplo == GRAM_LOWER ? row : op->a.col_stride;
    load.stride[1] = op->uplo == GRAM_LOWER ? op->a.col_stride : row;
    for (int64_t l = 0; l < count; l++)
        load.item[l] = cpu_eigh_item(plan, &op->a, first + l);
    bad = kernels->load(&load);
    unfinished = (plan->driver == GRAM_EIGH_DRIVER_CLOSED_FORM ? kernels->closed_form
                                                               : kernels->jacobi)(n, s, v, w);
    kernels->sort_lanes(n, w, (int32_t *)(void *)(s + loop->order_at));
    for (int l = 0; l < count; l++) {
        kernels->raise(n, (char *)w + (size_t)l * gram_dtype_size(op->a.dtype), kernels->lanes,
                       load.exponent[l]);
        if (bad >> l & 1)
            cpu_eigh_fail(plan, first + l, EIGH_NOT_FINITE);
        else if (unfinished >> l & 1)
            cpu_eigh_fail(plan, first + l, EIGH_NOT_CONVERGED);
        else
            store_lane(loop, first + l, l, s);
    }
}

static void run(gram_context *g, struct eigh_plan *plan, void *scratch)
{
    struct lanes_loop loop = lay_out(plan);
    int64_t lanes = plan->kernels->lanes;

    loop.plan = plan;
    loop.scratch = scratch;
    gram_parallel_for(g, (plan->op->batch.count + lanes - 1) / lanes, solve_group, &loop);
}

static bool takes_three(const struct gram_eigh_op *op)
{
    return op->a.rows <= 3;
}

static bool takes_small(const struct gram_eigh_op *op)
{
    return op->a.rows <= EIGH_SMALL;
}

const struct eigh_driver cpu_eigh_closed_form = {"the closed form", takes_three, bytes, run};
const struct eigh_driver cpu_eigh_jacobi = {"Jacobi", takes_small, bytes, run};
