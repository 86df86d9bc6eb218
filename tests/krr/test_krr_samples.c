/*
 * test_krr_samples.c - gram_krr_samples: means and covariances of many draws against the exact ones
 *
 * GRAM_TEST_DEVICE is as in run_cases.c; on a device: what depends on it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "tests/krr/krr_numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 24,
    M = 6,
    ALL = N + M,
    WIDTH = 2,
    DRAWS = 2000
};

/* Short names for a table. */
enum {
    AUTO = 0,
    JOINT = GRAM_KRR_PRIOR_JOINT,
    FEATURES = GRAM_KRR_PRIOR_FEATURES,
    CHOLESKY = GRAM_KRR_CHOLESKY,
    CG = GRAM_KRR_CG,
    INVALID = GRAM_INVALID_ARGUMENT,
    UNSUPPORTED = GRAM_UNSUPPORTED
};

struct call {
    gram_dtype dtype, out_dtype;
    int64_t n, m, draws, width;
    double x[N * WIDTH], z[M * WIDTH], y[N], weights[N], lengths[WIDTH];
    double samples[M * DRAWS];
    bool weighted, long_lengths;
    gram_kernel_options kernel;
    gram_krr_samples_options options;
    gram_krr_samples_report report;
};

/* Points of z are among those of x, and away from them; y and weights differ. */
static struct call *call_open(gram_dtype dtype, int kernel, gram_krr_prior prior)
{
    struct call *c = calloc(1, sizeof *c);
    uint64_t state = 12;

    if (!c)
        harness_end_without_memory("a call");
    *c = (struct call){.dtype = dtype,
                       .out_dtype = dtype,
                       .n = N,
                       .m = M,
                       .draws = 4,
                       .width = WIDTH,
                       .kernel = kernel_of(kernel)};
    fill_numbers(dtype, 5, N, (int64_t[2]){WIDTH, 1}, c->x, c->y, c->weights);
    for (int i = 0; i < M * WIDTH; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        set_number(dtype, c->z, i,
                   i < 2 * WIDTH ? get_number(dtype, c->x, i) + 0.01
                                 : 6 * (double)(state >> 40) * 0x1p-24 - 3);
    }
    set_number(dtype, c->lengths, 0, 0.7);
    set_number(dtype, c->lengths, 1, 1.9);
    c->options = (gram_krr_samples_options)GRAM_KRR_SAMPLES_OPTIONS_INIT;
    c->options.ridge = 0.3;
    c->options.prior = prior;
    c->options.features = 64;
    return c;
}

static gram_status call_run(struct harness *h, struct call *c)
{
    gram_tensor x = gram_matrix(c->x, c->n, c->width, c->dtype);
    gram_tensor z = gram_matrix(c->z, c->m, c->width, c->dtype);
    gram_tensor y = gram_vector(c->y, c->n, c->dtype);
    gram_tensor weights = gram_vector(c->weights, c->n, c->dtype);
    gram_tensor lengths = gram_vector(c->lengths, c->width, c->dtype);
    gram_tensor samples = gram_matrix(c->samples, c->m, c->draws, c->out_dtype);
    gram_tensor *const all[] = {&x, &z, &y, &weights, &lengths, &samples};
    const size_t bytes[] = {sizeof c->x,       sizeof c->z,       sizeof c->y,
                            sizeof c->weights, sizeof c->lengths, sizeof c->samples};
    gram_krr_samples_options options = c->options;
    gram_kernel_options kernel = c->kernel;
    gram_status status;

    c->report = (gram_krr_samples_report){.size = sizeof c->report};
    options.report = &c->report;
    options.weights = c->weighted ? &weights : NULL;
    kernel.lengths = c->long_lengths ? &lengths : NULL;
    for (int i = 0; i < LENGTH(all) && h->device.type != GRAM_CPU; i++)
        upload(h, all[i], bytes[i]);
    status = gram_krr_samples(h->g, &x, &kernel, &y, &z, &options, &samples);
    if (h->device.type == GRAM_CPU)
        return status;
    if (!device_download(c->samples, samples.data, sizeof c->samples))
        abort();
    for (int i = 0; i < LENGTH(all); i++)
        gram_memory_free(h->g, all[i]->data, bytes[i]);
    return status;
}

static double sample(const struct call *c, int64_t point, int64_t draw)
{
    return get_number(c->out_dtype, c->samples, point * c->draws + draw);
}

/* ---- The truth ------------------------------------------------------------------------------- */

