/*
 * krr_prior.c - draws of a Gaussian process that has seen nothing, at given points
 *
 * JOINT: f = L u, where L is the Cholesky factor of the kernel matrix of all points and u normal.
 *
 * FEATURES: random Fourier features.  A stationary kernel with k(x, x) = 1 is the mean of
 * cos(w^T (x - y)) over frequencies w from its spectral measure (Bochner), so that
 *
 *   f(x) = F^-1/2 sum_i rho_i cos(w_i^T x + phi_i),
 *
 * with phi uniform and rho of the Rayleigh distribution has the mean 0 and the covariance k.  That
 * is a_i cos + b_i sin with normal a and b, at half of the cosines: at a single point f is normal
 * with variance 1, whatever the frequencies.  Every draw has frequencies of its own, so that the
 * covariance of draws is k, not one that was estimated.  f is a product with the kernel cos(dot),
 * which is never stored.
 *
 * Frequencies of exp(-a u^c), u = sum_k |x_k - y_k|^p, 0 < p <= 2, 0 < c <= 1: with S positive and
 * stable, E exp(-t S) = exp(-t^c), and normal N_k,
 *
 *   w_k = (a^(1/c) S)^(1/p) sqrt(2 S_k) N_k,   E exp(-t S_k) = exp(-t^(p/2)),
 *
 * S is 1 for c = 1 and S_k for p = 2.  That serves the Laplace, Gaussian and exponential power
 * kernels; a rational quadratic kernel is the mean of such ones over a gamma distribution of a, and
 * the spectrum of a Matern kernel is a multivariate t distribution.
 *
 * Features: A. Rahimi and B. Recht, Random features for large-scale kernel machines, NIPS 2007.
 * Stable variables: M. Kanter, Stable densities under change of scale and total variation
 * inequalities, Ann. Probab. 3 (1975).  Gamma variables: G. Marsaglia and W. Tsang, A simple method
 * for generating gamma variables, ACM Trans. Math. Softw. 26 (2000).
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_prior.h"
#include "core/backend.h"
#include "core/random.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    STANDARD_FEATURES = 2048,
    FLOORS = 6 /* that are tried, each 10 times the one before */
};

static const double pi = 3.14159265358979323846;
/* Beyond it a coordinate of 1 has no digit of its phase left. */
static const double most_frequency = 1e15;

/* ---- Random numbers -------------------------------------------------------------------------- */

/* The generator of a draw: of its function, or of its noise. */
static uint64_t stream(uint64_t seed, int64_t number, int which)
{
    uint64_t state = seed + (2 * (uint64_t)number + (uint64_t)which) * 0x9e3779b97f4a7c15u;

    return gram_random(&state);
}

static double normal(uint64_t *random)
{
    const double u = 1 - gram_random_unit(random), v = gram_random_unit(random);

    return sqrt(-2 * log(u)) * cos(2 * pi * v);
}

/* S > 0 with E exp(-t S) = exp(-t^a), 0 < a <= 1. */
static double positive_stable(uint64_t *random, double a)
{
    double u, e;

    if (a == 1)
        return 1;
    u = pi * (1 - gram_random_unit(random)) * (1 - 0x1p-53);
    e = -log(1 - gram_random_unit(random));
    return sin(a * u) / pow(sin(u), 1 / a) * pow(sin((1 - a) * u) / e, (1 - a) / a);
}

/* Of shape and rate 1. */
static double gamma_variable(uint64_t *random, double shape)
{
    const double more = shape < 1 ? shape + 1 : shape, d = more - 1.0 / 3, c = 1 / sqrt(9 * d);
    double x, v, u;

    do {
        x = normal(random);
        v = 1 + c * x;
        v = v * v * v;
        u = 1 - gram_random_unit(random);
    } while (!(v > 0 && log(u) < x * x / 2 + d - d * v + d * log(v)));
    return d * v * (shape < 1 ? pow(1 - gram_random_unit(random), 1 / shape) : 1);
}

