/*
 * logdet.c - gram_logdet_operator and gram_kernel_logdet: stochastic Lanczos quadrature
 *
 * For a probe z of n elements that are -1 or 1 at random, z^T log(A) z has the expectation
 * trace(log A) = log det A.  Conjugate gradients for A x = z have the coefficients of a Lanczos
 * process that begins with z: with rz_j = |r_j|^2 and the curvature c_j = d_j^T A d_j,
 *
 *     s_j = rz_j / c_j,   t_j = rz_{j+1} / rz_j,
 *     T[j][j] = 1 / s_j + t_{j-1} / s_{j-1},   T[j][j+1] = sqrt(t_j) / s_j
 *
 * (Saad, Iterative methods for sparse linear systems, section 6.7).  The eigenvalues of T are the
 * nodes of a Gauss quadrature, and the squares of the first elements of its eigenvectors, times
 * |z|^2 = n, are the weights.  After S. Ubaru, J. Chen and Y. Saad, Fast estimation of tr(f(A)) via
 * stochastic Lanczos quadrature, SIAM J. Matrix Anal. Appl. 38 (2017).
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/random.h"
#include "krr_passes.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    GROUP = 8, /* probes at a time: what an operator takes, and few vectors of n elements */
    PROBES = 32,
    STEPS = 100
};

/* Where a probe ends: eigenvectors that the process has not seen have this share of z at most. */
static const double solved = 1e-8;

/* The coefficients of the probes of a group, and scratch for the quadrature. */
struct coefficients {
    int64_t steps;                     /* the most */
    int64_t count[GROUP];              /* of each probe */
    double *rz, *curvature;            /* GROUP by steps */
    double *diagonal, *beside, *first; /* of T; the first row of its eigenvectors */
};

struct logdet {
    gram_logdet_options options;
    gram_dtype dtype;
    int64_t n;
    krr_apply *multiply;
    void *matrix;
    struct coefficients c;
    double *value; /* one per probe */
};

/* ---- The quadrature -------------------------------------------------------------------------- */

static void keep(void *observer, int64_t column, double rz, double curvature)
{
    struct coefficients *c = observer;
    int64_t at = c->count[column]++;

    c->rz[column * c->steps + at] = rz;
    c->curvature[column * c->steps + at] = curvature;
}

/* One implicit QL sweep from row m up to row l of a tridiagonal matrix, unless that splits on the
 * way.  d is its diagonal, e is beside it, and z is the first row of the eigenvectors. */
static void sweep(int64_t l, int64_t m, double *d, double *e, double *z)
{
    double g = (d[l + 1] - d[l]) / (2 * e[l]), r = hypot(g, 1), s = 1, c = 1, p = 0;

    g = d[m] - d[l] + e[l] / (g + copysign(r, g));
    for (int64_t i = m - 1; i >= l; i--) {
        double f = s * e[i], b = c * e[i];

        e[i + 1] = r = hypot(f, g);
        if (r == 0) {
            d[i + 1] -= p;
            e[m] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        f = z[i + 1];
        z[i + 1] = s * z[i] + c * f;
        z[i] = c * z[i] - s * f;
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0;
}

/* The eigenvalues of T in d, and the first elements of its eigenvectors in z (G. Golub and J.
 * Welsch, Calculation of Gauss quadrature rules, Math. Comp. 23, 1969).  False: no convergence. */
static bool nodes_and_weights(int64_t count, double *d, double *e, double *z)
{
    int64_t sweeps = 0;

    memset(z, 0, (size_t)count * sizeof *z);
    z[0] = 1;
    for (int64_t l = 0; l < count;) {
        int64_t m = l;

        while (m + 1 < count && fabs(e[m]) > DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1])))
            m++;
        if (m == l) {
            l++;
            continue;
        }
        if (++sweeps > 60 * count)
            return false;
        sweep(l, m, d, e, z);
    }
    return true;
}

/* z^T log(A) z of a probe; NaN where rounding made T indefinite. */
static double quadrature(const struct logdet *w, int64_t probe)
{
    const struct coefficients *c = &w->c;
    const double *rz = c->rz + probe * c->steps, *curvature = c->curvature + probe * c->steps;
    int64_t count = c->count[probe];
    double sum = 0, before = 0;

    for (int64_t j = 0; j < count; j++) {
        double inverse = curvature[j] / rz[j], t = j + 1 < count ? rz[j + 1] / rz[j] : 0;

        c->diagonal[j] = inverse + before;
        c->beside[j] = sqrt(t) * inverse;
        before = t * inverse;
    }
    if (count > 0 && !nodes_and_weights(count, c->diagonal, c->beside, c->first))
        return NAN;
    for (int64_t j = 0; j < count; j++)
        if (c->first[j] != 0)
            sum += c->first[j] * c->first[j] * log(c->diagonal[j]);
    return (double)w->n * sum;
}