struct truth {
    double k[ALL * ALL]; /* of x, and then z */
    double mean[M], cov[M * M];
};

static void fill_kernel(const struct call *c, double *k)
{
    double points[ALL * WIDTH], lengths[WIDTH];
    const int64_t count = c->n + c->m;
    gram_tensor x = gram_matrix(points, count, c->width, GRAM_F64);
    gram_tensor out = gram_matrix(k, count, count, GRAM_F64);
    gram_tensor l = gram_vector(lengths, c->width, GRAM_F64);
    gram_kernel_options kernel = c->kernel;
    gram_context *g;

    for (int64_t i = 0; i < c->n * c->width; i++)
        points[i] = get_number(c->dtype, c->x, i);
    for (int64_t i = 0; i < c->m * c->width; i++)
        points[c->n * c->width + i] = get_number(c->dtype, c->z, i);
    for (int64_t i = 0; i < c->width; i++)
        lengths[i] = get_number(c->dtype, c->lengths, i);
    kernel.lengths = c->long_lengths ? &l : NULL;
    if (gram_context_create(NULL, &g) != GRAM_OK ||
        gram_kernel(g, &x, NULL, &kernel, &out) != GRAM_OK)
        abort();
    gram_context_destroy(g);
}

/* Mean and covariances at z: the Schur complement of A, by Gaussian elimination of its rows in the
 * matrix of all points with a column for y. */
static void find_truth(const struct call *c, struct truth *t)
{
    static double a[ALL * (ALL + 1)];
    const int64_t n = c->n, count = n + c->m, row = count + 1;

    fill_kernel(c, t->k);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < count; j++)
            a[i * row + j] = t->k[i * count + j];
        a[i * row + count] = i < n ? get_number(c->dtype, c->y, i) : 0;
        if (i < n)
            a[i * row + i] +=
                c->options.ridge / (c->weighted ? get_number(c->dtype, c->weights, i) : 1);
    }
    for (int64_t p = 0; p < n; p++)
        for (int64_t i = p + 1; i < count; i++) {
            const double part = a[i * row + p] / a[p * row + p];

            for (int64_t j = p; j < row; j++)
                a[i * row + j] -= part * a[p * row + j];
        }
    for (int64_t i = 0; i < c->m; i++) {
        t->mean[i] = -a[(n + i) * row + count];
        for (int64_t j = 0; j < c->m; j++)
            t->cov[i * c->m + j] = a[(n + i) * row + n + j];
    }
}

/* Means and covariances of the draws, each within 5.5 of its standard errors as the draws show
 * them; *moved receives by how many of them the prior's covariances differ from the truth's. */
static void check_moments(struct harness *h, const struct call *c, const char *what, double *moved)
{
    static struct truth t;
    const int64_t m = c->m, count = c->n + m;
    const double draws = (double)c->draws;

    find_truth(c, &t);
    *moved = 0;
    for (int64_t i = 0; i < m; i++) {
        double mean = 0;

        for (int64_t s = 0; s < c->draws; s++)
            mean += sample(c, i, s) / draws;
        CHECK(h, fabs(mean - t.mean[i]) <= 5.5 * sqrt(t.cov[i * m + i] / draws),
              "%s: the mean at %lld is %g, expected %g", what, (long long)i, mean, t.mean[i]);
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0, squares = 0, error;

            for (int64_t s = 0; s < c->draws; s++) {
                const double product =
                    (sample(c, i, s) - t.mean[i]) * (sample(c, j, s) - t.mean[j]);
                sum += product / draws;
                squares += product * product / draws;
            }
            error = sqrt((squares - sum * sum) / draws);
            CHECK(h, fabs(sum - t.cov[i * m + j]) <= 5.5 * error,
                  "%s: the covariance of %lld and %lld is %g, expected %g, with an error of %g",
                  what, (long long)i, (long long)j, sum, t.cov[i * m + j], error);
            *moved =
                fmax(*moved, fabs(t.k[(c->n + i) * count + c->n + j] - t.cov[i * m + j]) / error);
        }
    }
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static gram_kernel_options laplace_of(double p, double q)
{
    return gram_lpq_laplace(p, q, 1.5);
}

