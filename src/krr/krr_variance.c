/*
 * krr_variance.c - gram_krr_variance: predictive variances of Gaussian processes, with bounds
 *
 * For a test point with the column k of kernel values, A = K + D, an approximate solution a of
 * A a = k and its residual r = k - A a, so that a = A^-1 (k - r),
 *
 *     k^T A^-1 k - (k^T a + a^T r) = k^T A^-1 k - (k^T + r^T) A^-1 (k - r) = r^T A^-1 r,
 *
 * which krr_variance_bound.c bounds.  Blocks of test points are the right sides of gram_krr_solve's
 * methods, all in one open problem.
 *
 * The iteration knows |r| alone.  It begins with a goal for it that the bound of the block before
 * made good enough, and goes on with a smaller one where the bound of this block does not.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_variance.h"
#include "core/backend.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK_NUMBERS = 1 << 23, /* 64 MiB of f64 for each of the problem's arrays */
    LEAST_BLOCK = 8,
    MOST_BLOCK = 256,
    ATTEMPTS = 4 /* goals for |r|, the last of which is that of r^T D^-1 r */
};

static const double standard_tolerance = 1e-4;
/* r^T D^-1 r over the bound before a block has told it: about the least of the kernels of the
 * tests. */
static const double first_gain = 4;

struct variance {
    gram_krr_variance_options options;
    struct krr_problem p;
    struct krr_preconditioner preconditioner;
    struct krr_array z, block, factor; /* of f64 where the context computes: m by d; n by a block's
                                          columns; n by n, the Cholesky factor of A */
    struct gram_view out[2];           /* variance, bound */
    gram_dtype dtype;                  /* of these */
    int64_t m, columns;                /* columns: of a block */
    double *own, *value, *bound;       /* m each; own: k(z, z) */
    double *tail;                      /* of each column of a block: r^T A^-1 r at most */
    struct krr_span span;
    bool spanned;
    double gain; /* r^T D^-1 r is so many times the bound, in the block before */
    bool dense, factored;
    int32_t minor; /* not 0: where a factorisation that was asked for broke down */
    gram_krr_variance_report report;
    double curvature;
};

/* ---- Arguments ------------------------------------------------------------------------------- */

static gram_status check_options(gram_context *g, const gram_krr_variance_options *given,
                                 gram_krr_variance_options *o)
{
    *o = (gram_krr_variance_options)GRAM_KRR_VARIANCE_OPTIONS_INIT;
    TRY(gram_options_copy(g, o, sizeof *o, given));
    TRY(gram_krr_check_process(g, o->method, o->ridge));
    if (o->report && o->report->size < sizeof o->report->size)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.report has size %zu, expected sizeof(gram_krr_variance_report)",
                         o->report->size);
    return GRAM_OK;
}

static gram_status view_output(gram_context *g, const char *name, const gram_tensor *t,
                               const struct variance *w, struct gram_view *out)
{
    TRY(gram_krr_view(g, name, t, GRAM_WRITE, out));
    if (out->rows == w->m && out->cols == 1)
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected %lld elements as z",
                     name, (long long)out->rows, (long long)out->cols, (long long)w->m);
}

/* z and the outputs; x has been checked. */
static gram_status check_tensors(gram_context *g, const gram_tensor *x, const gram_tensor *z,
                                 const gram_tensor *variance, struct variance *w,
                                 struct gram_view *points)
{
    const gram_tensor *bound = w->options.bound, *weights = w->options.weights;

