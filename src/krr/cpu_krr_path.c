/*
 * cpu_krr_path.c - gram_krr_path on the CPU
 *
 * Everything is in double and column-major.  With s_i = sqrt(w_i), m the mean of a column of y (0
 * without an intercept) and S = diag(s) K diag(s), each method solves
 *   (S + r I) a = diag(s) (y - m 1)   for every column,
 *   (S + r I) u = s                   where there is an intercept (the last column),
 * and finds d_i = ((S + r I)^-1)_ii.  In the terms of gram.h A^-1 = diag(s) (S + r I)^-1 diag(s),
 * so that the residuals are
 *   a_i / (s_i d_i),
 *   (a_i + (y_i - m) / (n - 1) u_i) / (s_i d_i)          m_i - m = -(y_i - m) / (n - 1),
 *   (a_i - b u_i) / (s_i (d_i - u_i^2 / s . u)),         b = s . a / s . u, which is the fitted
 * intercept less m.
 *
 * By the eigendecomposition S = V diag(l) V^T, d of all ridges is the product of the squares of V
 * with the numbers 1 / (l_k + r_t).  By Cholesky, S + r I = L L^T, d_i is the sum of the squares of
 * row i of L^-T, whose rows are found some at a time, from their first element that is not 0.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu/cpu.h"
#include "krr.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOAD_COLUMNS = 32,   /* of a block: a cache line of the caller's rows is read once */
    PANEL = 256,         /* rows of L^-T that are solved for at a time */
    SIDE_ROWS = 2048,    /* most rows of factorisations that run side by side, one per thread */
    MOST_ORDER = 1 << 28 /* so that the elements of a matrix can be counted */
};

struct path_work {
    const struct gram_krr_path_op *op;
    int64_t n, columns, systems; /* systems: the columns, and one where there is an intercept */
    const char *k, *y, *weights; /* of the item */
    double *matrix;              /* n by n: S, then its vectors or its factor */
    double *roots;               /* n: s */
    double *means, *fitted;      /* columns: m and b, less the mean */
    double *right;               /* n by systems: the right-hand sides, then V^T times them */
    double *solution;            /* n by systems: a and u of one ridge */
    double *diagonal;            /* n by ridges (EIGH), or n: d */
    /* EIGH: */
    double *values, *work, *inverses; /* n; lwork; n by ridges: 1 / (l + r) */
    int32_t *iwork;
    int64_t lwork, liwork;
    /* CHOLESKY, each and matrix, solution and diagonal once per worker: */
    double *panel; /* PANEL by n */
    int workers;
    bool *too_small; /* ridges */
};

/* ---- What the caller's tensors hold ---------------------------------------------------------- */

static gram_status check_elements(gram_context *g, const struct gram_krr_path_op *op, int64_t item)
{
    const struct gram_view *k = &op->k, *y = &op->y, *w = &op->weights;
    const char *data = gram_view_item(k, &op->batch, item);
    const bool lower = op->uplo == GRAM_LOWER;

    for (int64_t i = 0; i < k->rows; i++)
        for (int64_t j = lower ? 0 : i; j < (lower ? i + 1 : k->rows); j++) {
            double v = krr_element(k->dtype, data, i * k->row_stride + j * k->col_stride);
            if (!isfinite(v))
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "k[%lld, %lld] of item %lld is %g, expected a finite number",
                                 (long long)i, (long long)j, (long long)item, v);
        }
    data = gram_view_item(y, &op->batch, item);
    for (int64_t i = 0; i < y->rows; i++)
        for (int64_t j = 0; j < y->cols; j++) {
            double v = krr_element(y->dtype, data, i * y->row_stride + j * y->col_stride);
            if (!isfinite(v))
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "y[%lld, %lld] of item %lld is %g, expected a finite number",
                                 (long long)i, (long long)j, (long long)item, v);
        }
    if (!op->has_weights)
        return GRAM_OK;
    data = gram_view_item(w, &op->batch, item);
    for (int64_t i = 0; i < w->cols; i++) {
        double v = krr_element(w->dtype, data, i * w->col_stride);
        if (!(v > 0 && v < INFINITY))
            return gram_fail(
                g, GRAM_INVALID_ARGUMENT,
                "options.weights[%lld] of item %lld is %g, expected a finite number above 0",
                (long long)i, (long long)item, v);
    }
    return GRAM_OK;
}