static void draws_have_the_moments(struct harness *h)
{
    static const struct {
        const char *what;
        int kernel; /* of kernel_of; -1: exp(-|x - y|_p^q / L^q) */
        double p, q;
        int prior;
        int method;
        gram_dtype dtype;
        bool weighted, lengths;
    } rows[] = {
  /* every prior by every method, with all that a call may have */
        {   "Gaussian, joint",  0,   0,   0,    JOINT, CHOLESKY, GRAM_F64, 1, 1},
        {"Gaussian, features",  0,   0,   0, FEATURES,       CG, GRAM_F32, 0, 1},
        { "Matern 3/2, by CG",  3,   0,   0,    JOINT,       CG, GRAM_F64, 1, 0},
 /* every way of drawing frequencies */
        {  "Laplace of p = 2",  1,   0,   0, FEATURES,     AUTO, GRAM_F64, 0, 0},
        {  "Laplace of p = 1",  2,   0,   0, FEATURES,     AUTO, GRAM_F64, 0, 1},
        {        "Matern 3/2",  3,   0,   0, FEATURES,     AUTO, GRAM_F64, 1, 1},
        {        "Matern 5/2",  4,   0,   0, FEATURES, CHOLESKY, GRAM_F64, 0, 0},
        {"rational quadratic",  5,   0,   0, FEATURES,     AUTO, GRAM_F64, 0, 0},
        {    "p = 2, q = 1.4", -1,   2, 1.4, FEATURES,     AUTO, GRAM_F64, 0, 0},
        {  "p = 1.5, q = 0.8", -1, 1.5, 0.8, FEATURES,     AUTO, GRAM_F64, 0, 0},
 /* kernels without features */
        {        "polynomial",  6,   0,   0,     AUTO,     AUTO, GRAM_F64, 0, 0},
        {        "expression",  7,   0,   0,     AUTO,     AUTO, GRAM_F32, 0, 0},
    };

    for (int i = 0; i < (h->device.type == GRAM_CPU ? LENGTH(rows) : 2); i++) {
        struct call *c = call_open(rows[i].dtype, rows[i].kernel < 0 ? 0 : rows[i].kernel,
                                   (gram_krr_prior)rows[i].prior);
        double moved;

        if (rows[i].kernel < 0)
            c->kernel = laplace_of(rows[i].p, rows[i].q);
        c->options.method = (gram_krr_method)rows[i].method;
        c->options.seed = (uint64_t)i;
        c->weighted = rows[i].weighted;
        c->long_lengths = rows[i].lengths;
        c->draws = h->device.type == GRAM_CPU ? DRAWS : 40;
        c->options.features = h->device.type == GRAM_CPU ? 64 : 16;
        CHECK(h, call_run(h, c) == GRAM_OK, "%s: %s", rows[i].what, gram_message(h->g));
        CHECK(h, c->report.reached && c->report.residual <= 1e-3, "%s: %g", rows[i].what,
              c->report.residual);
        check_moments(h, c, rows[i].what, &moved);
        if (h->device.type == GRAM_CPU)
            CHECK(h, moved > 20, "%s: nothing was learned: %g", rows[i].what, moved);
        free(c);
    }
}

/* The same numbers for the same seed, and as many others for another one; a draw does not depend on
 * how many there are. */
static void seeds_repeat(struct harness *h)
{
    for (int prior = 1; prior < 3; prior++) {
        struct call *c = call_open(GRAM_F64, 0, (gram_krr_prior)prior);
        struct call *again = call_open(GRAM_F64, 0, (gram_krr_prior)prior);
        int same = 0;

        CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, call_run(h, again) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, memcmp(c->samples, again->samples, sizeof c->samples) == 0, "they differ");
        again->draws = 2;
        CHECK(h, call_run(h, again) == GRAM_OK, "%s", gram_message(h->g));
        for (int64_t i = 0; i < M; i++)
            for (int64_t s = 0; s < 2; s++)
                CHECK(h, fabs(sample(c, i, s) - sample(again, i, s)) <= 1e-9, "%g, expected %g",
                      sample(again, i, s), sample(c, i, s));
        again->draws = 4;
        again->options.seed = 1;
        CHECK(h, call_run(h, again) == GRAM_OK, "%s", gram_message(h->g));
        for (int64_t i = 0; i < 4 * M; i++)
            same += c->samples[i] == again->samples[i];
        CHECK(h, same == 0, "%d are the same", same);
        free(c);
        free(again);
    }
}

