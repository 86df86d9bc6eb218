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
    char *scratch; /* share_bytes for each thread */
    size_t share_bytes;
    bool flip; /* the buffer holds the transpose of what the caller's indices mean */
    enum cpu_move_part part;
};

/* What each thread has: a matrix, SOLVE_WIDTH right-hand sides, and pivots. */
struct small_share {
    char *matrix, *rhs;
    int32_t *pivots;
};

static void lay_out(const struct small_loop *loop, struct gram_layout *l, struct small_share *s)
{
    const struct gram_solve_op *op = loop->plan->op;
    const size_t n = (size_t)op->a.rows;
    const size_t column = (size_t)gram_solve_ld(op->a.rows) * gram_dtype_size(op->a.dtype);

    gram_take(l, &s->matrix, n * column);
    gram_take(l, &s->rhs, SOLVE_WIDTH * column);
    gram_take(l, &s->pivots, loop->plan->lu ? n * sizeof(int32_t) : 0);
}

/* Copies a matrix of the caller's to the buffer s. */
static void load_matrix(const struct small_loop *loop, const struct gram_view *v, const char *data,
                        const struct small_share *s)
{
    const int64_t down = loop->flip ? v->col_stride : v->row_stride;
    const int64_t across = loop->flip ? v->row_stride : v->col_stride;
    const struct cpu_move c = {
        .to = s->matrix,
        .from = data,
        .to_stride = {   1, gram_solve_ld(v->rows)},
        .from_stride = {down,                 across},
        .rows = v->rows,
        .cols = v->rows,
        .part = loop->part,
    };

    if (v->rows == 0)
        return;
    memset(s->matrix, 0, (size_t)(v->rows * gram_solve_ld(v->rows)) * gram_dtype_size(v->dtype));
    cpu_move(v->dtype, &c);
}

/* And back. */
static void store_matrix(const struct small_loop *loop, const struct gram_view *v, void *data,
                         const struct small_share *s)
{
    const int64_t down = loop->flip ? v->col_stride : v->row_stride;
    const int64_t across = loop->flip ? v->row_stride : v->col_stride;
    const struct cpu_move c = {
        .to = data,
        .from = s->matrix,
        .to_stride = {down,                 across},
        .from_stride = {   1, gram_solve_ld(v->rows)},
        .rows = v->rows,
        .cols = v->rows,
        .part = loop->part,
    };

    cpu_move(v->dtype, &c);
}

static int64_t factorise(const struct small_loop *loop, int64_t own, const struct small_share *s)
{
    const struct solve_plan *plan = loop->plan;
    const struct gram_solve_op *op = plan->op;
    int64_t n = op->a.rows, info;

    load_matrix(loop, &op->a, cpu_solve_item(plan, &op->a, own, 0), s);
    if (op->factored) {
        if (plan->lu)
            cpu_solve_pivots_in(plan, own, s->pivots);
        return plan->kernels->bad_diagonal(n, s->matrix, gram_solve_ld(n), !plan->lu);
    }
    info = plan->lu ? plan->kernels->lu(n, s->matrix, s->pivots)
                    : plan->kernels->cholesky(n, s->matrix);
    if (op->has_factor)
        store_matrix(loop, &op->factor, cpu_solve_item(plan, &op->factor, own, 0), s);
    if (op->has_pivots)
        cpu_solve_pivots_out(plan, own, s->pivots);
    return info;
}

static void solve_columns(const struct small_loop *loop, const char *b, char *x,
                          const struct small_share *s)
{
    const struct gram_solve_op *op = loop->plan->op;
    const struct gram_solve_kernels *kernels = loop->plan->kernels;
    int64_t n = op->x.rows, ld = gram_solve_ld(n), size = (int64_t)gram_dtype_size(op->x.dtype);
    struct cpu_move in = {
        .to = s->rhs,
        .to_stride = {               1,               ld},
        .from_stride = {op->b.row_stride, op->b.col_stride},
        .rows = n,
    };
    struct cpu_move out = {
        .from = s->rhs,
        .from_stride = {               1,               ld},
        .to_stride = {op->x.row_stride, op->x.col_stride},
        .rows = n,
    };

    for (int64_t j = 0; j < op->x.cols; j += SOLVE_WIDTH) {
        int64_t width = op->x.cols - j < SOLVE_WIDTH ? op->x.cols - j : SOLVE_WIDTH;
        in.cols = out.cols = width;
        in.from = b + j * op->b.col_stride * size;
        out.to = x + j * op->x.col_stride * size;
        memset(s->rhs, 0, (size_t)(ld * width * size));
        cpu_move(op->x.dtype, &in);
        if (!loop->plan->lu)
            kernels->cholesky_solve(n, s->matrix, s->rhs, width);
        else if (loop->flip)
            kernels->lu_solve_transposed(n, s->matrix, s->pivots, s->rhs, width);
        else
            kernels->lu_solve(n, s->matrix, s->pivots, s->rhs, width);
        cpu_move(op->x.dtype, &out);
    }
}

static void solve_item(const struct small_loop *loop, int64_t own, const struct small_share *s)
{
    struct solve_plan *plan = loop->plan;
    const struct gram_solve_op *op = plan->op;
    int64_t info = factorise(loop, own, s);

    cpu_solve_report(plan, own, info);
    if (op->x.rows == 0 || op->x.cols == 0)
        return;
    for (int64_t j = 0; j < plan->shared.count; j++) {
        char *x = cpu_solve_item(plan, &op->x, own, j);
        if (info)
            cpu_fill_nan(&op->x, x);
        else
            solve_columns(loop, cpu_solve_item(plan, &op->b, own, j), x, s);
    }
}

static void solve_items(void *arg, int64_t index, int thread)
{
    const struct small_loop *loop = arg;
    int64_t first = index * ITEMS_AT_A_TIME, last = first + ITEMS_AT_A_TIME;
    struct gram_layout layout = {0};
    struct small_share s;

    lay_out(loop, &layout, &s);
    gram_layout_place(&layout, loop->scratch + (size_t)thread * loop->share_bytes);
    for (int64_t i = first; i < last && i < loop->plan->own.count; i++)
        solve_item(loop, i, &s);
}

gram_status cpu_solve_small(gram_context *g, struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    struct small_loop loop = {.plan = plan, .part = plan->lu ? CPU_MOVE_ALL : CPU_MOVE_LOWER};
    struct gram_layout layout = {0}, share = {0};
    struct small_share s;

    loop.flip = plan->lu ? gram_solve_layout(op->has_factor ? &op->factor : &op->a).row_major
                         : op->uplo == GRAM_UPPER;
    lay_out(&loop, &share, &s);
    loop.share_bytes = gram_layout_bytes(&share);
    gram_take_many(&layout, &loop.scratch, (size_t)g->threads, loop.share_bytes);
    TRY(cpu_solve_open(g, plan, &layout));
    gram_parallel_for(g, gram_ceil_div(plan->own.count, ITEMS_AT_A_TIME), solve_items, &loop);
    return GRAM_OK;
}