/* A block of columns of the lower triangle of S. */
static void load_columns(void *arg, int64_t block, int thread)
{
    const struct path_work *w = arg;
    const struct gram_view *k = &w->op->k;
    const bool lower = w->op->uplo == GRAM_LOWER;
    const int64_t down = lower ? k->row_stride : k->col_stride;
    const int64_t along = lower ? k->col_stride : k->row_stride;
    const int64_t first = block * LOAD_COLUMNS, end = gram_least(first + LOAD_COLUMNS, w->n);

    (void)thread;
    for (int64_t i = first; i < w->n; i++)
        for (int64_t j = first; j < gram_least(end, i + 1); j++)
            w->matrix[i + j * w->n] =
                w->roots[i] * w->roots[j] * krr_element(k->dtype, w->k, i * down + j * along);
}

static void load_matrix(gram_context *g, struct path_work *w)
{
    if (w->workers > 1) { /* other ridges have the other threads */
        for (int64_t block = 0; block < gram_ceil_div(w->n, LOAD_COLUMNS); block++)
            load_columns(w, block, 0);
        return;
    }
    gram_for(g, (double)w->n * (double)w->n, gram_ceil_div(w->n, LOAD_COLUMNS), load_columns, w);
}

/* The roots of the weights, the means, and the right-hand sides. */
static void load_targets(struct path_work *w)
{
    const struct gram_krr_path_op *op = w->op;
    const struct gram_view *y = &op->y;

    for (int64_t i = 0; i < w->n; i++)
        w->roots[i] = op->has_weights
                          ? sqrt(krr_element(y->dtype, w->weights, i * op->weights.col_stride))
                          : 1;
    for (int64_t j = 0; j < w->columns; j++) {
        double *b = w->right + j * w->n, mean = op->intercept && w->n == 0 ? NAN : 0;

        for (int64_t i = 0; i < w->n; i++)
            b[i] = krr_element(y->dtype, w->y, i * y->row_stride + j * y->col_stride);
        for (int64_t i = 0; op->intercept && i < w->n; i++)
            mean += b[i] / (double)w->n;
        w->means[j] = mean;
        for (int64_t i = 0; i < w->n; i++)
            b[i] = w->roots[i] * (b[i] - mean);
    }
    if (op->intercept && w->n > 0)
        memcpy(w->right + w->columns * w->n, w->roots, (size_t)w->n * sizeof *w->roots);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* What a ridge gives for a column: numbers, or NaN for all. */
struct path_column {
    int64_t ridge, column;
    double *residuals, *alpha; /* n each */
    double offset, error, spread;
};

static void fit_column(const struct path_work *w, const double *d, struct path_column *c)
{
    const gram_krr_intercept intercept = w->op->intercept;
    const double *a = w->solution + c->column * w->n, *s = w->roots;
    const double *u = w->solution + w->columns * w->n; /* where there is an intercept */
    const struct gram_view *y = &w->op->y;
    double sa = 0, su = 0, b = 0;

    for (int64_t i = 0; intercept == GRAM_KRR_INTERCEPT_FITTED && i < w->n; i++) {
        sa += s[i] * a[i];
        su += s[i] * u[i];
    }
    if (intercept == GRAM_KRR_INTERCEPT_FITTED)
        b = sa / su;
    c->offset = w->means[c->column] + b;
    for (int64_t i = 0; i < w->n; i++) {
        double top = a[i], below = d[i];

        if (intercept == GRAM_KRR_INTERCEPT_FITTED) {
            top -= b * u[i];
            below -= u[i] * u[i] / su;
        }
        c->alpha[i] = s[i] * top;
        if (intercept == GRAM_KRR_INTERCEPT_MEAN) {
            double v = krr_element(y->dtype, w->y, i * y->row_stride + c->column * y->col_stride);
            top += (v - w->means[c->column]) / (double)(w->n - 1) * u[i];
        }
        c->residuals[i] = intercept && w->n == 1 ? NAN : top / (s[i] * below);
    }
}

static void summarise(const struct path_work *w, struct path_column *c)
{
    double weights = 0, sum = 0, squares = 0, n = (double)w->n;

    for (int64_t i = 0; i < w->n; i++) {
        double weight = w->roots[i] * w->roots[i];
        weights += weight;
        sum += weight * c->residuals[i] * c->residuals[i];
    }
    c->error = sum / weights; /* 0 / 0 where there are no rows */
    for (int64_t i = 0; i < w->n; i++) {
        double part = w->roots[i] * w->roots[i] * (c->residuals[i] * c->residuals[i] - c->error);
        squares += part * part;
    }
    c->spread = w->n < 2 ? NAN : sqrt(n / (n - 1) * squares) / weights;
}

/* An element of an output at a ridge, a row and a column; error and the like have no rows. */
static void put_output(const struct gram_krr_path_op *op, const struct gram_view *v, int64_t item,
                       const int64_t at[3], double value)
{
    char *data = gram_view_item(v, &op->batch, item);
    bool whole = v == &op->loo || v == &op->alpha;

    krr_set_element(v->dtype, data,
                    whole ? at[0] * v->plane_stride + at[1] * v->row_stride + at[2] * v->col_stride
                          : at[0] * v->row_stride + at[2] * v->col_stride,
                    value);
}

static void store_column(const struct path_work *w, int64_t item, const struct path_column *c)
{
    const struct gram_krr_path_op *op = w->op;
    const int64_t summary[3] = {c->ridge, 0, c->column};

    for (int64_t i = 0; i < w->n; i++) {
        const int64_t at[3] = {c->ridge, i, c->column};
        put_output(op, &op->loo, item, at, c->residuals[i]);
        if (op->has_alpha)
            put_output(op, &op->alpha, item, at, c->alpha[i]);
    }
    if (op->has_error)
        put_output(op, &op->error, item, summary, c->error);
    if (op->has_spread)
        put_output(op, &op->spread, item, summary, c->spread);
    if (op->has_offset)
        put_output(op, &op->offset, item, summary, c->offset);
}

/* All columns of a ridge from a, u and d; d NULL: the ridge is too small, and all is NaN.  The
 * panel is free by now. */
static void store_ridge(struct path_work *w, int64_t item, int64_t ridge, const double *d)
{
    for (int64_t j = 0; j < w->columns; j++) {
        struct path_column c = {.ridge = ridge,
                                .column = j,
                                .residuals = w->panel,
                                .alpha = w->panel + w->n,
                                .offset = NAN,
                                .error = NAN,
                                .spread = NAN};

        for (int64_t i = 0; !d && i < w->n; i++)
            c.residuals[i] = c.alpha[i] = NAN;
        if (d) {
            fit_column(w, d, &c);
            summarise(w, &c);
        }
        store_column(w, item, &c);
    }
}

/* ---- By the eigendecomposition --------------------------------------------------------------- */

/* V^T times the right-hand sides, and d of all ridges; false: no convergence. */
static bool decompose(struct path_work *w)
{
    const struct gram_krr_path_op *op = w->op;
    const int64_t n = w->n;

    if (gram_blas_syevd(GRAM_F64, GRAM_LOWER, n, w->matrix, n, w->values, w->work, w->lwork,
                        w->iwork, w->liwork))
        return false;
    gram_blas_gemm(GRAM_F64, (int64_t[]){n, w->systems, n}, 1,
                   (struct gram_blas_matrix){w->matrix, n, true},
                   (struct gram_blas_matrix){w->right, n, false}, 0, w->solution, n);
    memcpy(w->right, w->solution, (size_t)(n * w->systems) * sizeof *w->right);
    for (int64_t i = 0; i < n * n; i++)
        w->work[i] = w->matrix[i] * w->matrix[i];
    for (int64_t t = 0; t < op->count; t++)
        for (int64_t k = 0; k < n; k++)
            w->inverses[k + t * n] = 1 / (w->values[k] + op->ridges[t]);
    gram_blas_gemm(GRAM_F64, (int64_t[]){n, op->count, n}, 1,
                   (struct gram_blas_matrix){w->work, n, false},
                   (struct gram_blas_matrix){w->inverses, n, false}, 0, w->diagonal, n);
    return true;
}

/* a and u of a ridge; NULL if it is too small, else d. */
static const double *solve_by_eigh(struct path_work *w, int64_t ridge)
{
    const int64_t n = w->n;
    const double *inverse = w->inverses + ridge * n, r = w->op->ridges[ridge];
    double most = fmax(fabs(w->values[0]), fabs(w->values[n - 1]));

    if (w->values[0] + r <= (double)n * DBL_EPSILON * most)
        return NULL;
    for (int64_t j = 0; j < w->systems; j++)
        for (int64_t k = 0; k < n; k++)
            w->work[k + j * n] = w->right[k + j * n] * inverse[k];
    gram_blas_gemm(GRAM_F64, (int64_t[]){n, w->systems, n}, 1,
                   (struct gram_blas_matrix){w->matrix, n, false},
                   (struct gram_blas_matrix){w->work, n, false}, 0, w->solution, n);
    return w->diagonal + ridge * n;
}

/* ---- By factorisations ----------------------------------------------------------------------- */

/* The sums of the squares of the rows of L^-T. */
static void invert_diagonal(struct path_work *w)
{
    const int64_t n = w->n;

    for (int64_t first = 0; first < n; first += PANEL) {
        const int64_t rows = gram_least(PANEL, n - first), rest = n - first;

        memset(w->panel, 0, (size_t)(rows * rest) * sizeof *w->panel);
        for (int64_t i = 0; i < rows; i++)
            w->panel[i + i * rows] = 1;
        gram_blas_trsm(GRAM_F64, rows, rest, w->matrix + first + first * n, n, w->panel, rows);
        memset(w->diagonal + first, 0, (size_t)rows * sizeof *w->diagonal);
        for (int64_t k = 0; k < rest; k++)
            for (int64_t i = 0; i < rows; i++)
                w->diagonal[first + i] += w->panel[i + k * rows] * w->panel[i + k * rows];
    }
}

static const double *solve_by_cholesky(gram_context *g, struct path_work *w, int64_t ridge)
{
    const int64_t n = w->n;
    double most = 0;

    load_matrix(g, w);
    for (int64_t i = 0; i < n; i++)
        w->matrix[i + i * n] += w->op->ridges[ridge];
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, w->matrix[i + i * n]);
    if (gram_blas_potrf(GRAM_F64, GRAM_LOWER, n, w->matrix, n))
        return NULL;
    for (int64_t i = 0; i < n; i++) /* each square is at least the least eigenvalue */
        if (w->matrix[i + i * n] * w->matrix[i + i * n] <= (double)n * DBL_EPSILON * most)
            return NULL;
    memcpy(w->solution, w->right, (size_t)(n * w->systems) * sizeof *w->solution);
    if (w->systems > 0)
        gram_blas_potrs(GRAM_F64, GRAM_LOWER, n, w->systems, w->matrix, n, w->solution, n);
    invert_diagonal(w);
    return w->diagonal;
}

