/*
 * krr_samples.c - gram_krr_samples: draws of Gaussian processes by Matheron's rule
 *
 * A draw f of the process that has seen nothing, at x and z (krr_prior.c), becomes one of the
 * process that has seen y by
 *
 *   f(z) + k(z, x) A^-1 (y - f(x) - e),   A = K + D,
 *
 * with noise e of the covariance D: f(x) + e has the covariance A, so that the sum has the
 * covariance k(z, z) - k(z, x) A^-1 k(x, z).  Blocks of draws are right sides of gram_krr_solve's
 * methods, all in one open problem.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_prior.h"
#include <math.h>
#include <string.h>

enum {
    BLOCK_NUMBERS = 1 << 23, /* 64 MiB of f64 for each of the problem's arrays */
    LEAST_BLOCK = 8,
    MOST_BLOCK = 256
};

static const double standard_tolerance = 1e-3;

struct samples {
    gram_krr_samples_options options;
    struct krr_problem p;
    struct krr_preconditioner preconditioner;
    struct krr_prior prior;
    struct krr_array z, factor, right, cross; /* f64 where the context computes: m by d; the factor
                                                 of A; n by columns; m by columns */
    struct gram_view out;
    int64_t m, count, columns; /* count: of draws; columns: of a block */
    double *y, *draw, *value;  /* n; a block's draws at all points; m by count, by columns */
    size_t bytes;
    bool dense, factored;
    int32_t minor;
    gram_krr_samples_report report;
    double curvature;
};

/* ---- Arguments ------------------------------------------------------------------------------- */

static gram_status check_options(gram_context *g, const gram_krr_samples_options *given,
                                 gram_krr_samples_options *o)
{
    *o = (gram_krr_samples_options)GRAM_KRR_SAMPLES_OPTIONS_INIT;
    TRY(gram_options_copy(g, o, sizeof *o, given));
    TRY(gram_krr_check_process(g, o->method, o->ridge));
    if (o->prior < GRAM_KRR_PRIOR_AUTO || o->prior > GRAM_KRR_PRIOR_FEATURES)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.prior is %d, expected GRAM_KRR_PRIOR_AUTO, _JOINT or _FEATURES",
                         (int)o->prior);
    if (o->features < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.features is %lld, expected 0 or more",
                         (long long)o->features);
    if (o->report && o->report->size < sizeof o->report->size)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.report has size %zu, expected sizeof(gram_krr_samples_report)",
                         o->report->size);
    return GRAM_OK;
}

/* What the rows of x decide, before the problem is opened. */
static void set_columns(const gram_tensor *x, const gram_tensor *samples, struct samples *w)
{
    const int64_t rows = x->ndim > 0 && x->shape[0] > 0 ? x->shape[0] : 1;
    const int64_t draws = samples->ndim > 1 ? samples->shape[1] : 1;

    w->columns = gram_most(gram_least(BLOCK_NUMBERS / rows, MOST_BLOCK), LEAST_BLOCK);
    w->columns = gram_least(w->columns, draws > 0 ? draws : 1);
    w->p.columns = w->columns;
}

/* y, z and samples; x has been checked. */
static gram_status check_tensors(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                 const gram_tensor *z, const gram_tensor *samples,
                                 struct samples *w, struct gram_view views[2])
{
    const gram_tensor *const inputs[] = {x, y, z, w->options.weights};
    static const char *const names[] = {"x", "y", "z", "options.weights"};

