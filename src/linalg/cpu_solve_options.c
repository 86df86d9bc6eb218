/*
 * cpu_solve_options.c - solves with condition estimates, a ladder of jitters, or refinement
 *
 * Like cpu_solve_large.c by LAPACK, but A is kept beside its factor.  Small items of a batch are
 * done in parallel, one thread each; others one after the other with all threads.
 *
 * Refinement gives solutions of f64 accuracy from a factor in f32: plain steps for all columns
 * together, as LAPACK's dsposv; then flexible GMRES, preconditioned by the factor, column by column
 * (Carson and Higham, A new analysis of iterative refinement and its application to accurate
 * solution of ill-conditioned sparse linear systems, SIAM J. Sci. Comput. 39, 2017; Saad, A
 * flexible inner-outer preconditioned GMRES algorithm, 1993).
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/threads.h"
#include "cpu/move.h"
#include "cpu_solve.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    PARALLEL_ORDER = 256, /* LAPACK's threads gain nothing up to here */
    PLAIN_STEPS = 10,     /* each wins at least two bits, or they end */
    GMRES_STEPS = 5,
    REFINE_RESTART = 30 /* vectors of GMRES: more means that f32 is no help */
};

/* One item of a on one worker.  Matrices in scratch are column-major, n apart: the matrix as LAPACK
 * factors it, that is transposed where that is how the caller's factor lies (`flip`). */
struct option_work {
    const struct solve_plan *plan;
    int64_t n, own; /* order; item of own */
    bool flip;
    double jitter; /* that was added */
    int exponent;  /* refine: the f32 factor is of A 2^-exponent */
    double norm;   /* of A, in the infinity norm (refine) */
    void *a;       /* A; both triangles if refine */
    void *f;       /* its factor, in the dtype of a, or in f32 while `low` */
    bool low;
    int32_t *pivots, *iwork;
    void *work;    /* 4 n elements */
    void *b, *x;   /* a block of right-hand sides, n apart; x only if refine */
    double *r;     /* refine: residuals */
    float *d;      /* and corrections */
    double *basis; /* refine: 2 REFINE_RESTART + 1 vectors for GMRES */
};

/* ---- Scratch --------------------------------------------------------------------------------- */

static int64_t block_columns(const struct gram_solve_op *op)
{
    return gram_least(op->x.cols, SOLVE_RHS_BLOCK);
}

/* The pieces of a worker. */
static void lay_out(const struct solve_plan *plan, struct gram_layout *l, struct option_work *w)
{
    const struct gram_solve_op *op = plan->op;
    const size_t n = (size_t)op->a.rows, size = gram_dtype_size(op->a.dtype);
    const size_t block = n * (size_t)block_columns(op), refined = op->refine ? block : 0;

    gram_take_many(l, &w->a, n * n, size);
    gram_take_many(l, &w->f, n * n, size);
    gram_take_many(l, &w->work, 4 * n, size);
    gram_take_many(l, &w->iwork, n, sizeof(int32_t));
    gram_take_many(l, &w->pivots, n, sizeof(int32_t));
    gram_take_many(l, &w->b, block, size);
    gram_take_many(l, &w->x, refined, sizeof(double));
    gram_take_many(l, &w->r, refined, sizeof(double));
    gram_take_many(l, &w->d, refined, sizeof(float));
    gram_take_many(l, &w->basis, op->refine ? n * (2 * REFINE_RESTART + 1) : 0, sizeof(double));
}

static int64_t workers(const gram_context *g, const struct solve_plan *plan)
{
    bool parallel = plan->op->a.rows <= PARALLEL_ORDER && plan->own.count > 1;

    return parallel ? gram_least(plan->own.count, g->threads) : 1;
}

/* ---- One matrix ------------------------------------------------------------------------------ */

/* An element of a matrix in the dtype of a. */
static double get(const struct option_work *w, const void *a, int64_t at)
{
    return w->plan->op->a.dtype == GRAM_F32 ? (double)((const float *)a)[at]
                                            : ((const double *)a)[at];
}

