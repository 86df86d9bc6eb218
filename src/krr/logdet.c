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
 * With a preconditioner P = S S^T and z = S e, where e has more elements than z that are -1 or 1,
 * and with rz_j = r_j^T P^-1 r_j, T is that of M = P^-1/2 A P^-1/2 and P^-1/2 z, whose covariance
 * is the identity:
 *
 *     log det A = log det P + E z^T P^-1/2 log(M) P^-1/2 z.
 *
 * Where P is close to A, log(M) is small, and so is the variance.  Signs for e, not normal numbers,
 * keep most of what lies on the diagonal of log(M) out of it: on kernel matrices of 1000 points 15
 * to 30 % less than probes that are uniform on the sphere, and within 15 % of signs times P^1/2.
 * Since |P^-1/2 z|^2 = m is not n exactly, m q + (n - m) c stands for m q, where q is the mean of
 * log(M) that the quadrature of a probe gives, and c the mean of q over the other probes, which is
 * independent of m.  After J. Wenger et al., Preconditioning for scalable Gaussian process
 * hyperparameter optimization, ICML 2022, and J. Gardner et al., GPyTorch, NeurIPS 2018.
 *
 * SPDX-License-Identifier: MIT
 */
#include "logdet.h"
#include "core/backend.h"
#include "core/random.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    GROUP = LOGDET_GROUP,
    PROBES = 32,
    STEPS = 100
};

/* Where a probe ends.  What is left of its quadrature is of the order of the square of this. */
static const double solved = 1e-6;

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
    double *value, *norm;     /* one per probe: q and m */
    struct logdet_base *base; /* its rank is 0 where there is none */
    struct gram_view side[2]; /* left and right */
    struct krr_array kept[2]; /* these, n by probes, column-major, where they are wanted */
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

/* z^T log(A) z / |z|^2 of a probe; NaN where rounding made T indefinite. */
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
    return sum;
}

/* ---- Probes ---------------------------------------------------------------------------------- */

/* A probe's signs depend on the seed, and on which of all probes it is: n of them, and behind these
 * as many as the preconditioner has columns. */
static void fill_probe(const struct logdet *w, int64_t probe, void *to, double *more)
{
    uint64_t state = w->options.seed, bits = 0;

    state = gram_random(&state) ^ (uint64_t)probe;
    for (int64_t i = 0; i < w->n + w->base->p.rank; i++, bits >>= 1) {
        const double sign = (i % 64 == 0 ? bits = gram_random(&state) : bits) & 1 ? 1 : -1;

        if (i < w->n)
            krr_set_element(w->dtype, to, i, sign);
        else
            more[i - w->n] = sign;
    }
}

/* The vectors of some probes, where the context computes. */
static gram_status fill_group(gram_context *g, struct logdet *w, int64_t first, int64_t count,
                              const struct krr_array *vectors)
{
    const size_t column = (size_t)w->n * gram_dtype_size(w->dtype);
    const int64_t rank = w->base->p.rank;

    for (int64_t j = 0; j < count; j++)
        fill_probe(w, first + j, (char *)vectors[3].data + (size_t)j * column,
                   w->base->signs + j * rank);
    TRY(gram_krr_store(g, vectors[0].data, vectors[3].data, (size_t)count * column));
    return rank > 0 ? gram_logdet_base_colour(g, w->base, count, vectors[0].data) : GRAM_OK;
}

/* P^-1 z and A^-1 z of a group, where they are wanted. */
static gram_status keep_sides(gram_context *g, struct logdet *w, int64_t first, int64_t count,
                              const struct krr_array *vectors)
{
    const size_t column = (size_t)w->n * gram_dtype_size(w->dtype);
    const size_t bytes = (size_t)count * column;

    for (int i = 0; i < 2; i++) {
        char *to = (char *)w->kept[i].data + (size_t)first * column;

        if (!w->kept[i].data)
            continue;
        if (i == 0 && w->base->p.rank > 0)
            TRY(gram_logdet_base_apply(g, w->base, count, vectors[0].data, to));
        else
            TRY(gram_krr_copy(g, to, vectors[i].data, bytes));
    }
    return GRAM_OK;
}

static gram_status verdict(gram_context *g, const struct logdet *w,
                           const struct krr_cg_report *found)
{
    if (w->base->p.rank > 0 && found->end == KRR_CG_NOT_FINITE)
        return gram_fail(g, GRAM_NUMERICAL, "NaN or infinity in the matrix or in a product");
    if (found->end == KRR_CG_INDEFINITE || found->end == KRR_CG_NOT_FINITE)
        return gram_krr_cg_verdict(g, found);
    return GRAM_OK;
}

/* q and m of the probes of a group; *broken where rounding made the preconditioner, or T with it,
 * indefinite. */
