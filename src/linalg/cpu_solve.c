/*
 * cpu_solve.c - Cholesky and LU on the CPU: small systems side by side, large ones by LAPACK
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_solve.h"
#include "core/blas.h"
#include "core/threads.h"
#include "cpu/cpu_kernels.h"
#include "cpu/move.h"
#include <string.h>

enum {
    ITEMS_AT_A_TIME = 16 /* a 4 by 4 takes 0.2 us: handing out single ones costs as much */
};

/* ---- Batches, layouts, outcomes -------------------------------------------------------------- */

char *cpu_solve_item(const struct solve_plan *plan, const struct gram_view *v, int64_t own,
                     int64_t shared)
{
    char *at = gram_view_item(v, &plan->own, own);

    return at ? at + (gram_view_item(v, &plan->shared, shared) - v->data) : NULL;
}

void cpu_solve_report(struct solve_plan *plan, int64_t own, int64_t info)
{
    const struct gram_solve_op *op = plan->op;
    long long code = own * (op->a.rows + 1) + info, seen = atomic_load(&plan->failed);

    for (int64_t j = 0; op->has_info && j < plan->shared.count; j++)
        *(int32_t *)(void *)cpu_solve_item(plan, &op->info, own, j) = (int32_t)info;
    while (info && code < seen && !atomic_compare_exchange_weak(&plan->failed, &seen, code))
        continue;
}

void cpu_solve_pivots_in(const struct solve_plan *plan, int64_t own, int32_t *pivots)
{
    const struct gram_view *v = &plan->op->pivots;
    const int32_t *from = (const int32_t *)(void *)cpu_solve_item(plan, v, own, 0);

    for (int64_t i = 0; i < v->cols; i++)
        pivots[i] = from[i * v->col_stride];
}

void cpu_solve_pivots_out(const struct solve_plan *plan, int64_t own, const int32_t *pivots)
{
    const struct gram_view *v = &plan->op->pivots;
    int32_t *to = (int32_t *)(void *)cpu_solve_item(plan, v, own, 0);

    for (int64_t i = 0; i < v->cols; i++)
        to[i * v->col_stride] = pivots[i];
}

/* Pivots come from the caller's memory: one out of range would be a wild store. */
static gram_status check_pivots(gram_context *g, const struct solve_plan *plan)
{
    const struct gram_view *v = &plan->op->pivots;

    if (!plan->op->factored || !plan->lu)
        return GRAM_OK;
    for (int64_t i = 0; i < plan->own.count; i++) {
        const int32_t *p = (const int32_t *)(void *)cpu_solve_item(plan, v, i, 0);
        for (int64_t k = 0; k < v->cols; k++)
            if (p[k * v->col_stride] < 1 || p[k * v->col_stride] > v->cols)
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "options.pivots holds %d at index %lld of item %lld, expected 1 "
                                 "to %lld",
                                 (int)p[k * v->col_stride], (long long)k, (long long)i,
                                 (long long)v->cols);
    }
    return GRAM_OK;
}

gram_status cpu_solve_open(gram_context *g, const struct solve_plan *plan,
                           const struct gram_layout *layout)
{
    TRY(gram_layout_open(g, layout));
    return check_pivots(g, plan);
}

/* ---- Small systems --------------------------------------------------------------------------- */

/*
 * A global number of BLAS threads rules out LAPACK inside a parallel loop, and its call overhead
 * costs more than the work here.  Each thread has a buffer for one matrix and SOLVE_WIDTH
 * right-hand sides; whatever the caller's strides, an item is copied in, worked on, copied out.
 *
 * The buffer holds what LAPACK would see in the caller's factor, so that small and large items
 * leave the same factors: Cholesky always its lower triangle L (of A transposed for GRAM_UPPER),
 * LU the matrix or, where it is stored by rows, its transpose.
 */

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

static void lay_out_share(const struct small_loop *loop, struct gram_layout *l,
                          struct small_share *s)
{
    const struct gram_solve_op *op = loop->plan->op;
    const size_t n = (size_t)op->a.rows;
    const size_t column = (size_t)gram_solve_ld(op->a.rows) * gram_dtype_size(op->a.dtype);

    gram_take(l, &s->matrix, n * column);
    gram_take(l, &s->rhs, SOLVE_WIDTH * column);
    gram_take(l, &s->pivots, loop->plan->lu ? n * sizeof(int32_t) : 0);
}