    TRY(gram_krr_view(g, "y", y, GRAM_READ, &views[0]));
    TRY(gram_check_dtype(g, "y", y, x->dtype));
    if (views[0].rows != w->p.n || views[0].cols != 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "y is %lld by %lld, expected %lld elements as x",
                         (long long)views[0].rows, (long long)views[0].cols, (long long)w->p.n);
    TRY(gram_krr_view(g, "z", z, GRAM_READ, &views[1]));
    TRY(gram_check_dtype(g, "z", z, x->dtype));
    if (z->ndim != 2 || views[1].cols != w->p.width)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "z has %d dimensions and %lld columns, expected 2 and %lld as x",
                         (int)z->ndim, (long long)views[1].cols, (long long)w->p.width);
    w->m = views[1].rows;
    TRY(gram_krr_view(g, "samples", samples, GRAM_WRITE, &w->out));
    if (samples->dtype != GRAM_F64)
        TRY(gram_check_dtype(g, "samples", samples, x->dtype));
    if (w->out.rows != w->m)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "samples has %lld rows, expected %lld as z",
                         (long long)w->out.rows, (long long)w->m);
    w->count = w->out.cols;
    for (int i = 0; i < 4; i++)
        if (inputs[i])
            TRY(gram_check_apart(g, "samples", samples, names[i], inputs[i]));
    return GRAM_OK;
}

/* y on the host in f64, and z where the context computes. */
static gram_status load(gram_context *g, const struct gram_view views[2], struct samples *w)
{
    const size_t n = (size_t)w->p.n, m = (size_t)w->m;
    struct krr_array y = {0};
    gram_status status;

    w->bytes = (n + (n + m) * (size_t)w->columns + m * (size_t)w->count + 1) * sizeof(double);
    w->y = gram_alloc(g, w->bytes);
    if (!w->y)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", w->bytes);
    w->draw = w->y + n;
    w->value = w->draw + (n + m) * (size_t)w->columns;
    TRY(gram_krr_widen_view(g, "y", &views[0], &y));
    status = n > 0 ? gram_krr_fetch(g, w->y, y.data, n * sizeof(double)) : GRAM_OK;
    gram_krr_free(g, &y);
    TRY(status);
    TRY(gram_krr_widen_view(g, "z", &views[1], &w->z));
    TRY(gram_krr_allocate(g, (n * (size_t)w->columns + 1) * sizeof(double), &w->right));
    return gram_krr_allocate(g, (m * (size_t)w->columns + 1) * sizeof(double), &w->cross);
}

/* k(z, z) of z counts for the floor of JOINT, and shows a kernel that is not positive definite. */
static gram_status look_at_diagonal(gram_context *g, struct samples *w)
{
    struct krr_problem of_z = w->p;
    gram_status status;
    const size_t bytes = ((size_t)w->m + 1) * sizeof(double);

    of_z.wide_x = w->z;
    of_z.n = w->m;
    of_z.diagonal = gram_alloc(g, bytes);
    if (!of_z.diagonal)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_krr_load_diagonal(g, "z", &of_z);
    gram_free(g, of_z.diagonal, bytes);
    w->p.most_diagonal = fmax(w->p.most_diagonal, of_z.most_diagonal);
    return status;
}

static gram_status prepare(gram_context *g, const struct krr_call *c, const gram_tensor *z,
                           const gram_tensor *samples, struct samples *w)
{
    const gram_krr_samples_options *o = &w->options;
    gram_krr_options options = GRAM_KRR_OPTIONS_INIT;
    struct gram_view views[2];

    if (!c->x || !c->y || !z || !samples)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL",
                         !c->x   ? "x"
                         : !c->y ? "y"
                         : !z    ? "z"
                                 : "samples");
    options.method = o->method;
    options.ridge = o->ridge;
    options.weights = o->weights;
    options.tolerance = o->tolerance == 0 ? standard_tolerance : o->tolerance;
    options.rank = o->rank;
    options.products = o->products;
    options.time_limit = o->time_limit;
    options.refine = 1;
    options.seed = o->seed;
    set_columns(c->x, samples, w);
    TRY(gram_krr_open(g, c->x, c->kernel, &options, &w->p));
    TRY(check_tensors(g, c->x, c->y, z, samples, w, views));
    TRY(load(g, views, w));
    TRY(look_at_diagonal(g, w));
    w->p.kept = &w->preconditioner;
    w->dense = o->method == GRAM_KRR_CHOLESKY ||
               (o->method == GRAM_KRR_AUTO && w->p.n <= gram_krr_dense_rows(g));
    if (w->m == 0 || w->count == 0)
        return GRAM_OK;
    return gram_krr_prior_create(g, &w->p, &w->z, o, w->m, w->columns, &w->prior);
}