/* ---- The call -------------------------------------------------------------------------------- */

/* The ridges of an item, side by side or one after the other. */
struct ridge_loop {
    gram_context *g;
    const struct path_work *w;
    int64_t item;
    bool decomposed;
};

static void one_ridge(void *arg, int64_t ridge, int thread)
{
    const struct ridge_loop *loop = arg;
    struct path_work w = *loop->w;
    const double *d = w.roots; /* of no rows: any */

    if (gram_cancelled(loop->g))
        return;
    w.matrix += thread * w.n * w.n;
    w.solution += thread * w.n * w.systems;
    w.panel += thread * w.n * PANEL;
    if (w.op->method == GRAM_KRR_PATH_CHOLESKY)
        w.diagonal += thread * w.n;
    if (w.n > 0 && w.op->method == GRAM_KRR_PATH_EIGH)
        d = loop->decomposed ? solve_by_eigh(&w, ridge) : NULL;
    else if (w.n > 0)
        d = solve_by_cholesky(loop->g, &w, ridge);
    w.too_small[ridge] = d == NULL;
    store_ridge(&w, loop->item, ridge, d);
}

static gram_status one_item(gram_context *g, struct path_work *w, int64_t item, int *failed)
{
    const struct gram_krr_path_op *op = w->op;
    const bool eigh = op->method == GRAM_KRR_PATH_EIGH;
    struct ridge_loop loop = {.g = g, .w = w, .item = item, .decomposed = true};

    w->k = gram_view_item(&op->k, &op->batch, item);
    w->y = gram_view_item(&op->y, &op->batch, item);
    w->weights = op->has_weights ? gram_view_item(&op->weights, &op->batch, item) : NULL;
    *failed = 0;
    load_targets(w);
    if (w->n > 0 && eigh && op->count > 0) {
        load_matrix(g, w);
        loop.decomposed = decompose(w);
    }
    cpu_blas_for(g, w->workers > 1, op->count, one_ridge, &loop);
    if (gram_cancelled(g))
        return gram_fail(g, GRAM_CANCELLED, "cancelled");
    for (int64_t t = 0; t < op->count; t++)
        *failed += w->too_small[t];
    return GRAM_OK;
}