/* Copies a matrix of the caller's to the buffer s. */
static void load_small(const struct small_loop *loop, const struct gram_view *v, const char *data,
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
static void store_small(const struct small_loop *loop, const struct gram_view *v, void *data,
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

static int64_t factorise_small(const struct small_loop *loop, int64_t own,
                               const struct small_share *s)
{
    const struct solve_plan *plan = loop->plan;
    const struct gram_solve_op *op = plan->op;
    int64_t n = op->a.rows, info;

    load_small(loop, &op->a, cpu_solve_item(plan, &op->a, own, 0), s);
    if (op->factored) {
        if (plan->lu)
            cpu_solve_pivots_in(plan, own, s->pivots);
        return plan->kernels->bad_diagonal(n, s->matrix, gram_solve_ld(n), !plan->lu);
    }
    info = plan->lu ? plan->kernels->lu(n, s->matrix, s->pivots)
                    : plan->kernels->cholesky(n, s->matrix);
    if (op->has_factor)
        store_small(loop, &op->factor, cpu_solve_item(plan, &op->factor, own, 0), s);
    if (op->has_pivots)
        cpu_solve_pivots_out(plan, own, s->pivots);
    return info;
}

static void solve_small_columns(const struct small_loop *loop, const char *b, char *x,
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
    int64_t info = factorise_small(loop, own, s);

    cpu_solve_report(plan, own, info);
    if (op->x.rows == 0 || op->x.cols == 0)
        return;
    for (int64_t j = 0; j < plan->shared.count; j++) {
        char *x = cpu_solve_item(plan, &op->x, own, j);
        if (info)
            cpu_fill_nan(&op->x, x);
        else
            solve_small_columns(loop, cpu_solve_item(plan, &op->b, own, j), x, s);
    }
}

static void solve_items(void *arg, int64_t index, int thread)
{
    const struct small_loop *loop = arg;
    int64_t first = index * ITEMS_AT_A_TIME, last = first + ITEMS_AT_A_TIME;
    struct gram_layout layout = {0};
    struct small_share s;

    lay_out_share(loop, &layout, &s);
    gram_layout_place(&layout, loop->scratch + (size_t)thread * loop->share_bytes);
    for (int64_t i = first; i < last && i < loop->plan->own.count; i++)
        solve_item(loop, i, &s);
}

static gram_status solve_small(gram_context *g, struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    struct small_loop loop = {.plan = plan, .part = plan->lu ? CPU_MOVE_ALL : CPU_MOVE_LOWER};
    struct gram_layout layout = {0}, share = {0};
    struct small_share s;

    loop.flip = plan->lu ? gram_solve_layout(op->has_factor ? &op->factor : &op->a).row_major
                         : op->uplo == GRAM_UPPER;
    lay_out_share(&loop, &share, &s);
    loop.share_bytes = gram_layout_bytes(&share);
    gram_take_many(&layout, &loop.scratch, (size_t)g->threads, loop.share_bytes);
    TRY(cpu_solve_open(g, plan, &layout));
    gram_parallel_for(g, gram_ceil_div(plan->own.count, ITEMS_AT_A_TIME), solve_items, &loop);
    return GRAM_OK;
}

/* ---- Large systems --------------------------------------------------------------------------- */

/*
 * LAPACK is column-major.  A row-major triangle is LAPACK's other triangle of the transpose, which
 * for a symmetric matrix is the matrix; a row-major LU is a factorisation of A^T, solved with
 * LAPACK's transposed solve.  So every matrix with a unit stride is used where it lies.  Others,
 * and matrices that must survive, are copied to a scratch matrix (or to the factor asked for).
 * Right-hand sides that are not columns with unit stride pass through a block of at most
 * SOLVE_RHS_BLOCK columns.
 *
 * OpenBLAS's spotrf runs at 90 % of its sgemm already (n = 8000, 2 threads of a Zen 4: 189 and 208
 * GFLOP/s); recursion around strsm and ssyrk was tried and gained nothing.
 */

/* Scratch, which all items use one after the other. */
struct large_scratch {
    char *matrix, *rhs; /* none where the caller's memory serves */
    int32_t *pivots;
};

static gram_status open_scratch(gram_context *g, const struct solve_plan *plan,
                                struct large_scratch *s)
{
    const struct gram_solve_op *op = plan->op;
    const size_t n = (size_t)op->a.rows, size = gram_dtype_size(op->a.dtype);
    const size_t columns = (size_t)gram_least(op->x.cols, SOLVE_RHS_BLOCK);
    const struct gram_view *kept = op->has_factor ? &op->factor : &op->a;
    const bool copies = (!op->has_factor && !op->factored) || !gram_solve_layout(kept).direct;
    struct gram_layout l = {0};

    gram_take_many(&l, &s->matrix, copies ? n * n : 0, size);
    gram_take_many(&l, &s->rhs, gram_solve_columns_direct(&op->x) ? 0 : n * columns, size);
    gram_take_many(&l, &s->pivots, plan->lu ? n : 0, sizeof(int32_t));
    return cpu_solve_open(g, plan, &l);
}

/* A matrix as LAPACK is to work on it. */
struct large_matrix {
    void *data;
    struct gram_solve_layout layout;
};

static enum cpu_move_part part_of(const struct solve_plan *plan)
{
    if (plan->lu)
        return CPU_MOVE_ALL;
    return plan->op->uplo == GRAM_LOWER ? CPU_MOVE_LOWER : CPU_MOVE_UPPER;
}

/* Finds the place where an item of a is factorised and brings it there. */
static struct large_matrix load_large(gram_context *g, const struct solve_plan *plan, int64_t own,
                                      void *scratch)
{
    const struct gram_solve_op *op = plan->op;
    const struct gram_view *kept = op->has_factor ? &op->factor : &op->a;
    struct large_matrix m = {.layout = gram_solve_layout(kept)};
    char *a = cpu_solve_item(plan, &op->a, own, 0);
    struct cpu_move c = {
        .from = a,
        .from_stride = {op->a.row_stride, op->a.col_stride},
        .rows = op->a.rows,
        .cols = op->a.rows,
        .part = part_of(plan),
    };

    if (m.layout.direct && (op->has_factor || op->factored)) {
        m.data = cpu_solve_item(plan, kept, own, 0);
    } else {
        m.data = scratch;
        m.layout.ld = op->a.rows;
    }
    if (m.data != a) {
        c.to = m.data;
        c.to_stride[0] = m.layout.row_major ? m.layout.ld : 1;
        c.to_stride[1] = m.layout.row_major ? 1 : m.layout.ld;
        cpu_move_parallel(g, op->a.dtype, &c);
    }
    return m;
}

/* Brings a factor made in scratch back to a place without unit stride. */
static void store_factor(gram_context *g, const struct solve_plan *plan, int64_t own,
                         const struct large_matrix *m)
{
    const struct gram_view *f = &plan->op->factor;
    const int64_t down = m->layout.row_major ? m->layout.ld : 1;
    const int64_t across = m->layout.row_major ? 1 : m->layout.ld;
    const struct cpu_move c = {
        .to = cpu_solve_item(plan, f, own, 0),
        .from = m->data,
        .to_stride = {f->row_stride, f->col_stride},
        .from_stride = {         down,        across},
        .rows = f->rows,
        .cols = f->cols,
        .part = part_of(plan),
    };

    if (c.to != m->data)
        cpu_move_parallel(g, f->dtype, &c);
}

/* The triangle of LAPACK's, which sees a row-major matrix transposed. */
static gram_uplo lapack_uplo(const struct solve_plan *plan, const struct large_matrix *m)
{
    return (plan->op->uplo == GRAM_LOWER) != m->layout.row_major ? GRAM_LOWER : GRAM_UPPER;
}

static int64_t factorise_large(gram_context *g, const struct solve_plan *plan, int64_t own,
                               const struct large_matrix *m, int32_t *pivots)
{
    const struct gram_solve_op *op = plan->op;
    int64_t n = op->a.rows, start = gram_trace_begin(g), info = 0, bad;

    if (op->factored && plan->lu)
        cpu_solve_pivots_in(plan, own, pivots);
    else if (!op->factored && plan->lu)
        info = gram_blas_getrf(op->a.dtype, n, m->data, m->layout.ld, pivots);
    else if (!op->factored)
        info = gram_blas_potrf(op->a.dtype, lapack_uplo(plan, m), n, m->data, m->layout.ld);
    /* LAPACKs differ in what they make of NaN: the diagonal tells. */
    bad = plan->kernels->bad_diagonal(info ? info - 1 : n, m->data, m->layout.ld, !plan->lu);
    if (op->has_factor)
        store_factor(g, plan, own, m);
    if (op->has_pivots && !op->factored)
        cpu_solve_pivots_out(plan, own, pivots);
    gram_trace_end(g, plan->lu ? "getrf" : "potrf", 0, start);
    return bad ? bad : info;
}

static void solve_block(const struct solve_plan *plan, const struct large_matrix *m,
                        const int32_t *pivots, int64_t columns, void *x, int64_t ldx)
{
    const struct gram_solve_op *op = plan->op;

    if (plan->lu)
        gram_blas_getrs(op->a.dtype, m->layout.row_major, op->a.rows, columns, m->data,
                        m->layout.ld, pivots, x, ldx);
    else
        gram_blas_potrs(op->a.dtype, lapack_uplo(plan, m), op->a.rows, columns, m->data,
                        m->layout.ld, x, ldx);
}

static void solve_large_columns(gram_context *g, const struct solve_plan *plan,
                                const struct large_matrix *m, const int32_t *pivots, const char *b,
                                char *x, void *rhs)
{
    const struct gram_solve_op *op = plan->op;
    int64_t n = op->x.rows, size = (int64_t)gram_dtype_size(op->x.dtype);
    bool direct = gram_solve_columns_direct(&op->x);
    int64_t step = direct ? op->x.cols : SOLVE_RHS_BLOCK;
    int64_t ld = direct && op->x.cols > 1 ? op->x.col_stride : n;
    struct cpu_move in = {
        .to_stride = {               1,               ld},
        .from_stride = {op->b.row_stride, op->b.col_stride},
        .rows = n,
    };
    struct cpu_move out = {
        .to_stride = {op->x.row_stride, op->x.col_stride},
        .from_stride = {               1,                n},
        .rows = n,
    };

    for (int64_t j = 0; j < op->x.cols; j += step) {
        in.cols = out.cols = op->x.cols - j < step ? op->x.cols - j : step;
        out.to = x + j * op->x.col_stride * size;
        out.from = rhs;
        in.to = direct ? out.to : rhs;
        in.from = b + j * op->b.col_stride * size;
        if (!direct || !op->x_is_b)
            cpu_move_parallel(g, op->x.dtype, &in);
        solve_block(plan, m, pivots, in.cols, in.to, ld);
        if (!direct)
            cpu_move_parallel(g, op->x.dtype, &out);
    }
}

static gram_status solve_large(gram_context *g, struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    struct large_scratch s;

    TRY(open_scratch(g, plan, &s));
    gram_blas_threads(g);
    for (int64_t i = 0; i < plan->own.count; i++) {
        struct large_matrix m = load_large(g, plan, i, s.matrix);
        int64_t info = factorise_large(g, plan, i, &m, s.pivots), start = gram_trace_begin(g);

        cpu_solve_report(plan, i, info);
        for (int64_t j = 0; op->x.cols > 0 && j < plan->shared.count; j++) {
            char *x = cpu_solve_item(plan, &op->x, i, j);
            if (info)
                cpu_fill_nan(&op->x, x);
            else
                solve_large_columns(g, plan, &m, s.pivots, cpu_solve_item(plan, &op->b, i, j), x,
                                    s.rhs);
        }
        gram_trace_end(g, plan->lu ? "getrs" : "potrs", 0, start);
    }
    return GRAM_OK;
}

/* ---- Entry points ---------------------------------------------------------------------------- */

static void make_plan(const gram_context *g, const struct gram_solve_op *op, bool lu,
                      struct solve_plan *plan)
{
    *plan = (struct solve_plan){.op = op, .lu = lu};
    plan->of_dtype = gram_cpu_kernels_of(g)->solve;
    plan->kernels = plan->of_dtype[op->a.dtype];
    atomic_init(&plan->failed, LLONG_MAX);
    gram_solve_split(op, &plan->own, &plan->shared);
}

/* One system with many right-hand sides is worth LAPACK's threads at any n. */
static bool is_small(const struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;

    return op->a.rows <= SOLVE_SMALL &&
           (plan->own.count > 1 || op->a.rows == 0 || op->x.cols <= SOLVE_RHS_BLOCK);
}

static gram_status run(gram_context *g, struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    long long failed, order = op->a.rows + 1;

    if (!gram_blas_fits(op->a.rows, op->x.cols, 0))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a has %lld rows and b has %lld columns, but BLAS takes at most %d of "
                         "each",
                         (long long)op->a.rows, (long long)op->x.cols, INT_MAX);
    if (cpu_solve_has_options(op))
        TRY(cpu_solve_options(g, plan));
    else
        TRY(is_small(plan) ? solve_small(g, plan) : solve_large(g, plan));
    failed = atomic_load(&plan->failed);
    if (failed == LLONG_MAX || op->has_info)
        return GRAM_OK;
    if (plan->lu)
        return gram_fail(g, GRAM_NUMERICAL,
                         "a is singular: U[%lld, %lld] of item %lld is zero or NaN", failed % order,
                         failed % order, failed / order);
    return gram_fail(g, GRAM_NUMERICAL,
                     "a is not positive definite: the leading minor of order %lld of item %lld is "
                     "not positive",
                     failed % order, failed / order);
}

gram_status cpu_solve_cholesky(gram_context *g, const struct gram_solve_op *op)
{
    struct solve_plan plan;

    make_plan(g, op, false, &plan);
    return run(g, &plan);
}

gram_status cpu_solve_lu(gram_context *g, const struct gram_solve_op *op)
{
    struct solve_plan plan;

    make_plan(g, op, true, &plan);
    return run(g, &plan);
}