/* ---- A block --------------------------------------------------------------------------------- */

/* b of a block; the first answer is 0. */
static void load_right(struct samples *w, int64_t first)
{
    struct krr_problem *p = &w->p;
    const size_t bytes = (size_t)(p->n * p->columns) * sizeof(double);

    for (int64_t j = 0; j < p->columns; j++) {
        const double *f = w->draw + j * (p->n + w->m);
        double *b = p->y + j * p->n, sum = 0;

        gram_krr_prior_noise(w->options.seed, first + j, p->n, b);
        for (int64_t i = 0; i < p->n; i++) {
            b[i] = w->y[i] - f[i] - sqrt(p->ridge[i]) * b[i];
            sum += b[i] * b[i];
        }
        p->norm_y[j] = p->norm_r[j] = sqrt(sum);
    }
    memset(p->alpha, 0, bytes);
    memcpy(p->residual, p->y, bytes);
    gram_krr_targets(p);
}

/* The factor of A at the first call; minor is not 0 where A is not positive definite. */
static gram_status solve_dense(gram_context *g, struct samples *w)
{
    struct krr_problem *p = &w->p;
    const size_t bytes = (size_t)(p->n * p->columns) * sizeof(double);

    if (!w->factor.data)
        TRY(gram_krr_allocate(g, (size_t)(p->n * p->n) * sizeof(double), &w->factor));
    TRY(gram_krr_store(g, w->right.data, p->y, bytes));
    TRY(gram_krr_cholesky(g, p, &w->factor, w->factored, &w->right, &w->minor));
    w->factored = w->minor == 0;
    if (!w->factored)
        return GRAM_OK;
    TRY(gram_krr_fetch(g, p->alpha, w->right.data, bytes));
    return gram_krr_residual(g, p);
}

/* alpha of a block and its residual; the end is that of what was not reached. */
static gram_status solve_block(gram_context *g, struct samples *w, gram_krr_end *end)
{
    struct krr_problem *p = &w->p;
    struct krr_cg_report last = {.end = KRR_CG_STALLED};

    *end = GRAM_KRR_ROUNDING;
    if (gram_krr_out_of_time(p)) {
        *end = GRAM_KRR_TIME;
        return GRAM_OK;
    }
    if (w->dense) {
        TRY(solve_dense(g, w));
        if (w->minor == 0)
            return GRAM_OK;
        *end = GRAM_KRR_INDEFINITE;
        if (w->options.method == GRAM_KRR_CHOLESKY)
            return GRAM_OK;
        w->dense = false;
        w->minor = 0;
        gram_krr_free(g, &w->factor);
    }
    TRY(gram_krr_rounds(g, p, &last, &w->report.rank));
    *end = gram_krr_end_of(&last);
    w->curvature = last.curvature;
    return GRAM_OK;
}

/* f(z) + k(z, x) alpha. */
static gram_status finish_block(gram_context *g, struct samples *w, int64_t first)
{
    struct krr_problem *p = &w->p;
    const gram_tensor z = gram_krr_matrix(g, w->z.data, w->m, p->width, GRAM_F64);
    const gram_tensor x = gram_krr_matrix(g, p->wide_x.data, p->n, p->width, GRAM_F64);
    const gram_tensor alpha = gram_krr_by_columns(g, w->right.data, p->n, p->columns, GRAM_F64);
    gram_tensor out = gram_krr_by_columns(g, w->cross.data, w->m, p->columns, GRAM_F64);
    double *value = w->value + first * w->m;

    memset(value, 0, (size_t)(w->m * p->columns) * sizeof *value);
    if (p->n > 0) {
        TRY(gram_krr_store(g, w->right.data, p->alpha,
                           (size_t)(p->n * p->columns) * sizeof *p->alpha));
        TRY(gram_kernel_matmul(g, &z, &x, &p->wide_kernel, &alpha, NULL, &out));
        TRY(gram_krr_fetch(g, value, w->cross.data, (size_t)(w->m * p->columns) * sizeof *value));
        g->call = p->call;
    }
    for (int64_t j = 0; j < p->columns; j++) {
        const double *f = w->draw + j * (p->n + w->m) + p->n;

        for (int64_t i = 0; i < w->m; i++)
            value[j * w->m + i] += f[i];
    }
    return GRAM_OK;
}