static gram_status take_group(gram_context *g, struct logdet *w, int64_t first, int64_t count,
                              bool *broken)
{
    for (int64_t j = 0; j < count; j++) {
        double q = quadrature(w, j);

        if (isnan(q) && w->base->p.rank > 0)
            *broken = true;
        else if (isnan(q))
            return gram_fail(g, GRAM_NUMERICAL,
                             "a is not positive definite to working precision: the Lanczos matrix "
                             "of probe %lld has an eigenvalue that is not positive",
                             (long long)(first + j));
        w->value[first + j] = q;
        w->norm[first + j] = w->c.count[j] > 0 ? w->c.rz[j * w->c.steps] : 0;
    }
    return GRAM_OK;
}

static gram_status run_group(gram_context *g, struct logdet *w, int64_t first, int64_t count,
                             const struct krr_array *vectors, struct krr_cg_report *found)
{
    const double tolerance = w->options.tolerance > 0 ? w->options.tolerance : solved;
    const struct krr_cg cg = {.dtype = w->dtype,
                              .n = w->n,
                              .columns = count,
                              .multiply = w->multiply,
                              .matrix = w->matrix,
                              .precondition = w->base->p.rank > 0 ? gram_logdet_base_apply : NULL,
                              .preconditioner = w->base,
                              .ridge = vectors[2].data,
                              .b = vectors[0].data,
                              .x = vectors[1].data,
                              .tolerance = tolerance / 0.7, /* at 0.7 of it columns leave */
                              .iterations = w->c.steps,
                              .rounds = 1,
                              .seconds = INFINITY,
                              .observe = keep,
                              .observer = &w->c};

    memset(w->c.count, 0, sizeof w->c.count);
    TRY(fill_group(g, w, first, count, vectors));
    TRY(gram_krr_cg(g, &cg, found));
    TRY(verdict(g, w, found));
    return keep_sides(g, w, first, count, vectors);
}

static gram_status all_groups(gram_context *g, struct logdet *w, const struct krr_array *vectors,
                              gram_logdet_report *report, bool *broken)
{
    for (int64_t first = 0; first < w->options.probes && !*broken; first += GROUP) {
        const int64_t count = gram_least(GROUP, w->options.probes - first);
        struct krr_cg_report found;

        TRY(run_group(g, w, first, count, vectors, &found));
        *broken = found.end == KRR_CG_PRECONDITIONER;
        if (!*broken)
            TRY(take_group(g, w, first, count, broken));
        report->steps = found.iterations > report->steps ? found.iterations : report->steps;
        report->products += found.products;
        report->residual = fmax(report->residual, found.residual);
    }
    return GRAM_OK;
}

/* m q + (n - m) c of a probe, see above; without a preconditioner m is n. */
static double value_of(const struct logdet *w, int64_t probe, double sum)
{
    const double q = w->value[probe], m = w->norm[probe], n = (double)w->n;

    if (w->base->p.rank == 0 || w->options.probes == 1)
        return m * q;
    return m * q + (n - m) * (sum - q) / (double)(w->options.probes - 1);
}

/* By how much Student's distribution is wider than the normal one at two standard deviations (R.
 * Fisher and E. Cornish, The percentile points of distributions having known cumulants,
 * Technometrics 2, 1960). */
static double student(int64_t probes)
{
    const double v = 1 / (double)(probes - 1);

    return 1 + v * (1.25 + v * (1.53 + v * 1.43));
}

static void sum_up(const struct logdet *w, gram_logdet_report *report)
{
    /* Of the products, where the probes differ by less. */
    const double rounding = w->base->p.rank == 0   ? 0
                            : w->dtype == GRAM_F32 ? 2 * FLT_EPSILON * (double)w->n
                                                   : 2 * DBL_EPSILON * (double)w->n;
    int64_t probes = w->options.probes;
    double mean = 0, squares = 0, sum = 0;

    for (int64_t j = 0; j < probes; j++)
        sum += w->value[j];
    for (int64_t j = 0; j < probes; j++)
        mean += value_of(w, j, sum) / (double)probes;
    for (int64_t j = 0; j < probes; j++)
        squares += (value_of(w, j, sum) - mean) * (value_of(w, j, sum) - mean);
    report->value = mean + w->base->logdet;
    report->standard_error = INFINITY;
    if (probes > 1) {
        squares /= (double)(probes - 1) * (double)probes;
        report->standard_error = hypot(student(probes) * sqrt(squares), rounding);
    }
    report->rank = w->base->p.rank;
    report->of_preconditioner = w->base->logdet;
}

/* Runs all probes; again without the preconditioner, if rounding made that indefinite. */
static gram_status run(gram_context *g, struct logdet *w, struct krr_array *vectors,
                       gram_logdet_report *report)
{
    const size_t part = GROUP * (size_t)w->n * gram_dtype_size(w->dtype);
    bool broken = false;

    TRY(gram_krr_allocate(g, part, &vectors[0]));
    TRY(gram_krr_allocate(g, part, &vectors[1]));
    TRY(gram_krr_no_ridge(g, w->n, &vectors[2]));
    for (int i = 0; i < 2; i++)
        if (w->side[i].data)
            TRY(gram_krr_allocate(g, part / GROUP * (size_t)w->options.probes, &w->kept[i]));
    TRY(all_groups(g, w, vectors, report, &broken));
    if (broken) {
        broken = false;
        gram_logdet_base_destroy(g, w->base);
        TRY(all_groups(g, w, vectors, report, &broken));
    }
    for (int i = 0; i < 2; i++)
        if (w->side[i].data)
            TRY(gram_krr_unpack(g, &w->side[i], w->kept[i].data));
    if (w->side[0].data || w->side[1].data)
        TRY(g->backend->synchronize ? g->backend->synchronize(g) : GRAM_OK);
    sum_up(w, report);
    return GRAM_OK;
}