void gram_krr_prior_noise(uint64_t seed, int64_t number, int64_t n, double *to)
{
    uint64_t random = stream(seed, number, 1);

    for (int64_t i = 0; i < n; i++)
        to[i] = normal(&random);
}

/* ---- The spectrum of a kernel ---------------------------------------------------------------- */

/* u^c, where s is u^outer. */
static bool exponential(struct krr_spectrum *s, double factor, double power)
{
    *s = (struct krr_spectrum){.kind = KRR_STABLE, .p = s->p, .power = power, .factor = factor};
    return s->p > 0 && s->p <= 2 && power > 0 && power <= 1 && factor > 0 && factor < INFINITY;
}

static bool matern(struct krr_spectrum *s, double outer, double length, double freedoms)
{
    const bool good = s->p == 2 && outer == 0.5 && length > 0;

    *s = (struct krr_spectrum){
        .kind = KRR_STUDENT, .p = 2, .power = 1, .factor = 1 / length, .shape = freedoms};
    return good;
}

/* Whether a kernel has a spectrum that can be drawn from. */
static gram_status find_spectrum(gram_context *g, const gram_kernel_options *k,
                                 struct krr_spectrum *s, bool *found)
{
    double outer, length, number = 1;

    *found = k->inner == GRAM_DIFFERENCE && !k->metric;
    if (!*found)
        return GRAM_OK;
    TRY(gram_krr_scalar(g, &k->p, &s->p));
    TRY(gram_krr_scalar(g, &k->outer_power, &outer));
    TRY(gram_krr_scalar(g, &k->bandwidth, &length));
    if (k->root)
        outer = 1 / s->p;
    switch (k->function) {
    case GRAM_LAPLACE:
        *found = exponential(s, 1 / length, outer);
        break;
    case GRAM_GAUSSIAN:
        *found = exponential(s, 1 / (2 * length * length), outer);
        break;
    case GRAM_EXPONENTIAL_POWER:
        TRY(gram_krr_scalar(g, &k->exponent, &number));
        *found = exponential(s, pow(length, -number), outer * number);
        break;
    case GRAM_RATIONAL_QUADRATIC:
        TRY(gram_krr_scalar(g, &k->alpha, &number));
        *found = exponential(s, 1 / (2 * length * length), outer) && number > 0;
        s->kind = KRR_GAMMA;
        s->shape = number;
        break;
    case GRAM_MATERN32:
    case GRAM_MATERN52:
        *found = matern(s, outer, length, k->function == GRAM_MATERN32 ? 3 : 5);
        break;
    default:
        *found = false;
    }
    return GRAM_OK;
}