/* ---- Probes ---------------------------------------------------------------------------------- */

/* The elements depend on the seed, and on which of all probes it is. */
static void fill_probe(const struct logdet *w, int64_t probe, void *to)
{
    uint64_t state = w->options.seed, bits = 0;

    state = gram_random(&state) ^ (uint64_t)probe;
    for (int64_t i = 0; i < w->n; i++, bits >>= 1) {
        if (i % 64 == 0)
            bits = gram_random(&state);
        krr_set_element(w->dtype, to, i, bits & 1 ? 1 : -1);
    }
}

static gram_status verdict(gram_context *g, const struct krr_cg_report *found)
{
    if (found->end == KRR_CG_INDEFINITE || found->end == KRR_CG_NOT_FINITE)
        return gram_krr_cg_verdict(g, found);
    return GRAM_OK;
}

/* The probes of a group, whose vectors are where the context computes. */
static gram_status run_group(gram_context *g, struct logdet *w, int64_t first, int64_t count,
                             const struct krr_array *vectors, gram_logdet_report *report)
{
    struct krr_cg_report found;
    const struct krr_cg cg = {.dtype = w->dtype,
                              .n = w->n,
                              .columns = count,
                              .multiply = w->multiply,
                              .matrix = w->matrix,
                              .ridge = vectors[2].data,
                              .b = vectors[0].data,
                              .x = vectors[1].data,
                              .tolerance = solved / 0.7, /* at 0.7 of it columns leave */
                              .iterations = w->c.steps,
                              .rounds = 1,
                              .seconds = INFINITY,
                              .observe = keep,
                              .observer = &w->c};

    memset(w->c.count, 0, sizeof w->c.count);
    TRY(gram_krr_cg(g, &cg, &found));
    TRY(verdict(g, &found));
    for (int64_t j = 0; j < count; j++) {
        w->value[first + j] = quadrature(w, j);
        if (isnan(w->value[first + j]))
            return gram_fail(g, GRAM_NUMERICAL,
                             "a is not positive definite to working precision: the Lanczos matrix "
                             "of probe %lld has an eigenvalue that is not positive",
                             (long long)(first + j));
    }
    report->steps = found.iterations > report->steps ? found.iterations : report->steps;
    report->products += found.products;
    report->residual = fmax(report->residual, found.residual);
    return GRAM_OK;
}

static gram_status all_groups(gram_context *g, struct logdet *w, void *host,
                              struct krr_array *vectors, gram_logdet_report *report)
{
    size_t column = (size_t)w->n * gram_dtype_size(w->dtype), part = GROUP * column;

    TRY(gram_krr_allocate(g, part, &vectors[0]));
    TRY(gram_krr_allocate(g, part, &vectors[1]));
    TRY(gram_krr_no_ridge(g, w->n, &vectors[2]));
    for (int64_t first = 0; first < w->options.probes; first += GROUP) {
        int64_t count = gram_least(GROUP, w->options.probes - first);

        for (int64_t j = 0; j < count; j++)
            fill_probe(w, first + j, (char *)host + (size_t)j * column);
        TRY(gram_krr_store(g, vectors[0].data, host, (size_t)count * column));
        TRY(run_group(g, w, first, count, vectors, report));
    }
    return GRAM_OK;
}

static void sum_up(const struct logdet *w, gram_logdet_report *report)
{
    int64_t probes = w->options.probes;
    double mean = 0, squares = 0;

    for (int64_t j = 0; j < probes; j++)
        mean += w->value[j] / (double)probes;
    for (int64_t j = 0; j < probes; j++)
        squares += (w->value[j] - mean) * (w->value[j] - mean);
    report->value = mean;
    report->standard_error =
        probes > 1 ? sqrt(squares / (double)(probes - 1) / (double)probes) : INFINITY;
}