    TRY(gram_krr_view(g, "z", z, GRAM_READ, points));
    TRY(gram_check_dtype(g, "z", z, x->dtype));
    if (z->ndim != 2 || points->cols != w->p.width)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "z has %d dimensions and %lld columns, expected 2 and %lld as x",
                         (int)z->ndim, (long long)points->cols, (long long)w->p.width);
    w->m = points->rows;
    TRY(view_output(g, "variance", variance, w, &w->out[0]));
    if (variance->dtype != GRAM_F64)
        TRY(gram_check_dtype(g, "variance", variance, x->dtype));
    w->dtype = variance->dtype;
    TRY(gram_check_apart(g, "variance", variance, "x", x));
    TRY(gram_check_apart(g, "variance", variance, "z", z));
    if (weights)
        TRY(gram_check_apart(g, "variance", variance, "options.weights", weights));
    if (!bound)
        return GRAM_OK;
    TRY(view_output(g, "options.bound", bound, w, &w->out[1]));
    TRY(gram_check_dtype(g, "options.bound", bound, variance->dtype));
    TRY(gram_check_apart(g, "options.bound", bound, "x", x));
    TRY(gram_check_apart(g, "options.bound", bound, "z", z));
    if (weights)
        TRY(gram_check_apart(g, "options.bound", bound, "options.weights", weights));
    return gram_check_apart(g, "options.bound", bound, "variance", variance);
}

/* ---- The points ------------------------------------------------------------------------------ */

static gram_status load_points(gram_context *g, const struct gram_view *points, struct variance *w)
{
    struct krr_problem of_z = w->p;

    TRY(gram_krr_widen_view(g, "z", points, &w->z));
    of_z.wide_x = w->z;
    of_z.n = w->m;
    of_z.diagonal = w->own;
    return gram_krr_load_diagonal(g, "z", &of_z);
}

static gram_status allocate(gram_context *g, struct variance *w)
{
    size_t bytes = (size_t)(3 * w->m + w->columns) * sizeof(double);

    w->own = gram_alloc(g, bytes);
    if (!w->own)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memset(w->own, 0, bytes);
    w->value = w->own + w->m;
    w->bound = w->value + w->m;
    w->tail = w->bound + w->m;
    return gram_krr_allocate(g, (size_t)(w->p.n * w->columns) * sizeof(double), &w->block);
}

static gram_status prepare(gram_context *g, const gram_tensor *x, const gram_kernel_options *kernel,
                           const gram_tensor *z, const gram_tensor *variance, struct variance *w)
{
    const gram_krr_variance_options *o = &w->options;
    gram_krr_options options = GRAM_KRR_OPTIONS_INIT;
    struct gram_view points;
    int64_t rows, tests;

    if (!x || !z || !variance)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", !x ? "x" : !z ? "z" : "variance");
    options.method = o->method;
    options.ridge = o->ridge;
    options.weights = o->weights;
    options.tolerance = o->tolerance == 0 ? standard_tolerance : o->tolerance;
    options.rank = o->rank;
    options.products = o->products;
    options.time_limit = o->time_limit;
    options.refine = 1;
    options.seed = o->seed;
    rows = x->ndim > 0 && x->shape[0] > 0 ? x->shape[0] : 1;
    tests = z->ndim > 0 ? z->shape[0] : 0;
    w->columns = gram_least(BLOCK_NUMBERS / rows, MOST_BLOCK);
    if (w->columns < LEAST_BLOCK)
        w->columns = LEAST_BLOCK;
    w->columns = gram_least(w->columns, tests > 0 ? tests : 1);
    w->p.columns = w->columns;
    TRY(gram_krr_open(g, x, kernel, &options, &w->p));
    TRY(check_tensors(g, x, z, variance, w, &points));
    TRY(allocate(g, w));
    TRY(load_points(g, &points, w));
    w->p.kept = &w->preconditioner;
    w->dense = o->method == GRAM_KRR_CHOLESKY ||
               (o->method == GRAM_KRR_AUTO && w->p.n <= gram_krr_dense_rows(g));
    return GRAM_OK;
}

/* ---- A block --------------------------------------------------------------------------------- */

/* |r| that is good enough whatever r is. */
static double least_target(const struct variance *w, int64_t point)
{
    return sqrt(0.9 * w->p.options.tolerance * w->own[point] * w->p.least_ridge);
}