/* By features a draw is a function: other points ask for its other values. */
static void a_draw_by_features_is_a_function(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, 4, GRAM_KRR_PRIOR_FEATURES);
    struct call *turned = call_open(GRAM_F64, 4, GRAM_KRR_PRIOR_FEATURES);

    turned->m = 2;
    memcpy(turned->z, c->z + 3 * WIDTH, WIDTH * sizeof *c->z);
    memcpy(turned->z + WIDTH, c->z, WIDTH * sizeof *c->z);
    CHECK(h, call_run(h, c) == GRAM_OK && call_run(h, turned) == GRAM_OK, "%s", gram_message(h->g));
    for (int64_t s = 0; s < c->draws; s++)
        for (int i = 0; i < 2; i++)
            CHECK(h, fabs(sample(turned, i, s) - sample(c, i ? 0 : 3, s)) <= 1e-9,
                  "%g, expected %g", sample(turned, i, s), sample(c, i ? 0 : 3, s));
    free(c);
    free(turned);
}

/* With no rows the draws are those of the prior; nothing else has to be there, either. */
static void what_is_empty(struct harness *h)
{
    for (int prior = 1; prior < 3; prior++) {
        struct call *c = call_open(GRAM_F64, 0, (gram_krr_prior)prior);
        double moved;

        c->n = 0;
        c->draws = h->device.type == GRAM_CPU ? DRAWS : 40;
        CHECK(h, call_run(h, c) == GRAM_OK && c->report.products == 0, "%s", gram_message(h->g));
        check_moments(h, c, "no rows", &moved);
        c->n = N;
        c->draws = 0;
        CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
        c->draws = 3;
        c->m = 0;
        CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
        c->m = M;
        c->width = 0; /* one number everywhere */
        CHECK(h, call_run(h, c) == GRAM_OK && c->report.reached, "%s", gram_message(h->g));
        CHECK(h, fabs(sample(c, 0, 0) - sample(c, 1, 0)) <= 1e-6 && sample(c, 0, 0) != 0, "%g, %g",
              sample(c, 0, 0), sample(c, 1, 0));
        free(c);
    }
}

static void what_is_refused(struct harness *h)
{
    static const struct {
        gram_krr_samples_options o;
        int kernel, status;
        const char *said;
    } rows[] = {
        {                                  {.ridge = 0}, 0,     INVALID,      "options.ridge is 0"},
        {                                {.ridge = NAN}, 0,     INVALID,    "options.ridge is nan"},
        {      {.ridge = 1, .method = GRAM_KRR_CENTRES}, 0,     INVALID,        "_CHOLESKY or _CG"},
        {      {.ridge = 1, .prior = (gram_krr_prior)3}, 0,     INVALID,      "options.prior is 3"},
        {                  {.ridge = 1, .features = -1}, 0,     INVALID,  "options.features is -1"},
        {                 {.ridge = 1, .tolerance = -1}, 0,     INVALID, "options.tolerance is -1"},
        {{.ridge = 1, .prior = GRAM_KRR_PRIOR_FEATURES}, 6, UNSUPPORTED,       "no random Fourier"},
    };

    for (int i = 0; i < LENGTH(rows); i++) {
        struct call *c = call_open(GRAM_F64, rows[i].kernel, GRAM_KRR_PRIOR_AUTO);
        gram_status status;

        c->options = rows[i].o;
        c->options.size = sizeof c->options;
        memset(c->samples, 5, sizeof c->samples);
        status = call_run(h, c);
        CHECK(h, (int)status == rows[i].status && strstr(gram_message(h->g), rows[i].said),
              "row %d: %s, %s", i, gram_status_name(status), gram_message(h->g));
        CHECK(h, c->samples[0] == c->samples[1], "row %d: samples were written", i);
        free(c);
    }
    for (int i = 0; i < 3; i++) { /* numbers that are not finite */
        struct call *c = call_open(GRAM_F64, 0, GRAM_KRR_PRIOR_AUTO);

        (i == 0 ? c->x : i == 1 ? c->y : c->z)[3] = NAN;
        CHECK(h, call_run(h, c) == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), "nan"), "%s",
              gram_message(h->g));
        free(c);
    }
}

static void shapes_are_checked(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, 0, GRAM_KRR_PRIOR_AUTO);
    gram_tensor x = gram_matrix(c->x, N, WIDTH, GRAM_F64), y = gram_vector(c->y, N, GRAM_F64);
    gram_tensor z = gram_matrix(c->z, M, WIDTH, GRAM_F64);
    gram_tensor samples = gram_matrix(c->samples, M, 3, GRAM_F64), wrong;
    const gram_krr_samples_options *const o = &c->options;

