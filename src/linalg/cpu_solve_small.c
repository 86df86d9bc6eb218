/*
 * cpu_solve_small.c - many small systems: one item a thread, in a buffer that stays in the cache
 *
 * A global number of BLAS threads rules out LAPACK inside a parallel loop, and its call overhead
 * costs more than the work here.  Each thread has a buffer for one matrix and SOLVE_WIDTH
 * right-hand sides; whatever the caller's strides, an item is copied in, worked on, copied out.
 *
 * The buffer holds what LAPACK would see in the caller's factor, so that small and large items
 * leave the same factors: Cholesky always its lower triangle L (of A transposed for GRAM_UPPER),
 * LU the matrix or, where it is stored by rows, its transpose.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu/move.h"
#include "cpu_solve.h"
#include <string.h>

enum {
    ITEMS_AT_A_TIME = 16 /* a 4 by 4 takes 0.2 us: handing out single ones costs as much */
};

struct small_loop {
    struct solve_plan *plan;
    char *scratch; /* bytes_per_thread for each thread */
    size_t bytes_per_thread, rhs_at, pivots_at;
    bool flip; /* the buffer holds the transpose of what the caller's indices mean */
    enum cpu_move_part part;
};

static struct small_loop lay_out(struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    size_t n = (size_t)op->a.rows;
    size_t column = (size_t)gram_solve_ld(op->a.rows) * gram_dtype_size(op->a.dtype);
    struct small_loop loop = {.plan = plan, .part = plan->lu ? CPU_MOVE_ALL : CPU_MOVE_LOWER};

    loop.rhs_at = n * column;
    loop.pivots_at = loop.rhs_at + SOLVE_WIDTH * column;
    loop.bytes_per_thread = loop.pivots_at + gram_round64(plan->lu ? n * sizeof(int32_t) : 0);
    loop.flip = plan->lu ? gram_solve_layout(op->has_factor ? &op->factor : &op->a).row_major
                         : op->uplo == GRAM_UPPER;
    return loop;
}

size_t cpu_solve_small_bytes(const gram_context *g, const struct solve_plan *plan)
{
    struct solve_plan copy = {.op = plan->op, .lu = plan->lu};

    return (size_t)g->threads * lay_out(&copy).bytes_per_thread;
}

/* Copies a matrix of the caller's to the buffer s. */
static void load_matrix(const struct small_loop *loop, const struct gram_view *v, const char *data,
                        void *s)
{
    const int64_t down = loop->flip ? v->col_stride : v->row_stride;
    const int64_t across = loop->flip ? v->row_stride : v->col_stride;
    const struct cpu_move c = {
        .to = s,
        .from = data,
        .to_stride = {   1, gram_solve_ld(v->rows)},
        .from_stride = {down,                 across},
        .rows = v->rows,
        .cols = v->rows,
        .part = loop->part,
    };

    if (v->rows == 0)
        return;
    memset(s, 0, loop->rhs_at); /* the rows beyond n must be zero */
    cpu_move(v->dtype, &c);
}

/* And back. */
static void store_matrix(const struct small_loop *loop, const struct gram_view *v, void *data,
                         const void *s)
{
    const int64_t down = loop->flip ? v->col_stride : v->row_stride;
    const int64_t across = loop->flip ? v->row_stride : v->col_stride;
    const struct cpu_move c = {
        .to = data,
        .from = s,
        .to_stride = {down,                 across},
        .from_stride = {   1, gram_solve_ld(v->rows)},
        .rows = v->rows,
        .cols = v->rows,
        .part = loop->part,
    };

    cpu_move(v->dtype, &c);
}

static int64_t factorise(const struct small_loop *loop, int64_t own, void *s, int32_t *pivots)
{
    const struct solve_plan *plan = loop->plan;
    const struct gram_solve_op *op = plan->op;
    int64_t n = op->a.rows, info;

    load_matrix(loop, &op->a, cpu_solve_item(plan, &op->a, own, 0), s);
    if (op->factored) {
        if (plan->lu)
            cpu_solve_pivots_in(plan, own, pivots);
        return plan->kernels->bad_diagonal(n, s, gram_solve_ld(n), !plan->lu);
    }
    info = plan->lu ? plan->kernels->lu(n, s, pivots) : plan->kernels->cholesky(n, s);
    if (op->has_factor)
        store_matrix(loop, &op->factor, cpu_solve_item(plan, &op->factor, own, 0), s);
    if (op->has_pivots)
        cpu_solve_pivots_out(plan, own, pivots);
    return info;
}

static void solve_columns(const struct small_loop *loop, const char *b, char *x, const void *s,
                          const int32_t *pivots)
{
    const struct gram_solve_op *op = loop->plan->op;
    const struct gram_solve_kernels *kernels = loop->plan->kernels;
    int64_t n = op->x.rows, ld = gram_solve_ld(n), size = (int64_t)gram_dtype_size(op->x.dtype);
    char *rhs = (char *)s + loop->rhs_at;
    struct cpu_move in = {
        .to = rhs,
        .to_stride = {               1,               ld},
        .from_stride = {op->b.row_stride, op->b.col_stride},
        .rows = n,
    };
    struct cpu_move out = {
        .from = rhs,
        .from_stride = {               1,               ld},
        .to_stride = {op->x.row_stride, op->x.col_stride},
        .rows = n,
    };

    for (int64_t j = 0; j < op->x.cols; j += SOLVE_WIDTH) {
        int64_t width = op->x.cols - j < SOLVE_WIDTH ? op->x.cols - j : SOLVE_WIDTH;
        in.cols = out.cols = width;
        in.from = b + j * op->b.col_stride * size;
        out.to = x + j * op->x.col_stride * size;
        memset(rhs, 0, (size_t)(ld * width * size));
        cpu_move(op->x.dtype, &in);
        if (!loop->plan->lu)
            kernels->cholesky_solve(n, s, rhs, width);
        else if (loop->flip)
            kernels->lu_solve_transposed(n, s, pivots, rhs, width);
        else
            kernels->lu_solve(n, s, pivots, rhs, width);
        cpu_move(op->x.dtype, &out);
    }
}

static void solve_item(const struct small_loop *loop, int64_t own, char *s)
{
    struct solve_plan *plan = loop->plan;
    const struct gram_solve_op *op = plan->op;
    int32_t *pivots = (int32_t *)(void *)(s + loop->pivots_at);
    int64_t info = factorise(loop, own, s, pivots);

    cpu_solve_report(plan, own, info);
    if (op->x.rows == 0 || op->x.cols == 0)
        return;
    for (int64_t j = 0; j < plan->shared.count; j++) {
        char *x = cpu_solve_item(plan, &op->x, own, j);
        if (info)
            cpu_fill_nan(&op->x, x);
        else
            solve_columns(loop, cpu_solve_item(plan, &op->b, own, j), x, s, pivots);
    }
}

static void solve_items(void *arg, int64_t index, int thread)
{
    const struct small_loop *loop = arg;
    int64_t first = index * ITEMS_AT_A_TIME, last = first + ITEMS_AT_A_TIME;

    for (int64_t i = first; i < last && i < loop->plan->own.count; i++)
        solve_item(loop, i, loop->scratch + (size_t)thread * loop->bytes_per_thread);
}

void cpu_solve_small(gram_context *g, struct solve_plan *plan, void *scratch)
{
    struct small_loop loop = lay_out(plan);

    loop.scratch = scratch;
    gram_parallel_for(g, gram_ceil_div(plan->own.count, ITEMS_AT_A_TIME), solve_items, &loop);
}