/* The columns of a block as right sides; the first answer is 0. */
static gram_status load_columns(gram_context *g, struct variance *w, int64_t first)
{
    struct krr_problem *p = &w->p;
    const double *z = w->z.data;
    const size_t bytes = (size_t)(p->n * p->columns) * sizeof(double);
    gram_tensor x = gram_krr_matrix(g, p->wide_x.data, p->n, p->width, GRAM_F64);
    gram_tensor points = gram_krr_matrix(g, z + first * p->width, p->columns, p->width, GRAM_F64);
    gram_tensor k = gram_krr_matrix(g, w->block.data, p->columns, p->n, GRAM_F64);

    TRY(gram_kernel(g, &points, &x, &p->wide_kernel, &k));
    TRY(gram_krr_fetch(g, p->y, w->block.data, bytes));
    g->call = p->call;
    memset(p->alpha, 0, bytes);
    memcpy(p->residual, p->y, bytes);
    for (int64_t j = 0; j < p->columns; j++) {
        double sum = 0;

        for (int64_t i = j * p->n; i < (j + 1) * p->n; i++)
            sum += p->y[i] * p->y[i];
        p->norm_y[j] = p->norm_r[j] = sqrt(sum);
        p->target[j] = least_target(w, first + j);
        w->tail[j] = INFINITY;
    }
    return GRAM_OK;
}

/* The factor of A at the first call.  code is not 0 where A is not positive definite. */
static gram_status solve_dense(gram_context *g, struct variance *w, int32_t *code)
{
    struct krr_problem *p = &w->p;

    if (!w->factor.data)
        TRY(gram_krr_allocate(g, (size_t)(p->n * p->n) * sizeof(double), &w->factor));
    TRY(gram_krr_cholesky(g, p, &w->factor, w->factored, &w->block, code));
    w->factored = *code == 0;
    if (!w->factored)
        return GRAM_OK;
    return gram_krr_fetch(g, p->alpha, w->block.data, (size_t)(p->n * p->columns) * sizeof(double));
}

/* The variance of column j of a block, and its bound. */
static void finish_column(struct variance *w, int64_t first, int64_t j)
{
    const struct krr_problem *p = &w->p;
    const double *k = p->y + j * p->n, *a = p->alpha + j * p->n, *r = p->residual + j * p->n;
    const double u16 = 16 * DBL_EPSILON, own = w->own[first + j];
    double form = 0, error = 0, length = 0, rounding, of_r, value;

    for (int64_t i = 0; i < p->n; i++) {
        form += a[i] * (k[i] + r[i]);
        error += r[i] * r[i] / p->ridge[i];
        length += a[i] * a[i];
    }
    length = sqrt(length);
    of_r = u16 * sqrt((double)p->n) * p->most_diagonal * length;
    error = fmin(error, w->tail[j]); /* both are of the residual that was computed */
    if (of_r > 0)
        error = (sqrt(error) + of_r / sqrt(p->least_ridge)) *
                (sqrt(error) + of_r / sqrt(p->least_ridge));
    value = fmax(0, own - form);
    if (isnan(form))
        value = NAN;
    rounding = of_r * length + u16 * (sqrt((double)p->n * p->most_diagonal * own) * length + own);
    if (w->dtype == GRAM_F32)
        rounding += 2 * FLT_EPSILON * value;
    w->value[first + j] = value;
    w->bound[first + j] = fmin(error, value) + rounding;
}

/* The preconditioner of all blocks, and the span of the rows that it is made of. */
static gram_status make_span(gram_context *g, struct variance *w)
{
    struct krr_problem *p = &w->p;
    const int64_t rank = gram_krr_rank(p->n, p->options.rank);
    const size_t bytes = 2 * (size_t)rank * sizeof(int64_t);
    struct krr_pivots pivots = {0};
    struct krr_system system = gram_krr_system_of(g, p, &pivots);
    gram_status status;

    system.rank = rank;
    w->spanned = true;
    w->gain = 1;
    if (p->options.rank < 0 || rank == 0)
        return GRAM_OK;
    pivots.row = gram_alloc(g, bytes);
    if (!pivots.row)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    pivots.step = pivots.row + rank;
    status = gram_krr_precondition(g, &system, gram_krr_mean(p->ridge, p->n), &w->preconditioner);
    if (status == GRAM_OK)
        status = gram_krr_span_create(g, p, &pivots, &w->span);
    gram_free(g, pivots.row, bytes);
    g->call = p->call;
    w->gain = w->span.rank > 0 ? first_gain : 1;
    return status;
}