static void put(const struct option_work *w, void *a, int64_t at, double value)
{
    if (w->plan->op->a.dtype == GRAM_F32)
        ((float *)a)[at] = (float)value;
    else
        ((double *)a)[at] = value;
}

/* Brings A to w->a: both triangles for Cholesky, since norms and residuals are of the whole. */
static void load_matrix(const struct option_work *w)
{
    const struct gram_view *v = &w->plan->op->a;
    const int64_t down = w->flip ? v->col_stride : v->row_stride;
    const int64_t across = w->flip ? v->row_stride : v->col_stride;
    const struct cpu_move c = {
        .to = w->a,
        .from = cpu_solve_item(w->plan, v, w->own, 0),
        .to_stride = {   1,   w->n},
        .from_stride = {down, across},
        .rows = w->n,
        .cols = w->n,
        .part = w->plan->lu ? CPU_MOVE_ALL : CPU_MOVE_LOWER,
    };

    cpu_move(v->dtype, &c);
    if (!w->plan->lu)
        cpu_mirror(v->dtype, w->n, w->a);
}

static double size_at(const struct option_work *w, int64_t i, int64_t j)
{
    return fabs(get(w, w->a, i + j * w->n));
}

/* Column by column, so that memory is read in order. */
static double norm_of_rows(const struct option_work *w)
{
    double most = 0;

    for (int64_t i = 0; i < w->n; i++)
        put(w, w->work, i, 0);
    for (int64_t j = 0; j < w->n; j++)
        for (int64_t i = 0; i < w->n; i++)
            put(w, w->work, i, get(w, w->work, i) + size_at(w, i, j));
    for (int64_t i = 0; i < w->n; i++) {
        double sum = get(w, w->work, i);
        if (isnan(sum))
            return INFINITY;
        most = fmax(most, sum);
    }
    return most;
}

static double norm_of_columns(const struct option_work *w)
{
    double most = 0;

    for (int64_t j = 0; j < w->n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < w->n; i++)
            sum += size_at(w, i, j);
        if (isnan(sum))
            return INFINITY;
        most = fmax(most, sum);
    }
    return most;
}

/* The largest sum of magnitudes of a column of w->a, or of a row: equal where it is symmetric. */
static double norm_of(const struct option_work *w, bool rows)
{
    return rows && w->plan->lu ? norm_of_rows(w) : norm_of_columns(w);
}

static void add_to_diagonal(const struct option_work *w, void *a, double s)
{
    for (int64_t i = 0; i < w->n && s != 0; i++)
        put(w, a, i * (w->n + 1), get(w, a, i * (w->n + 1)) + s);
}

/* f = a + s I, in f32 and scaled if low. */
static void copy_to_factor(struct option_work *w, double s)
{
    const double *a = w->a;
    float *f = w->f;
    double scale;

    if (!w->low) {
        memcpy(w->f, w->a, (size_t)(w->n * w->n) * gram_dtype_size(w->plan->op->a.dtype));
        add_to_diagonal(w, w->f, s);
        return;
    }
    frexp(isfinite(w->norm + s) ? w->norm + s : 0, &w->exponent);
    w->exponent = (int)gram_most(w->exponent, -1000); /* 2^1000 can be multiplied by */
    scale = ldexp(1, -w->exponent);
    for (int64_t i = 0; i < w->n * w->n; i++)
        f[i] = (float)(a[i] * scale);
    for (int64_t i = 0; i < w->n * w->n && s != 0; i += w->n + 1)
        f[i] = (float)((a[i] + s) * scale);
}

static gram_dtype dtype_of_factor(const struct option_work *w)
{
    return w->low ? GRAM_F32 : w->plan->op->a.dtype;
}

/* LAPACK's info; those of f64 and f32 have the same kernels but for the dtype. */
static int64_t factorise(const struct option_work *w)
{
    gram_dtype dtype = dtype_of_factor(w);
    const struct gram_solve_kernels *kernels = w->plan->of_dtype[dtype];
    int64_t info = w->plan->lu ? gram_blas_getrf(dtype, w->n, w->f, w->n, w->pivots)
                               : gram_blas_potrf(dtype, GRAM_LOWER, w->n, w->f, w->n);
    int64_t bad = kernels->bad_diagonal(info ? info - 1 : w->n, w->f, w->n, !w->plan->lu);

    return bad ? bad : info;
}