/* What the report says of a block. */
static void judge(struct samples *w, gram_krr_end end)
{
    const struct krr_problem *p = &w->p;
    gram_krr_samples_report *report = &w->report;

    for (int64_t j = 0; j < p->columns; j++) {
        const double part = p->norm_r[j] == 0 ? 0 : p->norm_r[j] / p->norm_y[j];

        if (!(part <= report->residual))
            report->residual = part;
    }
    if (gram_krr_excess(p) <= 1)
        return;
    if (report->reached)
        report->end = end;
    report->reached = 0;
}

/* ---- The call -------------------------------------------------------------------------------- */

static void no_answer(struct samples *w)
{
    for (int64_t i = 0; i < w->m * w->count; i++)
        w->value[i] = NAN;
    w->report.reached = 0;
    w->report.residual = NAN;
    w->report.end = GRAM_KRR_INDEFINITE;
}

static gram_status all_blocks(gram_context *g, struct samples *w)
{
    struct krr_problem *p = &w->p;
    gram_krr_end end = GRAM_KRR_ROUNDING;

    w->report.reached = 1;
    for (int64_t first = 0; w->m > 0 && first < w->count; first += w->columns) {
        if (w->minor != 0 || w->prior.minor != 0)
            break;
        p->columns = gram_least(w->columns, w->count - first);
        p->products = 0;
        TRY(gram_krr_prior_draw(g, &w->prior, first, p->columns, w->draw));
        g->call = p->call;
        if (p->n > 0) {
            load_right(w, first);
            TRY(solve_block(g, w, &end));
            judge(w, end);
        }
        TRY(finish_block(g, w, first));
        w->report.products += p->products;
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    if (w->minor != 0 || w->prior.minor != 0)
        no_answer(w);
    w->report.method = w->dense ? GRAM_KRR_CHOLESKY : GRAM_KRR_CG;
    w->report.prior = w->prior.kind;
    w->report.floor = w->prior.floor;
    w->report.seconds = gram_seconds() - p->start;
    return gram_krr_put(g, &w->out, w->value);
}

static gram_status verdict(gram_context *g, const struct samples *w)
{
    const gram_krr_samples_report *r = &w->report;
    const char *why =
        "rounding allows no less: expect less by options.tolerance, or take a larger "
        "ridge";

    g->call = w->p.call;
    if (r->reached)
        return GRAM_OK;
    if (w->prior.minor != 0)
        return gram_fail(g, GRAM_NUMERICAL,
                         "the kernel matrix of x and z is not positive definite in f64: the "
                         "leading minor of order %d is not positive with %.3g on the diagonal",
                         (int)w->prior.minor, w->prior.floor);
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
                     "the relative residual of a draw is %.3g after %lld products, and %g was "
                     "asked for: %s",
                     r->residual, (long long)r->products, w->p.options.tolerance, why);
}

static void release(gram_context *g, struct samples *w)
{
    gram_krr_prior_destroy(g, &w->prior);
    gram_krr_preconditioner_destroy(g, &w->preconditioner);
    gram_krr_free(g, &w->factor);
    gram_krr_free(g, &w->right);
    gram_krr_free(g, &w->cross);
    gram_krr_free(g, &w->z);
    if (w->y)
        gram_free(g, w->y, w->bytes);
    gram_krr_close(g, &w->p);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): samples are written */
gram_status gram_krr_samples(gram_context *g, const gram_tensor *x,
                             const gram_kernel_options *kernel, const gram_tensor *y,
                             const gram_tensor *z, const gram_krr_samples_options *options,
                             gram_tensor *samples)
{
    const struct krr_call c = {.x = x, .y = y, .kernel = kernel};
    struct samples w = {
        .p = {.start = gram_seconds(), .call = __func__}
    };
    gram_status status;
    size_t size;

    TRY(gram_begin(g, __func__));
    TRY(check_options(g, options, &w.options));
    status = prepare(g, &c, z, samples, &w);
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