/* One frequency, of `width` coordinates. */
static void draw_frequency(const struct krr_spectrum *s, uint64_t *random, int64_t width, double *w)
{
    double scale = s->factor, sum = 0;

    if (s->kind == KRR_STUDENT) {
        for (int i = 0; i < (int)s->shape; i++) {
            const double x = normal(random);
            sum += x * x;
        }
        scale *= sqrt(s->shape / sum) / sqrt(2.0); /* of sqrt(2) N */
    } else {
        if (s->kind == KRR_GAMMA)
            scale *= gamma_variable(random, s->shape) / s->shape;
        scale = pow(pow(scale, 1 / s->power) * positive_stable(random, s->power), 1 / s->p);
    }
    for (int64_t k = 0; k < width; k++) {
        const double own = sqrt(2 * positive_stable(random, s->p / 2)) * normal(random);

        w[k] = fmax(-most_frequency, fmin(most_frequency, scale * own));
        if (isnan(w[k])) /* 0 times infinity */
            w[k] = 0;
    }
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* The lengths of the kernel on the host, or 1. */
static gram_status read_lengths(gram_context *g, const struct krr_problem *p, double *to)
{
    const gram_tensor *lengths = p->wide_kernel.lengths;
    struct krr_array packed = {0};
    struct gram_view v;
    gram_status status;

    for (int64_t k = 0; k < p->width; k++)
        to[k] = 1;
    if (!lengths || p->width == 0)
        return GRAM_OK;
    TRY(gram_krr_view(g, "kernel.lengths", lengths, GRAM_READ, &v));
    TRY(gram_krr_widen_view(g, "kernel.lengths", &v, &packed));
    status = gram_krr_fetch(g, to, packed.data, (size_t)p->width * sizeof *to);
    gram_krr_free(g, &packed);
    return status;
}

/* Rows of `from`, width numbers each, to rows of one number more: (x - centre) / length, 1. */
static void spread(const double *from, int64_t rows, int64_t width, const double *centre,
                   const double *length, double *to)
{
    for (int64_t i = 0; i < rows; i++, to += width + 1) {
        for (int64_t k = 0; k < width; k++)
            to[k] = (from[i * width + k] - centre[k]) / length[k];
        to[width] = 1;
    }
}

/* Points for features.  They are counted from the first row of x, so that a draw is the same
 * function whatever z is. */
static gram_status load_features(gram_context *g, const struct krr_problem *p,
                                 const struct krr_array *z, int64_t m, struct krr_prior *w)
{
    const int64_t width = p->width, n = p->n, most = n > m ? n : m;
    const size_t count = (size_t)(w->count * (width + 1)), rows = (size_t)(most * width);
    const size_t bytes = (count + rows + 2 * (size_t)width) * sizeof(double);
    double *points = gram_alloc(g, bytes), *row = points + count;
    double *centre = row + rows, *length = centre + width;
    gram_status status;

    if (!points)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memset(points, 0, bytes);
    status = read_lengths(g, p, length);
    if (status == GRAM_OK && n > 0)
        status = gram_krr_fetch(g, row, p->wide_x.data, (size_t)(n * width) * sizeof *row);
    if (status == GRAM_OK && n > 0) {
        memcpy(centre, row, (size_t)width * sizeof *row);
        spread(row, n, width, centre, length, points);
    }
    if (status == GRAM_OK && m > 0)
        status = gram_krr_fetch(g, row, z->data, (size_t)(m * width) * sizeof *row);
    if (status == GRAM_OK)
        spread(row, m, width, centre, length, points + n * (width + 1));
    if (status == GRAM_OK)
        status = gram_krr_store(g, w->points.data, points, count * sizeof *points);
    gram_free(g, points, bytes);
    return status;
}

/* ---- JOINT ----------------------------------------------------------------------------------- */

/* The factor of K + floor I; minor is not 0 where it is not positive definite. */
static gram_status try_floor(gram_context *g, const struct krr_problem *p, struct krr_prior *w)
{
    const int64_t count = w->count;
    const gram_tensor x = gram_krr_matrix(g, w->points.data, count, p->width, GRAM_F64);
    gram_tensor k = gram_krr_matrix(g, w->factor.data, count, count, GRAM_F64);
    gram_tensor b = gram_krr_by_columns(g, w->vector.data, count, 1, GRAM_F64);
    gram_tensor info = {.dtype = GRAM_I32, .device = k.device};
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    struct krr_array code = {0};
    gram_status status;

    options.factor = &k;
    TRY(gram_krr_allocate(g, sizeof w->minor, &code));
    info.data = code.data;
    for (int64_t i = 0; i < count; i++)
        w->host[i] = 0;
    status = gram_krr_store(g, w->vector.data, w->host, (size_t)count * sizeof *w->host);
    if (status == GRAM_OK)
        status = gram_kernel(g, &x, NULL, &p->wide_kernel, &k);
    for (int64_t i = 0; i < count; i++)
        w->host[i] = w->floor;
    if (status == GRAM_OK)
        status = gram_krr_add_diagonal(g, &k, w->host);
    if (status == GRAM_OK)
        status = gram_solve_cholesky(g, &k, &b, &options, &b, &info);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, &w->minor, code.data, sizeof w->minor);
    gram_krr_free(g, &code);
    g->call = p->call;
    return status;
}