/* The goals of an attempt; true if a column has not reached its tolerance. */
static bool set_targets(struct variance *w, int64_t first, int attempt)
{
    struct krr_problem *p = &w->p;
    bool on = false;

    for (int64_t j = 0; j < p->columns; j++) {
        const double least = least_target(w, first + j), own = w->own[first + j];
        const double most = p->options.tolerance * own, bound = w->bound[first + j];

        if (attempt > 0 && bound <= most) {
            p->target[j] = p->norm_r[j] > least ? p->norm_r[j] : least;
            continue;
        }
        on = true;
        p->target[j] =
            attempt == 0 ? least * sqrt(w->gain) : p->norm_r[j] * sqrt(0.6 * most / bound);
        if (attempt + 1 == ATTEMPTS || !(p->target[j] > least))
            p->target[j] = least;
    }
    return on;
}

/* Bounds of the columns, and what they are better than r^T D^-1 r by at least. */
static gram_status look(gram_context *g, struct variance *w, int64_t first)
{
    struct krr_problem *p = &w->p;
    double gain = INFINITY;

    TRY(gram_krr_span_bounds(g, p, &w->span, w->tail));
    for (int64_t j = 0; j < p->columns; j++) {
        double plain = 0;

        for (int64_t i = j * p->n; i < (j + 1) * p->n; i++)
            plain += p->residual[i] * p->residual[i] / p->ridge[i - j * p->n];
        finish_column(w, first, j);
        if (plain > 0 && plain / w->tail[j] < gain)
            gain = plain / w->tail[j];
    }
    if (gain < INFINITY)
        w->gain = gain > 1.25 ? 0.8 * gain : 1;
    return GRAM_OK;
}

/* alpha of a block and its residual by conjugate gradients. */
static gram_status iterate_block(gram_context *g, struct variance *w, int64_t first,
                                 gram_krr_end *end)
{
    struct krr_problem *p = &w->p;
    struct krr_cg_report last = {.end = KRR_CG_STALLED};
    int64_t rank;

    if (!w->spanned)
        TRY(make_span(g, w));
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (!set_targets(w, first, attempt))
            break;
        if (gram_krr_excess(p) > 1) {
            TRY(gram_krr_rounds(g, p, &last, &rank));
            w->report.rank = rank;
        }
        TRY(look(g, w, first));
        *end = gram_krr_end_of(&last);
        if (*end != GRAM_KRR_ROUNDING || w->span.rank == 0 || gram_krr_excess(p) > 1)
            break;
    }
    if (*end == GRAM_KRR_INDEFINITE)
        w->curvature = last.curvature;
    return GRAM_OK;
}

/* alpha of a block and its residual; the end is that of what was not reached. */
static gram_status solve_block(gram_context *g, struct variance *w, int64_t first,
                               gram_krr_end *end)
{
    struct krr_problem *p = &w->p;
    int32_t code = 0;

    *end = GRAM_KRR_ROUNDING;
    if (gram_krr_out_of_time(p)) {
        *end = GRAM_KRR_TIME;
        return GRAM_OK;
    }
    if (w->dense) {
        TRY(solve_dense(g, w, &code));
        if (code == 0)
            return gram_krr_residual(g, p);
        if (w->options.method == GRAM_KRR_CHOLESKY) {
            w->minor = code;
            *end = GRAM_KRR_INDEFINITE;
            return GRAM_OK;
        }
        w->dense = false;
        gram_krr_free(g, &w->factor);
    }
    return iterate_block(g, w, first, end);
}

/* The block, and what the report says of it. */
static void finish_block(struct variance *w, int64_t first, gram_krr_end end)
{
    gram_krr_variance_report *report = &w->report;
    bool reached = true, void_block = false;

    for (int64_t j = 0; j < w->p.columns; j++) {
        const double own = w->own[first + j], *bound = w->bound + first + j;

        finish_column(w, first, j);
        reached = reached && *bound <= w->p.options.tolerance * own;
        if (!(*bound <= report->bound * own))
            report->bound = own > 0 ? *bound / own : INFINITY;
    }
    if (reached)
        return;
    if (report->reached)
        report->end = end;
    report->reached = 0;
    void_block = end == GRAM_KRR_INDEFINITE;
    for (int64_t j = 0; void_block && j < w->p.columns; j++)
        w->value[first + j] = w->bound[first + j] = report->bound = NAN;
}