/* Memory of the host: probes, coefficients, values. */
static gram_status estimate(gram_context *g, struct logdet *w, gram_logdet_report *told)
{
    gram_logdet_report report = {.size = told->size};
    int64_t steps = w->c.steps, numbers = (2 * GROUP + 3) * steps + w->options.probes;
    size_t probes = gram_round64(GROUP * (size_t)w->n * gram_dtype_size(w->dtype));
    size_t bytes = probes + (size_t)numbers * sizeof(double);
    struct krr_array vectors[3] = {0};
    char *host = gram_alloc(g, bytes);
    gram_status status;

    if (!host)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    w->c.rz = (double *)(void *)(host + probes);
    w->c.curvature = w->c.rz + GROUP * steps;
    w->c.diagonal = w->c.curvature + GROUP * steps;
    w->c.beside = w->c.diagonal + steps;
    w->c.first = w->c.beside + steps;
    w->value = w->c.first + steps;
    status = all_groups(g, w, host, vectors, &report);
    if (status == GRAM_OK) {
        sum_up(w, &report);
        memcpy(told, &report, told->size < sizeof report ? told->size : sizeof report);
    }
    for (int i = 0; i < 3; i++)
        gram_krr_free(g, &vectors[i]);
    gram_free(g, host, bytes);
    return status;
}

/* ---- The calls ------------------------------------------------------------------------------- */

static gram_status check(gram_context *g, const gram_logdet_options *given,
                         const gram_logdet_report *report, struct logdet *w)
{
    gram_logdet_options *o = &w->options;

    *o = (gram_logdet_options)GRAM_LOGDET_OPTIONS_INIT;
    TRY(gram_options_copy(g, o, sizeof *o, given));
    if (o->probes < 0 || o->probes > INT32_MAX)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.probes is %lld, expected 0 to 2^31 - 1",
                         (long long)o->probes);
    if (o->steps < 0 || o->steps > INT32_MAX)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.steps is %lld, expected 0 to 2^31 - 1",
                         (long long)o->steps);
    if (!report || report->size < sizeof report->size)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         report ? "report has size %zu, expected sizeof(gram_logdet_report)"
                                : "report is NULL",
                         report ? report->size : 0);
    if (w->n > INT64_MAX / 1024)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "vectors of %lld elements are more than any memory has", (long long)w->n);
    o->probes = o->probes > 0 ? o->probes : PROBES;
    w->c.steps = o->steps > 0 ? o->steps : STEPS;
    return g->backend->krr->may_wait ? g->backend->krr->may_wait(g) : GRAM_OK;
}

gram_status gram_logdet_operator(gram_context *g, const gram_operator *a,
                                 const gram_logdet_options *options, gram_logdet_report *report)
{
    struct logdet w = {.multiply = gram_krr_operator_multiply};
    struct krr_operator o;
    gram_status status;

    TRY(gram_begin(g, __func__));
    TRY(gram_krr_operator_check(g, "a", a));
    w.dtype = a->dtype, w.n = a->n, w.matrix = &o;
    TRY(check(g, options, report, &w));
    TRY(gram_krr_operator_open(g, "a", a, &o));
    status = estimate(g, &w, report);
    gram_krr_free(g, &o.memory);
    return gram_call_ended(g, status);
}

static gram_status check_points(gram_context *g, const gram_tensor *x,
                                const gram_kernel_options *given)
{
    gram_kernel_options kernel = GRAM_KERNEL_OPTIONS_INIT;
    struct gram_batch batch = {.count = 1};

    if (!given)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "kernel is NULL");
    TRY(gram_batch_join(g, &batch, "x", x, 2));
    if (batch.ndim > 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "x has %d dimensions, expected 2", (int)x->ndim);
    TRY(gram_options_copy(g, &kernel, sizeof kernel, given));
    return gram_krr_check_symmetric(g, &kernel);
}

gram_status gram_kernel_logdet(gram_context *g, const gram_tensor *x,
                               const gram_kernel_options *kernel,
                               const gram_logdet_options *options, gram_logdet_report *report)
{
    struct krr_kernel k = {.x = x, .kernel = kernel, .call = __func__};
    struct logdet w = {.multiply = gram_krr_kernel_multiply, .matrix = &k};
    struct krr_array narrow;
    gram_status status;

    TRY(gram_begin(g, __func__));
    TRY(check_points(g, x, kernel));
    w.dtype = x->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32, w.n = x->shape[0];
    TRY(check(g, options, report, &w));
    TRY(gram_krr_allocate(g, (size_t)(w.n * GROUP) * sizeof(float), &narrow));
    k.narrow = narrow.data;
    status = estimate(g, &w, report);
    gram_krr_free(g, &narrow);
    return gram_call_ended(g, status);
}