/* L without what is above its diagonal. */
static gram_status factorise(gram_context *g, const struct krr_problem *p, struct krr_prior *w)
{
    double *factor = w->factor.data;

    w->floor = (double)w->count * DBL_EPSILON * p->most_diagonal;
    for (int attempt = 0; attempt < FLOORS; attempt++, w->floor *= 10) {
        TRY(try_floor(g, p, w));
        if (w->minor == 0)
            break;
    }
    memset(w->host, 0, (size_t)w->count * sizeof *w->host);
    for (int64_t i = 0; i + 1 < w->count; i++)
        TRY(gram_krr_store(g, factor + i * w->count + i + 1, w->host,
                           (size_t)(w->count - i - 1) * sizeof *factor));
    return GRAM_OK;
}

static gram_status draw_joint(gram_context *g, struct krr_prior *w, int64_t first, int64_t columns,
                              double *to)
{
    const size_t bytes = (size_t)(w->count * columns) * sizeof(double);
    const gram_tensor l = gram_krr_matrix(g, w->factor.data, w->count, w->count, GRAM_F64);
    const gram_tensor u = gram_krr_by_columns(g, w->vector.data, w->count, columns, GRAM_F64);
    gram_tensor out = gram_krr_by_columns(g, w->out.data, w->count, columns, GRAM_F64);

    for (int64_t j = 0; j < columns; j++) {
        uint64_t random = stream(w->seed, first + j, 0);

        for (int64_t i = j * w->count; i < (j + 1) * w->count; i++)
            w->host[i] = normal(&random);
    }
    TRY(gram_krr_store(g, w->vector.data, w->host, bytes));
    TRY(gram_matmul_batched(g, &l, &u, NULL, &out));
    return gram_krr_fetch(g, to, w->out.data, bytes);
}

/* ---- FEATURES -------------------------------------------------------------------------------- */

static gram_status draw_features(gram_context *g, struct krr_prior *w, int64_t number, double *to)
{
    const int64_t width = w->width + 1, features = w->features;
    const size_t side = (size_t)(features * width);
    const gram_tensor x = gram_krr_matrix(g, w->points.data, w->count, width, GRAM_F64);
    const gram_tensor y = gram_krr_matrix(g, w->side.data, features, width, GRAM_F64);
    const gram_tensor v = gram_krr_by_columns(g, w->vector.data, features, 1, GRAM_F64);
    gram_tensor out = gram_krr_by_columns(g, w->out.data, w->count, 1, GRAM_F64);
    gram_kernel_options kernel = GRAM_KERNEL_OPTIONS_INIT;
    uint64_t random = stream(w->seed, number, 0);
    double *amplitude = w->host + side;

    kernel.inner = GRAM_DOT;
    kernel.function = GRAM_EXPRESSION;
    kernel.expression = "cos(s)";
    for (int64_t i = 0; i < features; i++) {
        draw_frequency(&w->spectrum, &random, w->width, w->host + i * width);
        w->host[i * width + w->width] = 2 * pi * gram_random_unit(&random);
        amplitude[i] = sqrt(-2 * log(1 - gram_random_unit(&random)) / (double)features);
    }
    TRY(gram_krr_store(g, w->side.data, w->host, side * sizeof *w->host));
    TRY(gram_krr_store(g, w->vector.data, amplitude, (size_t)features * sizeof *amplitude));
    TRY(gram_kernel_matmul(g, &x, &y, &kernel, &v, NULL, &out));
    return gram_krr_fetch(g, to, w->out.data, (size_t)w->count * sizeof *to);
}

/* ---- All draws ------------------------------------------------------------------------------- */

