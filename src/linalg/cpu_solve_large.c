/*
 * cpu_solve_large.c - one system after the other by LAPACK, which has the threads
 *
 * LAPACK is column-major.  A row-major triangle is LAPACK's other triangle of the transpose, which
 * for a symmetric matrix is the matrix; a row-major LU is a factorisation of A^T, solved with
 * LAPACK's transposed solve.  So every matrix with a unit stride is used where it lies.  Others,
 * and matrices that must survive, are copied to a scratch matrix (or to the factor asked for).
 * Right-hand sides that are not columns with unit stride pass through a block of at most
 * SOLVE_RHS_BLOCK columns.
 *
 * OpenBLAS's spotrf runs at 90 % of its sgemm already (n = 8000, 2 threads of a Zen 4: 189 and 208
 * GFLOP/s); recursion around strsm and ssyrk was tried and gained nothing.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu/move.h"
#include "cpu_solve.h"

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
static struct large_matrix load_matrix(gram_context *g, const struct solve_plan *plan, int64_t own,
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

static int64_t factorise(gram_context *g, const struct solve_plan *plan, int64_t own,
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

static void solve_columns(gram_context *g, const struct solve_plan *plan,
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

gram_status cpu_solve_large(gram_context *g, struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    struct large_scratch s;

    TRY(open_scratch(g, plan, &s));
    gram_blas_threads(g);
    for (int64_t i = 0; i < plan->own.count; i++) {
        struct large_matrix m = load_matrix(g, plan, i, s.matrix);
        int64_t info = factorise(g, plan, i, &m, s.pivots), start = gram_trace_begin(g);

        cpu_solve_report(plan, i, info);
        for (int64_t j = 0; op->x.cols > 0 && j < plan->shared.count; j++) {
            char *x = cpu_solve_item(plan, &op->x, i, j);
            if (info)
                cpu_fill_nan(&op->x, x);
            else
                solve_columns(g, plan, &m, s.pivots, cpu_solve_item(plan, &op->b, i, j), x, s.rhs);
        }
        gram_trace_end(g, plan->lu ? "getrs" : "potrs", 0, start);
    }
    return GRAM_OK;
}
