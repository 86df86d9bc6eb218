/*
 * cpu_solve_small.c - many small systems: one item a thread, in a buffer that stays in the cache
 *
 * A global number of BLAS threads rules out LAPACK inside a parallel loop, and its call overhead
 * costs more than the work here.  Each thread has an n by n buffer and n rows of SOLVE_WIDTH
 * right-hand sides; whatever the caller's strides, an item is copied in, worked on, copied out.
 *
 * The buffer holds what LAPACK would see in the caller's factor, so that small and large items
 * leave the same factors: Cholesky always its lower triangle L (of A transposed for GRAM_UPPER),
 * LU the matrix or, where it is stored by rows, its transpose.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../threads.h"
#include "cpu_solve.h"
#include <math.h>

/* clang-format off */
#define real                float
#define SQRT                sqrtf
#define COPY                copy_f32
#define FILL_NAN            fill_nan_f32
#define BAD_DIAGONAL        bad_diagonal_f32
#define CHOLESKY            cholesky_f32
#define CHOLESKY_SOLVE      cholesky_solve_f32
#define LU                  lu_f32
#define EXCHANGE            exchange_f32
#define LU_SOLVE            lu_solve_f32
#define LU_SOLVE_TRANSPOSED lu_solve_transposed_f32
#include "solve_tile.h"

#define real                double
#define SQRT                sqrt
#define COPY                copy_f64
#define FILL_NAN            fill_nan_f64
#define BAD_DIAGONAL        bad_diagonal_f64
#define CHOLESKY            cholesky_f64
#define CHOLESKY_SOLVE      cholesky_solve_f64
#define LU                  lu_f64
#define EXCHANGE            exchange_f64
#define LU_SOLVE            lu_solve_f64
#define LU_SOLVE_TRANSPOSED lu_solve_transposed_f64
#include "solve_tile.h"
/* clang-format on */

static const struct solve_tiles tiles_f32 = {
    .copy = copy_f32,
    .fill_nan = fill_nan_f32,
    .bad_diagonal = bad_diagonal_f32,
    .cholesky = cholesky_f32,
    .cholesky_solve = cholesky_solve_f32,
    .lu = lu_f32,
    .lu_solve = lu_solve_f32,
    .lu_solve_transposed = lu_solve_transposed_f32,
};

static const struct solve_tiles tiles_f64 = {
    .copy = copy_f64,
    .fill_nan = fill_nan_f64,
    .bad_diagonal = bad_diagonal_f64,
    .cholesky = cholesky_f64,
    .cholesky_solve = cholesky_solve_f64,
    .lu = lu_f64,
    .lu_solve = lu_solve_f64,
    .lu_solve_transposed = lu_solve_transposed_f64,
};

const struct solve_tiles *cpu_solve_tiles(gram_dtype dtype)
{
    return dtype == GRAM_F32 ? &tiles_f32 : &tiles_f64;
}

struct small_loop {
    struct solve_plan *plan;
    char *scratch; /* bytes_per_thread for each thread */
    size_t bytes_per_thread, rhs_at, pivots_at;
    bool flip; /* the buffer holds the transpose of what the caller's indices mean */
    enum solve_part part;
};

static struct small_loop lay_out(struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    size_t n = (size_t)op->a.rows, size = gram_dtype_size(op->a.dtype);
    struct small_loop loop = {.plan = plan, .part = plan->lu ? SOLVE_ALL : SOLVE_LOWER};

    loop.rhs_at = gram_round64(n * n * size);
    loop.pivots_at = loop.rhs_at + gram_round64(n * SOLVE_WIDTH * size);
    loop.bytes_per_thread = loop.pivots_at + gram_round64(plan->lu ? n * sizeof(int32_t) : 0);
    loop.flip = plan->lu ? cpu_solve_layout(op->has_factor ? &op->factor : &op->a).row_major
                         : op->uplo == GRAM_UPPER;
    return loop;
}

size_t cpu_solve_small_bytes(const gram_context *g, const struct solve_plan *plan)
{
    struct solve_plan copy = {.op = plan->op, .lu = plan->lu};

    return (size_t)g->threads * lay_out(&copy).bytes_per_thread;
}