/* Solves with f for a block of columns, in place: in the dtype of f. */
static void apply_factor(const struct option_work *w, gram_dtype dtype, int64_t columns, void *x)
{
    if (w->plan->lu)
        gram_blas_getrs(dtype, w->flip, w->n, columns, w->f, w->n, w->pivots, x, w->n);
    else
        gram_blas_potrs(dtype, GRAM_LOWER, w->n, columns, w->f, w->n, x, w->n);
}

/* Tries the ladder, from its first s on; a becomes a + s I.  What cannot be factored in f32 is, in
 * f64. */
static int64_t climb(struct option_work *w)
{
    const struct gram_solve_op *op = w->plan->op;
    int64_t info = 1;

    for (int i = 0; info && (i == 0 || i < op->jitters); i++) {
        w->jitter = op->jitters ? op->jitter[i] : 0;
        for (w->low = op->refine; info; w->low = false) {
            copy_to_factor(w, w->jitter);
            info = factorise(w);
            if (!info || !w->low)
                break;
        }
    }
    add_to_diagonal(w, w->a, w->jitter);
    return info;
}

static double condition(const struct option_work *w)
{
    gram_dtype dtype = dtype_of_factor(w);
    double norm = ldexp(norm_of(w, w->flip), w->low ? -w->exponent : 0);

    if (w->n == 0)
        return 1;
    return w->plan->lu
               ? gram_blas_gecon(dtype, w->flip, w->n, w->f, w->n, norm, w->work, w->iwork)
               : gram_blas_pocon(dtype, GRAM_LOWER, w->n, w->f, w->n, norm, w->work, w->iwork);
}

static void store_factor(const struct option_work *w)
{
    const struct gram_view *v = &w->plan->op->factor;
    const int64_t down = w->flip ? v->col_stride : v->row_stride;
    const int64_t across = w->flip ? v->row_stride : v->col_stride;
    const struct cpu_move c = {
        .to = cpu_solve_item(w->plan, v, w->own, 0),
        .from = w->f,
        .to_stride = {down, across},
        .from_stride = {   1,   w->n},
        .rows = w->n,
        .cols = w->n,
        .part = w->plan->lu ? CPU_MOVE_ALL : CPU_MOVE_LOWER,
    };

    cpu_move(v->dtype, &c);
}

/* ---- Refinement ------------------------------------------------------------------------------ */

static double largest(int64_t n, const double *v)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++) {
        double size = fabs(v[i]);
        if (isnan(size))
            return INFINITY;
        most = size > most ? size : most;
    }
    return most;
}

/* v = alpha A u + beta v for columns. */
static void multiply(const struct option_work *w, int64_t columns, double alpha, const double *u,
                     double beta, double *v)
{
    int64_t n = w->n;

    gram_blas_gemm(GRAM_F64, (int64_t[]){n, columns, n}, alpha,
                   (struct gram_blas_matrix){w->a, n, false},
                   (struct gram_blas_matrix){u, n, false}, beta, v, n);
}

/* Of one column, from its residual; infinite where that is NaN. */
static double backward_of(const struct option_work *w, int64_t column)
{
    int64_t n = w->n;
    double r = largest(n, w->r + column * n);
    double scale = w->norm * largest(n, (const double *)w->x + column * n) +
                   largest(n, (const double *)w->b + column * n);

    if (!isfinite(r))
        return INFINITY;
    return r > 0 ? r / scale : 0;
}

/* The largest backward error of the columns in x for those in b; r gets the residuals. */
static double backward_of_all(const struct option_work *w, int64_t columns)
{
    double worst = 0;

    memcpy(w->r, w->b, (size_t)(w->n * columns) * sizeof *w->r);
    multiply(w, columns, -1, w->x, 1, w->r);
    for (int64_t j = 0; j < columns; j++) {
        double error = backward_of(w, j);
        worst = error <= worst ? worst : error;
    }
    return worst;
}