/* Memory of the host: probes, coefficients, values. */
static gram_status estimate(gram_context *g, struct logdet *w, gram_logdet_report *told)
{
    gram_logdet_report report = {.size = told->size};
    int64_t steps = w->c.steps, numbers = (2 * GROUP + 3) * steps + 2 * w->options.probes;
    size_t probes = gram_round64(GROUP * (size_t)w->n * gram_dtype_size(w->dtype));
    size_t bytes = probes + (size_t)numbers * sizeof(double);
    struct krr_array vectors[4] = {0}; /* z, A^-1 z, no ridge; z on the host */
    char *host = gram_alloc(g, bytes);
    gram_status status;

    if (!host)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    vectors[3].data = host;
    w->c.rz = (double *)(void *)(host + probes);
    w->c.curvature = w->c.rz + GROUP * steps;
    w->c.diagonal = w->c.curvature + GROUP * steps;
    w->c.beside = w->c.diagonal + steps;
    w->c.first = w->c.beside + steps;
    w->value = w->c.first + steps;
    w->norm = w->value + w->options.probes;
    status = run(g, w, vectors, &report);
    if (status == GRAM_OK)
        memcpy(told, &report, told->size < sizeof report ? told->size : sizeof report);
    for (int i = 0; i < 3; i++)
        gram_krr_free(g, &vectors[i]);
    for (int i = 0; i < 2; i++)
        gram_krr_free(g, &w->kept[i]);
    gram_free(g, host, bytes);
    return status;
}

/* ---- The calls ------------------------------------------------------------------------------- */

/* left or right: n by probes. */
static gram_status check_side(gram_context *g, const char *name, const gram_tensor *t,
                              const struct logdet *w, struct gram_view *out)
{
    TRY(gram_krr_view(g, name, t, GRAM_WRITE, out));
    TRY(gram_check_dtype(g, name, t, w->dtype));
    if (t->ndim == 2 && out->rows == w->n && out->cols == w->options.probes)
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected %lld by %lld", name,
                     (long long)out->rows, (long long)out->cols, (long long)w->n,
                     (long long)w->options.probes);
}

static gram_status check_sides(gram_context *g, struct logdet *w)
{
    const gram_logdet_options *o = &w->options;

    if (o->left)
        TRY(check_side(g, "options.left", o->left, w, &w->side[0]));
    if (o->right)
        TRY(check_side(g, "options.right", o->right, w, &w->side[1]));
    return o->left && o->right
               ? gram_check_apart(g, "options.left", o->left, "options.right", o->right)
               : GRAM_OK;
}

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
    if (!(o->tolerance >= 0 && o->tolerance <= 1))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.tolerance is %g, expected 0 to 1",
                         o->tolerance);
    if (!report || report->size < sizeof report->size)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         report ? "report has size %zu, expected sizeof(gram_logdet_report)"
                                : "report is NULL",
                         report ? report->size : 0);
    o->probes = o->probes > 0 ? o->probes : PROBES;
    w->c.steps = o->steps > 0 ? o->steps : STEPS;
    if (w->n > INT64_MAX / 1024 || w->n > INT64_MAX / 64 / o->probes)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "vectors of %lld elements are more than any memory has", (long long)w->n);
    TRY(check_sides(g, w));
    return g->backend->krr->may_wait ? g->backend->krr->may_wait(g) : GRAM_OK;
}

gram_status gram_logdet_operator(gram_context *g, const gram_operator *a,
                                 const gram_logdet_options *options, gram_logdet_report *report)
{
    struct logdet_base none = {0};
    struct logdet w = {.multiply = gram_krr_operator_multiply, .base = &none};
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
    struct logdet_base base;
    struct logdet w = {.multiply = gram_krr_kernel_multiply, .matrix = &k, .base = &base};
    struct krr_array narrow = {0};
    gram_status status;

    TRY(gram_begin(g, __func__));
    TRY(check_points(g, x, kernel));
    w.dtype = x->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32, w.n = x->shape[0];
    TRY(check(g, options, report, &w));
    for (int i = 0; i < 2; i++) {
        const gram_tensor *side = i == 0 ? w.options.left : w.options.right;

        if (side)
            TRY(gram_check_apart(g, i == 0 ? "options.left" : "options.right", side, "x", x));
    }
    TRY(gram_logdet_base_create(g, &k, &w.options, &base));
    status = gram_krr_allocate(g, (size_t)(w.n * GROUP) * sizeof(float), &narrow);
    k.narrow = narrow.data;
    if (status == GRAM_OK)
        status = estimate(g, &w, report);
    gram_krr_free(g, &narrow);
    gram_logdet_base_destroy(g, &base);
    return gram_call_ended(g, status);
}