/* Copies a matrix to or from the buffer s. */
static void move_matrix(const struct small_loop *loop, const struct gram_view *v, char *data,
                        void *s, bool out)
{
    int64_t n = v->rows, rows = loop->flip ? v->col_stride : v->row_stride;
    int64_t cols = loop->flip ? v->row_stride : v->col_stride;
    struct solve_copy c = {.rows = n, .cols = n, .part = loop->part};

    if (out)
        c = (struct solve_copy){
            data, s, {rows, cols},
              {   1,    n},
              n, n, loop->part
        };
    else
        c = (struct solve_copy){
            s, data, {   1,    n},
              {rows, cols},
              n, n, loop->part
        };
    loop->plan->tiles->copy(&c, 0, n);
}

static int64_t factorise(const struct small_loop *loop, int64_t own, void *s, int32_t *pivots)
{
    const struct solve_plan *plan = loop->plan;
    const struct gram_solve_op *op = plan->op;
    int64_t n = op->a.rows, info;

    move_matrix(loop, &op->a, cpu_solve_item(plan, &op->a, own, 0), s, false);
    if (op->factored) {
        if (plan->lu)
            cpu_solve_pivots_in(plan, own, pivots);
        return plan->tiles->bad_diagonal(n, s, n, !plan->lu);
    }
    info = plan->lu ? plan->tiles->lu(n, s, pivots) : plan->tiles->cholesky(n, s);
    if (op->has_factor)
        move_matrix(loop, &op->factor, cpu_solve_item(plan, &op->factor, own, 0), s, true);
    if (op->has_pivots)
        cpu_solve_pivots_out(plan, own, pivots);
    return info;
}

static void solve_columns(const struct small_loop *loop, const char *b, char *x, const void *s,
                          const int32_t *pivots)
{
    const struct gram_solve_op *op = loop->plan->op;
    const struct solve_tiles *t = loop->plan->tiles;
    int64_t n = op->x.rows, size = (int64_t)gram_dtype_size(op->x.dtype);
    char *rhs = (char *)s + loop->rhs_at;

    for (int64_t j = 0; j < op->x.cols; j += SOLVE_WIDTH) {
        int64_t width = op->x.cols - j < SOLVE_WIDTH ? op->x.cols - j : SOLVE_WIDTH;
        struct solve_copy in = {
            rhs,
            b + j * op->b.col_stride * size,
            {     SOLVE_WIDTH,                1},
            {op->b.row_stride, op->b.col_stride},
            n,
            width,
            SOLVE_ALL,
        };
        struct solve_copy out = {
            x + j * op->x.col_stride * size,
            rhs,
            {op->x.row_stride, op->x.col_stride},
            {     SOLVE_WIDTH,                1},
            n,
            width,
            SOLVE_ALL,
        };
        t->copy(&in, 0, width);
        if (!loop->plan->lu)
            t->cholesky_solve(n, s, rhs, width);
        else if (loop->flip)
            t->lu_solve_transposed(n, s, pivots, rhs, width);
        else
            t->lu_solve(n, s, pivots, rhs, width);
        t->copy(&out, 0, width);
    }
}

static void solve_item(void *arg, int64_t own, int thread)
{
    const struct small_loop *loop = arg;
    struct solve_plan *plan = loop->plan;
    const struct gram_solve_op *op = plan->op;
    char *s = loop->scratch + (size_t)thread * loop->bytes_per_thread;
    int32_t *pivots = (int32_t *)(s + loop->pivots_at);
    int64_t info = factorise(loop, own, s, pivots);

    cpu_solve_report(plan, own, info);
    if (op->x.rows == 0 || op->x.cols == 0)
        return;
    for (int64_t j = 0; j < plan->shared.count; j++) {
        char *x = cpu_solve_item(plan, &op->x, own, j);
        if (info)
            plan->tiles->fill_nan(&op->x, x);
        else
            solve_columns(loop, cpu_solve_item(plan, &op->b, own, j), x, s, pivots);
    }
}

void cpu_solve_small(gram_context *g, struct solve_plan *plan, void *scratch)
{
    struct small_loop loop = lay_out(plan);

    loop.scratch = scratch;
    gram_parallel_for(g, plan->own.count, solve_item, &loop);
}