#define REFUSED(said, ...)                                              \
  CHECK(h,                                                              \
        gram_krr_samples(h->g, __VA_ARGS__) == GRAM_INVALID_ARGUMENT && \
            strstr(gram_message(h->g), said),                           \
        "%s: %s", said, gram_message(h->g))

    wrong = gram_vector(c->y, N - 1, GRAM_F64);
    REFUSED("y is 23 by 1, expected 24", &x, &c->kernel, &wrong, &z, o, &samples);
    wrong = gram_matrix(c->z, M, 1, GRAM_F64);
    REFUSED("z has 2 dimensions and 1 columns", &x, &c->kernel, &y, &wrong, o, &samples);
    wrong = gram_matrix(c->samples, M - 1, 3, GRAM_F64);
    REFUSED("samples has 5 rows, expected 6", &x, &c->kernel, &y, &z, o, &wrong);
    wrong = gram_matrix(c->x, M, 3, GRAM_F64);
    REFUSED("samples", &x, &c->kernel, &y, &z, o, &wrong);
    wrong = gram_matrix(c->z, M, WIDTH, GRAM_F32);
    REFUSED("z", &x, &c->kernel, &y, &wrong, o, &samples);
    REFUSED("z is NULL", &x, &c->kernel, &y, NULL, o, &samples);
    REFUSED("kernel is NULL", &x, NULL, &y, &z, o, &samples);
    REFUSED("options.ridge is 0", &x, &c->kernel, &y, &z, NULL, &samples);
#undef REFUSED
    free(c);
}

/* Limits end it with a message, and kernels that are not positive definite with NaN. */
static void what_is_not_reached(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, 0, GRAM_KRR_PRIOR_AUTO);

    c->options.method = GRAM_KRR_CG;
    c->options.rank = -1;
    c->options.ridge = 1e-8;
    c->options.tolerance = 1e-12;
    c->options.products = 4;
    CHECK(h,
          call_run(h, c) == GRAM_NUMERICAL && c->report.end == GRAM_KRR_PRODUCTS &&
              strstr(gram_message(h->g), "products are used up"),
          "%s", gram_message(h->g));
    CHECK(h, isfinite(sample(c, 0, 0)) && c->report.residual > 1e-12, "%g", sample(c, 0, 0));
    free(c);
    c = call_open(GRAM_F64, 0, GRAM_KRR_PRIOR_AUTO);
    c->kernel.function = GRAM_SIGMOID;
    c->kernel.inner = GRAM_DOT;
    c->kernel.gamma = gram_number(3), c->kernel.coef0 = gram_number(1);
    CHECK(h,
          call_run(h, c) == GRAM_NUMERICAL && strstr(gram_message(h->g), "not positive definite"),
          "%s", gram_message(h->g));
    CHECK(h, isnan(sample(c, 0, 0)) && c->report.end == GRAM_KRR_INDEFINITE, "%g", sample(c, 0, 0));
    free(c);
}

static void every_allocation_may_fail(struct harness *h)
{
    for (int prior = 1; prior < 3; prior++) {
        bool failed = true;

        for (int64_t i = 1; failed && i < 500; i++) {
            struct call *c = call_open(GRAM_F32, 0, (gram_krr_prior)prior);
            gram_status status;

            c->options.method = GRAM_KRR_CG;
            memset(c->samples, 5, sizeof c->samples);
            status = run_failing(h, i, call_run, c, &failed);
            CHECK(h, status == (failed ? GRAM_OUT_OF_MEMORY : GRAM_OK), "allocation %lld: %s",
                  (long long)i, gram_status_name(status));
            CHECK(h, !failed || c->samples[0] == c->samples[1], "samples were written");
            free(c);
        }
        CHECK(h, !failed, "allocations go on");
    }
}

static const struct test_function tests[] = {
    {          "draws_have_the_moments",           draws_have_the_moments},
    {                    "seeds_repeat",                     seeds_repeat},
    {"a_draw_by_features_is_a_function", a_draw_by_features_is_a_function},
    {                   "what_is_empty",                    what_is_empty},
    {             "what_is_not_reached",              what_is_not_reached},
    {                 "what_is_refused",                  what_is_refused},
 /* On the CPU alone: */
    {              "shapes_are_checked",               shapes_are_checked},
    {       "every_allocation_may_fail",        every_allocation_may_fail},
};

int main(void)
{
    return harness_run_tests_or_some(tests, LENGTH(tests), LENGTH(tests) - 2);
}