static double accepted(const struct option_work *w)
{
    return sqrt((double)w->n) * (DBL_EPSILON / 2);
}

/* to = A^-1 from by the f32 factor, columns scaled to where f32 has its range. */
static void precondition(const struct option_work *w, int64_t columns, const double *from,
                         double *to, bool add)
{
    int64_t n = w->n;

    for (int64_t j = 0; j < columns; j++) {
        double scale = largest(n, from + j * n);
        for (int64_t i = 0; i < n; i++)
            w->d[i + j * n] = scale > 0 ? (float)(from[i + j * n] / scale) : 0;
    }
    apply_factor(w, GRAM_F32, columns, w->d);
    for (int64_t j = 0; j < columns; j++) {
        double scale = ldexp(largest(n, from + j * n), -w->exponent);
        for (int64_t i = 0; i < n; i++) {
            double d = (double)w->d[i + j * n] * scale;
            to[i + j * n] = add ? to[i + j * n] + d : d;
        }
    }
}

static double dot(int64_t n, const double *u, const double *v)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += u[i] * v[i];
    return sum;
}

/* to += factor * from */
static void add_scaled(int64_t n, double factor, const double *from, double *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

/* The least squares of GMRES: R's columns, the rotations that made them, the turned residual. */
struct small_system {
    double r[REFINE_RESTART][REFINE_RESTART + 1], c[REFINE_RESTART], s[REFINE_RESTART];
    double g[REFINE_RESTART + 1];
};

static void rotate(struct small_system *q, int k)
{
    double *h = q->r[k], length;

    for (int i = 0; i < k; i++) {
        double upper = q->c[i] * h[i] + q->s[i] * h[i + 1];
        h[i + 1] = q->c[i] * h[i + 1] - q->s[i] * h[i];
        h[i] = upper;
    }
    length = hypot(h[k], h[k + 1]);
    q->c[k] = length > 0 ? h[k] / length : 1;
    q->s[k] = length > 0 ? h[k + 1] / length : 0;
    h[k] = length;
    q->g[k + 1] = -q->s[k] * q->g[k];
    q->g[k] *= q->c[k];
}

/* One more correction of a column of x whose residual is r: the best of a Krylov space.  Stops when
 * the residual has shrunk by 1e6: more would be lost in the rounding of x. */
static void gmres(const struct option_work *w, double *x, const double *r)
{
    struct small_system q = {.g = {0}};
    double *v = w->basis, *z = v + (REFINE_RESTART + 1) * w->n, beta = sqrt(dot(w->n, r, r));
    int64_t n = w->n;
    int k = 0;

    if (!(beta > 0 && isfinite(beta)))
        return;
    for (int64_t i = 0; i < n; i++)
        v[i] = r[i] / beta;
    q.g[0] = beta;
    while (k < REFINE_RESTART && k < n && fabs(q.g[k]) > 1e-6 * beta) {
        double *next = v + (k + 1) * n, length;
        precondition(w, 1, v + k * n, z + k * n, false);
        multiply(w, 1, 1, z + k * n, 0, next);
        for (int i = 0; i <= k; i++) {
            q.r[k][i] = dot(n, next, v + i * n);
            add_scaled(n, -q.r[k][i], v + i * n, next);
        }
        length = q.r[k][k + 1] = sqrt(dot(n, next, next));
        if (!isfinite(length))
            break;
        rotate(&q, k++);
        if (!(length > 0))
            break;
        for (int64_t i = 0; i < n; i++)
            next[i] /= length;
    }
    for (int j = k - 1; j >= 0; j--) { /* the triangular system, and x */
        for (int i = j + 1; i < k; i++)
            q.g[j] -= q.r[i][j] * q.g[i];
        q.g[j] = q.r[j][j] != 0 ? q.g[j] / q.r[j][j] : 0;
        add_scaled(n, q.g[j], z + j * n, x);
    }
}

/* GMRES for one column, until its backward error is accepted or no longer halves. */
static double finish_column(const struct option_work *w, int64_t column, int *steps)
{
    int64_t n = w->n;
    double *x = (double *)w->x + column * n, *r = w->r + column * n;
    const double *b = (const double *)w->b + column * n;
    double error = backward_of(w, column), before = INFINITY;

    if (!isfinite(error)) { /* the plain steps diverged */
        memset(x, 0, (size_t)n * sizeof *x);
        memcpy(r, b, (size_t)n * sizeof *r);
    }
    for (int i = 0; i < GMRES_STEPS && !(error <= accepted(w)) && !(error > before / 2); i++) {
        before = error;
        gmres(w, x, r);
        memcpy(r, b, (size_t)n * sizeof *r);
        multiply(w, 1, -1, x, 1, r);
        error = backward_of(w, column);
        ++*steps;
    }
    return error;
}

/* x for the columns in b, from the f32 factor; *backward gets the largest backward error, *steps
 * is raised by the steps taken.  False: f64 is needed. */
static bool refine(const struct option_work *w, int64_t columns, double *backward, int *steps)
{
    double error = INFINITY, before, worst = 0;

    memset(w->x, 0, (size_t)(w->n * columns) * sizeof(double));
    memcpy(w->r, w->b, (size_t)(w->n * columns) * sizeof(double));
    for (int i = 0; i < PLAIN_STEPS; i++) {
        before = error;
        precondition(w, columns, w->r, w->x, true);
        error = backward_of_all(w, columns);
        ++*steps;
        if (error <= accepted(w) || !(error <= before / 4))
            break;
    }
    for (int64_t j = 0; !(error <= accepted(w)) && j < columns; j++) {
        double of_column = finish_column(w, j, steps);
        worst = of_column <= worst ? worst : of_column;
    }
    *backward = error <= accepted(w) ? error : worst;
    return *backward <= accepted(w);
}

/* ---- Right-hand sides ------------------------------------------------------------------------ */

/* Copies columns from j on between the caller's b or x and a block. */
static void move_block(const struct option_work *w, const struct gram_view *v, char *item,
                       const int64_t first_count[2], void *block, bool in)
{
    char *data = item + first_count[0] * v->col_stride * (int64_t)gram_dtype_size(v->dtype);
    struct cpu_move c = {
        .to = in ? block : data,
        .from = in ? data : block,
        .to_stride = {in ? 1 : v->row_stride, in ? w->n : v->col_stride},
        .from_stride = {in ? v->row_stride : 1, in ? v->col_stride : w->n},
        .rows = w->n,
        .cols = first_count[1],
    };

    cpu_move(v->dtype, &c);
}

/* What refinement reports of one item of the batch. */
struct refined {
    double backward;
    int steps; /* -1: in f64 after all */
};

/* The block b solved: in place, or to x.  False: the factorisation in f64 broke down. */
static bool solve_block(struct option_work *w, int64_t columns, struct refined *told, int64_t *info)
{
    double error = 0;

    if (w->low && refine(w, columns, &error, &told->steps)) {
        told->backward = fmax(told->backward, error);
        return true;
    }
    if (w->low) {
        w->low = false;
        copy_to_factor(w, 0); /* a has the jitter already */
        *info = factorise(w);
        if (*info)
            return false;
    }
    if (w->plan->op->refine) {
        memcpy(w->x, w->b, (size_t)(w->n * columns) * sizeof(double));
        apply_factor(w, GRAM_F64, columns, w->x);
        error = backward_of_all(w, columns);
        told->backward = fmax(told->backward, error);
        told->steps = -1;
    } else {
        apply_factor(w, w->plan->op->a.dtype, columns, w->b);
    }
    return true;
}

static void solve_columns(struct option_work *w, int64_t shared, struct refined *told,
                          int64_t *info)
{
    const struct gram_solve_op *op = w->plan->op;
    char *b = cpu_solve_item(w->plan, &op->b, w->own, shared);
    char *x = cpu_solve_item(w->plan, &op->x, w->own, shared);
    int64_t step = block_columns(op);

    for (int64_t j = 0; j < op->x.cols && w->n > 0 && !*info; j += step) {
        int64_t block[2] = {j, gram_least(step, op->x.cols - j)};
        move_block(w, &op->b, b, block, w->b, true);
        if (solve_block(w, block[1], told, info))
            move_block(w, &op->x, x, block, op->refine ? w->x : w->b, false);
    }
}

/* ---- One item of a --------------------------------------------------------------------------- */

static void put_number(const struct option_work *w, const struct gram_view *v, int64_t shared,
                       double value)
{
    char *to = cpu_solve_item(w->plan, v, w->own, shared);

    if (v->dtype == GRAM_I32)
        *(int32_t *)(void *)to = (int32_t)value;
    else if (v->dtype == GRAM_F32)
        *(float *)(void *)to = (float)value;
    else
        *(double *)(void *)to = value;
}

static void report_matrix(const struct option_work *w, int64_t info)
{
    const struct gram_solve_op *op = w->plan->op;

    if (op->has_rcond)
        put_number(w, &op->rcond, 0, info ? 0 : condition(w));
    if (op->has_jittered)
        put_number(w, &op->jittered, 0, info ? NAN : w->jitter);
    if (op->has_factor)
        store_factor(w);
    if (op->has_pivots)
        cpu_solve_pivots_out(w->plan, w->own, w->pivots);
}

static void solve_item(struct option_work *w, struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    int64_t info;

    load_matrix(w);
    if (op->refine)
        w->norm = norm_of(w, true);
    info = climb(w);
    if (op->refine && w->jitter != 0)
        w->norm = norm_of(w, true);
    report_matrix(w, info);
    for (int64_t j = 0; j < plan->shared.count; j++) {
        struct refined told = {0};
        if (!info)
            solve_columns(w, j, &told, &info);
        if (info)
            told.backward = NAN;
        if (op->has_backward)
            put_number(w, &op->backward, j, told.backward);
        if (op->has_refinings)
            put_number(w, &op->refinings, j, told.steps);
    }
    for (int64_t j = 0; info && j < plan->shared.count; j++)
        cpu_fill_nan(&op->x, cpu_solve_item(plan, &op->x, w->own, j));
    cpu_solve_report(plan, w->own, info);
}

struct option_loop {
    struct solve_plan *plan;
    char *scratch; /* share_bytes for each worker */
    size_t share_bytes;
    atomic_llong next; /* item of own that nobody has taken */
};

static void work(void *arg, int64_t worker, int thread)
{
    struct option_loop *loop = arg;
    const struct gram_solve_op *op = loop->plan->op;
    struct option_work w = {.plan = loop->plan, .n = op->a.rows};
    struct gram_layout layout = {0};

    (void)thread;
    lay_out(loop->plan, &layout, &w);
    gram_layout_place(&layout, loop->scratch + (size_t)worker * loop->share_bytes);
    w.flip = !loop->plan->lu ? op->uplo == GRAM_UPPER
                             : op->has_factor && gram_solve_layout(&op->factor).row_major;
    while ((w.own = atomic_fetch_add(&loop->next, 1)) < loop->plan->own.count)
        solve_item(&w, loop->plan);
}

/* ---- Entry points ---------------------------------------------------------------------------- */

bool cpu_solve_has_options(const struct gram_solve_op *op)
{
    return op->has_rcond || op->jitters || op->has_jittered || op->refine;
}

gram_status cpu_solve_options(gram_context *g, struct solve_plan *plan)
{
    struct option_loop loop = {.plan = plan};
    struct gram_layout layout = {0}, share = {0};
    struct option_work one;
    int64_t count = workers(g, plan);

    lay_out(plan, &share, &one);
    loop.share_bytes = gram_layout_bytes(&share);
    gram_take_many(&layout, &loop.scratch, (size_t)count, loop.share_bytes);
    TRY(cpu_solve_open(g, plan, &layout));
    atomic_init(&loop.next, 0);
    if (count > 1) {
        gram_blas_for(g, count, work, &loop);
    } else {
        gram_blas_threads(g);
        work(&loop, 0, 0);
    }
    return GRAM_OK;
}
