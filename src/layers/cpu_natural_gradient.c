/*
 * cpu_natural_gradient.c - gram_natural_gradient on the CPU: by the smaller of two Gram matrices
 *
 * With J the N by P gradients and l the damping:
 *   P <= N: (J^T J / N + l I) out = v                       by Cholesky
 *   P > N:  (J J^T / N + l I) s = J v                       by Cholesky
 *           out = (v - J^T s / N) / l                       (Sherman, Morrison, Woodbury)
 * The matrix, its factor and the vectors are in J's dtype.
 *
 * Amari, Natural gradient works efficiently in learning, Neural Computation 1998.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/scratch.h"
#include "cpu/cpu.h"
#include "cpu/move.h"
#include <math.h>

struct natural_plan {
    const struct gram_natural_gradient_op *op;
    bool pack, wide;                      /* wide: more columns than rows */
    int64_t n;                            /* order of the Gram matrix */
    void *packed, *gram, *vector, *right; /* scratch of an item; packed: J */
};

static gram_status make_plan(gram_context *g, const struct gram_natural_gradient_op *op,
                             struct natural_plan *p)
{
    int64_t rows = op->gradients.rows, cols = op->gradients.cols;
    size_t size = gram_dtype_size(op->v.dtype), n = (size_t)gram_least(rows, cols);
    size_t room = SIZE_MAX / 8 / size;
    struct gram_layout layout = {0};

    *p = (struct natural_plan){
        .op = op, .pack = !gram_blas_direct(&op->gradients), .wide = cols > rows, .n = (int64_t)n};
    if (!gram_blas_fits(rows, cols, 0))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "gradients is %lld by %lld, but BLAS takes sizes of at most %d",
                         (long long)rows, (long long)cols, INT32_MAX);
    if (cols > 0 && (size_t)rows > room / (size_t)cols)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "the size of a copy of gradients overflows");
    gram_take(&layout, &p->packed, p->pack ? (size_t)rows * (size_t)cols * size : 0);
    gram_take(&layout, &p->gram, n * n * size);
    gram_take(&layout, &p->vector, (size_t)cols * size);
    gram_take(&layout, &p->right, gram_round64((size_t)rows * size));
    return gram_layout_open(g, &layout);
}

static double get(gram_dtype dtype, const void *data, int64_t at)
{
    return dtype == GRAM_F32 ? (double)((const float *)data)[at] : ((const double *)data)[at];
}

static void put(gram_dtype dtype, void *data, int64_t at, double value)
{
    if (dtype == GRAM_F32)
        ((float *)data)[at] = (float)value;
    else
        ((double *)data)[at] = value;
}

/* y = alpha J x + beta y, or with J^T; t is J^T as BLAS sees it. */
static void apply(const struct natural_plan *p, struct gram_blas_matrix t, bool transposed,
                  const void *x, double alpha, double beta, void *y)
{
    int64_t rows = p->op->gradients.rows, cols = p->op->gradients.cols;
    int64_t m = transposed ? cols : rows, k = transposed ? rows : cols;

    if (!transposed)
        t.transposed = !t.transposed;
    gram_blas_gemm(p->op->v.dtype, (int64_t[]){m, 1, k}, alpha, t,
                   (struct gram_blas_matrix){x, k, false}, beta, y, m);
}

/* Solves an item; its vector is v and becomes out. */
static int solve(const struct natural_plan *p, struct gram_blas_matrix t, double damping)
{
    gram_dtype dtype = p->op->v.dtype;
    int64_t rows = p->op->gradients.rows, cols = p->op->gradients.cols, n = p->n;
    void *gram = p->gram, *vector = p->vector, *right = p->right;
    struct gram_blas_matrix of = {t.data, t.ld, t.transposed != p->wide};
    int info;

    gram_blas_syrk(dtype, GRAM_LOWER, n, p->wide ? cols : rows, 1 / (double)rows, of, 0, gram, n);
    for (int64_t i = 0; i < n; i++)
        put(dtype, gram, i * (n + 1), get(dtype, gram, i * (n + 1)) + damping);
    info = gram_blas_potrf(dtype, GRAM_LOWER, n, gram, n);
    for (int64_t i = 0; i < n && info == 0; i++)
        if (!(get(dtype, gram, i * (n + 1)) > 0))
            info = (int)(i + 1);
    if (info != 0)
        return info;
    if (!p->wide) {
        gram_blas_potrs(dtype, GRAM_LOWER, n, 1, gram, n, vector, n);
        return 0;
    }
    apply(p, t, false, vector, 1, 0, right);
    gram_blas_potrs(dtype, GRAM_LOWER, n, 1, gram, n, right, n);
    apply(p, t, true, right, -1 / damping / (double)rows, 1 / damping, vector);
    return 0;
}

static void run_item(const struct natural_plan *p, int64_t item, int *info)
{
    const struct gram_natural_gradient_op *op = p->op;
    const char *from = gram_view_item(&op->gradients, &op->batch, item);
    struct gram_view dense =
        gram_view_dense(p->packed, op->v.dtype, op->gradients.rows, op->gradients.cols);
    const char *v = gram_view_item(&op->v, &op->batch, item);
    char *out = gram_view_item(&op->out, &op->batch, item);
    struct gram_blas_matrix t;

    if (p->pack) {
        const struct cpu_move m = cpu_move_between(&dense, p->packed, &op->gradients, from);
        cpu_move(op->v.dtype, &m);
    }
    t = p->pack ? gram_blas_transpose_of(&dense, p->packed)
                : gram_blas_transpose_of(&op->gradients, from);
    for (int64_t i = 0; i < op->v.cols; i++)
        put(op->v.dtype, p->vector, i, get(op->v.dtype, v, i * op->v.col_stride));
    *info = 0;
    if (op->gradients.rows > 0 && op->v.cols > 0)
        *info = solve(p, t, gram_hyper_at(&op->damping, &op->batch, item));
    for (int64_t i = 0; i < op->v.cols; i++) {
        double value = get(op->v.dtype, p->vector, i);
        if (op->gradients.rows == 0)
            value /= gram_hyper_at(&op->damping, &op->batch, item);
        put(op->v.dtype, out, i * op->out.col_stride, *info ? NAN : value);
    }
}

gram_status cpu_natural_gradient(gram_context *g, const struct gram_natural_gradient_op *op)
{
    struct natural_plan plan;
    bool failed = false;

    if (op->batch.count == 0)
        return GRAM_OK;
    TRY(make_plan(g, op, &plan));
    gram_blas_threads(g);
    for (int64_t item = 0; item < op->batch.count; item++) {
        int info;
        run_item(&plan, item, &info);
        failed |= info != 0;
        if (op->has_info)
            *(int32_t *)(void *)gram_view_item(&op->info, &op->batch, item) = info;
    }
    if (failed && !op->has_info)
        return gram_fail(g, GRAM_NUMERICAL,
                         "the damped Fisher matrix of an item is not finite or not positive "
                         "definite");
    return GRAM_OK;
}