static gram_status choose(gram_context *g, const struct krr_problem *p,
                          const gram_krr_samples_options *o, struct krr_prior *w)
{
    const int64_t most = gram_krr_dense_rows(g);
    bool found;

    TRY(find_spectrum(g, &p->kernel, &w->spectrum, &found));
    w->kind = o->prior;
    if (w->kind == GRAM_KRR_PRIOR_AUTO)
        w->kind = w->count <= most ? GRAM_KRR_PRIOR_JOINT : GRAM_KRR_PRIOR_FEATURES;
    w->features = o->features > 0 ? o->features : STANDARD_FEATURES;
    if (w->kind == GRAM_KRR_PRIOR_JOINT)
        w->features = 0;
    if (found || w->kind == GRAM_KRR_PRIOR_JOINT)
        return GRAM_OK;
    return gram_fail(g, GRAM_UNSUPPORTED,
                     "the kernel has no random Fourier features, which only Laplace, Gaussian, "
                     "exponential power, Matern and rational quadratic kernels of p <= 2 have; "
                     "GRAM_KRR_PRIOR_JOINT, which AUTO takes up to %lld points, stores a matrix of "
                     "%lld by %lld",
                     (long long)most, (long long)w->count, (long long)w->count);
}

gram_status gram_krr_prior_create(gram_context *g, struct krr_problem *p, const struct krr_array *z,
                                  const gram_krr_samples_options *o, int64_t m, int64_t columns,
                                  struct krr_prior *out)
{
    struct krr_prior *w = out;
    const size_t size = sizeof(double), row = (size_t)p->width * size;
    size_t numbers, vector, side;

    *w = (struct krr_prior){.count = p->n + m, .width = p->width, .seed = o->seed};
    TRY(choose(g, p, o, w));
    side = (size_t)(w->features * (w->width + 1));
    vector = (size_t)(w->features > 0 ? w->features : w->count * columns);
    numbers = (size_t)w->count * (w->features > 0 ? 1 : (size_t)columns);
    w->bytes = (side + vector + 1) * size;
    w->host = gram_alloc(g, w->bytes);
    if (!w->host)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", w->bytes);
    TRY(gram_krr_allocate(g, vector * size, &w->vector));
    TRY(gram_krr_allocate(g, numbers * size, &w->out));
    if (w->kind == GRAM_KRR_PRIOR_FEATURES) {
        TRY(gram_krr_allocate(g, side * size, &w->side));
        TRY(gram_krr_allocate(g, (size_t)w->count * (row + size), &w->points));
        return load_features(g, p, z, m, w);
    }
    TRY(gram_krr_allocate(g, (size_t)w->count * row, &w->points));
    TRY(gram_krr_allocate(g, (size_t)(w->count * w->count) * size, &w->factor));
    if (p->n > 0 && row > 0)
        TRY(gram_krr_copy(g, w->points.data, p->wide_x.data, (size_t)p->n * row));
    if (m > 0 && row > 0)
        TRY(gram_krr_copy(g, (char *)w->points.data + (size_t)p->n * row, z->data,
                          (size_t)m * row));
    return factorise(g, p, w);
}

void gram_krr_prior_destroy(gram_context *g, struct krr_prior *w)
{
    gram_krr_free(g, &w->points);
    gram_krr_free(g, &w->factor);
    gram_krr_free(g, &w->side);
    gram_krr_free(g, &w->vector);
    gram_krr_free(g, &w->out);
    if (w->host)
        gram_free(g, w->host, w->bytes);
}

gram_status gram_krr_prior_draw(gram_context *g, struct krr_prior *w, int64_t first,
                                int64_t columns, double *to)
{
    if (w->kind == GRAM_KRR_PRIOR_JOINT)
        return draw_joint(g, w, first, columns, to);
    for (int64_t j = 0; j < columns; j++)
        TRY(draw_features(g, w, first + j, to + j * w->count));
    return GRAM_OK;
}