static void lay_out(const struct gram_krr_path_op *op, struct gram_layout *l, struct path_work *w)
{
    const bool eigh = op->method == GRAM_KRR_PATH_EIGH;
    const size_t n = (size_t)w->n, size = sizeof(double);
    const size_t square = w->n > MOST_ORDER ? SIZE_MAX : n * n;
    const size_t systems = (size_t)w->systems, ridges = (size_t)op->count;
    const size_t workers = (size_t)w->workers;

    gram_take_many(l, &w->matrix, square, workers * size);
    gram_take_many(l, &w->too_small, ridges, sizeof *w->too_small);
    gram_take_many(l, &w->roots, n, size);
    gram_take_many(l, &w->means, (size_t)w->columns, size);
    gram_take_many(l, &w->right, n, systems * size);
    gram_take_many(l, &w->solution, n, workers * systems * size);
    gram_take_many(l, &w->diagonal, n, (eigh ? ridges : workers) * size);
    /* The residuals and alpha of a column lie here, too. */
    gram_take_many(l, &w->panel, n, (eigh ? 2 : workers * PANEL) * size);
    if (!eigh)
        return;
    gram_blas_syevd_sizes(w->n, &w->lwork, &w->liwork);
    if (w->lwork < w->n * w->systems) /* also for V^T y over the ridges */
        w->lwork = w->n * w->systems;
    gram_take_many(l, &w->values, n, size);
    gram_take_many(l, &w->work, (size_t)w->lwork, size);
    gram_take_many(l, &w->inverses, n, ridges * size);
    gram_take_many(l, &w->iwork, (size_t)w->liwork, sizeof(int32_t));
}