/* ---- The call -------------------------------------------------------------------------------- */

static gram_status all_blocks(gram_context *g, struct variance *w)
{
    struct krr_problem *p = &w->p;
    gram_krr_end end = GRAM_KRR_ROUNDING;

    w->report.reached = 1;
    for (int64_t first = 0; first < w->m && w->minor == 0; first += w->columns) {
        p->columns = gram_least(w->columns, w->m - first);
        p->products = 0;
        if (p->n > 0) {
            TRY(load_columns(g, w, first));
            TRY(solve_block(g, w, first, &end));
        }
        finish_block(w, first, end);
        w->report.products += p->products;
    }
    for (int64_t i = 0; w->minor != 0 && i < w->m; i++)
        w->value[i] = w->bound[i] = NAN;
    w->report.method = w->dense ? GRAM_KRR_CHOLESKY : GRAM_KRR_CG;
    w->report.seconds = gram_seconds() - p->start;
    if (w->options.bound)
        TRY(gram_krr_put(g, &w->out[1], w->bound));
    return gram_krr_put(g, &w->out[0], w->value);
}

static gram_status verdict(gram_context *g, const struct variance *w)
{
    const gram_krr_variance_report *r = &w->report;
    const char *why =
        "rounding allows no less: expect less by options.tolerance, or take a larger "
        "ridge";

    g->call = w->p.call;
    if (r->reached)
        return GRAM_OK;
    if (w->minor != 0)
        return gram_fail(g, GRAM_NUMERICAL,
                         "the kernel matrix plus a ridge of %g is not positive definite in f64: "
                         "the leading minor of order %d is not positive",
                         w->options.ridge, (int)w->minor);
    if (r->end == GRAM_KRR_INDEFINITE)
        return gram_fail(g, GRAM_NUMERICAL,
                         "the kernel matrix plus a ridge of %g is not positive definite: p^T A p "
                         "is %.3g for a direction p",
                         w->options.ridge, w->curvature);
    if (r->end == GRAM_KRR_PRODUCTS)
        why = "options.products are used up";
    if (r->end == GRAM_KRR_TIME)
        why = "options.time_limit is over";
    return gram_fail(g, GRAM_NUMERICAL,
                     "a bound is %.3g of k(z, z) after %lld products, and %g was asked for: %s",
                     r->bound, (long long)r->products, w->p.options.tolerance, why);
}

static void release(gram_context *g, struct variance *w)
{
    gram_krr_preconditioner_destroy(g, &w->preconditioner);
    gram_krr_span_destroy(g, &w->span);
    gram_krr_free(g, &w->factor);
    gram_krr_free(g, &w->block);
    gram_krr_free(g, &w->z);
    gram_free(g, w->own, (size_t)(3 * w->m + w->columns) * sizeof(double));
    gram_krr_close(g, &w->p);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): variance is written */
gram_status gram_krr_variance(gram_context *g, const gram_tensor *x,
                              const gram_kernel_options *kernel, const gram_tensor *z,
                              const gram_krr_variance_options *options, gram_tensor *variance)
{
    struct variance w = {
        .p = {.start = gram_seconds(), .call = __func__}
    };
    gram_status status;
    size_t size;

    TRY(gram_begin(g, __func__));
    TRY(check_options(g, options, &w.options));
    status = prepare(g, x, kernel, z, variance, &w);
    if (status == GRAM_OK)
        status = all_blocks(g, &w);
    if (status == GRAM_OK)
        status = verdict(g, &w);
    release(g, &w);
    if (w.options.report && (status == GRAM_OK || status == GRAM_NUMERICAL)) {
        size = w.options.report->size;
        memcpy(w.options.report, &w.report, size < sizeof w.report ? size : sizeof w.report);
        w.options.report->size = size;
    }
    return gram_call_ended(g, status);
}