gram_status cpu_krr_path(gram_context *g, const struct gram_krr_path_op *op)
{
    struct path_work w = {.op = op, .n = op->k.rows, .columns = op->y.cols};
    struct gram_layout layout = {0};
    long long first_failed = -1;
    int failed = 0;

    w.systems = w.columns + (op->intercept != GRAM_KRR_INTERCEPT_NONE);
    w.workers = 1;
    if (op->method == GRAM_KRR_PATH_CHOLESKY && w.n <= SIDE_ROWS && op->count > 1)
        w.workers = (int)gram_least(g->threads, op->count);
    if (!gram_blas_fits(w.n, w.systems, op->count))
        return gram_fail(g, GRAM_UNSUPPORTED, "k or y is larger than BLAS can count");
    lay_out(op, &layout, &w);
    TRY(gram_layout_open(g, &layout));
    for (int64_t item = 0; item < op->batch.count; item++)
        TRY(check_elements(g, op, item));
    gram_blas_threads(g);
    for (int64_t item = 0; item < op->batch.count; item++) {
        int bad = 0;

        TRY(one_item(g, &w, item, &bad));
        if (op->has_info)
            *(int32_t *)(void *)gram_view_item(&op->info, &op->batch, item) = bad;
        if (bad && first_failed < 0)
            first_failed = item, failed = bad;
    }
    if (first_failed < 0 || op->has_info)
        return GRAM_OK;
    return gram_fail(g, GRAM_NUMERICAL,
                     "k of item %lld plus the ridge is not positive definite for %d of %lld ridges",
                     first_failed, failed, (long long)op->count);
}
