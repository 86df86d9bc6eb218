/*
 * test_eigh_krylov.c - few pairs of large matrices: the hard ones, and what no table can say
 *
 * GRAM_TEST_DEVICE is as in run_cases.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/eigh_zoo.h"
#include "check/reference/reference.h"
#include "eigh_there.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    N = 300, /* above 2 k + 160: the basis is cut down and grows again, on CUDA 2 k + 92 */
    K = 10,
};

/* A matrix, and the pairs at one end of it. */
struct problem {
    double a[N * N], w[N], v[N * K]; /* w: room for all */
    float a32[N * N], w32[N], v32[N * K];
    gram_tensor matrix, values, vectors, info;
    int32_t outcome;
    gram_eigh_report report;
    gram_eigh_options options;
};

static struct problem *open_problem(gram_dtype dtype, gram_eigh_select select)
{
    struct problem *p = calloc(1, sizeof *p);
    bool f32 = dtype == GRAM_F32;

    if (!p)
        abort();
    p->matrix = gram_matrix(f32 ? (void *)p->a32 : (void *)p->a, N, N, dtype);
    p->values = gram_vector(f32 ? (void *)p->w32 : (void *)p->w, K, dtype);
    p->vectors = gram_matrix(f32 ? (void *)p->v32 : (void *)p->v, N, K, dtype);
    p->info = gram_vector(&p->outcome, 1, GRAM_I32);
    p->info.ndim = 0;
    p->report.size = sizeof p->report;
    p->options = (gram_eigh_options)GRAM_EIGH_OPTIONS_INIT;
    p->options.select = select;
    p->options.count = K;
    p->options.driver = GRAM_EIGH_DRIVER_KRYLOV;
    p->options.report = &p->report;
    return p;
}

/* Rounds a to the dtype, in both places. */
static void set_matrix(struct problem *p)
{
    for (int i = 0; i < N * N; i++)
        if (p->matrix.dtype == GRAM_F32)
            p->a[i] = p->a32[i] = (float)p->a[i];
}

/* The wanted values by divide and conquer in f64, ascending; gives the norm. */
static double dense(struct harness *h, const struct problem *p, double *w)
{
    static double all[N];
    gram_tensor a = gram_matrix((void *)p->a, N, N, GRAM_F64);
    gram_tensor values = gram_vector(all, N, GRAM_F64);
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;

    options.driver = GRAM_EIGH_DRIVER_DIVIDE;
    CHECK(h, eigh_there(h->g, &a, &options, &values, NULL, NULL) == GRAM_OK, "%s",
          gram_message(h->g));
    memcpy(w, p->options.select == GRAM_EIGH_LARGEST ? all + N - K : all, K * sizeof *w);
    return fmax(fabs(all[0]), fabs(all[N - 1]));
}

/* The pairs against the matrix itself, in f64: residuals, orthogonality, and that they are the
 * wanted ones. */
static void check_pairs(struct harness *h, const struct problem *p, const char *what)
{
    double eps = test_eps(p->matrix.dtype), expected[K], norm = dense(h, p, expected), worst = 0;
    double tolerance = p->options.tolerance > 0 ? p->options.tolerance : fmin(10 * N * eps, 1e-5);
    double limit = (tolerance + 100 * eps) * norm, *v = malloc(N * K * sizeof *v);

    if (!v)
        abort();
    for (int i = 0; i < N * K; i++)
        v[i] = test_at(&p->vectors, i);
    for (int j = 0; j < K; j++) {
        double value = test_at(&p->values, j), sum = 0;
        CHECK(h, fabs(value - expected[j]) <= limit, "%s: value %d is %.17g, expected %.17g", what,
              j, value, expected[j]);
        for (int r = 0; r < N; r++) {
            double y = -value * v[r * K + j];
            for (int i = 0; i < N; i++)
                y += p->a[r * N + i] * v[i * K + j];
            sum += y * y;
        }
        worst = fmax(worst, sqrt(sum));
    }
    CHECK(h, worst <= limit, "%s: residual %g of norm %g", what, worst, norm);
    CHECK(h, reference_orthogonality(N, K, v) <= 100 * eps, "%s: not orthogonal by %g", what,
          reference_orthogonality(N, K, v));
    CHECK(h, p->report.residual <= tolerance, "%s: report says %g", what, p->report.residual);
    CHECK(h, p->report.driver == p->options.driver && p->report.products > 0, "%s: report", what);
    free(v);
}

/* hard: products alone may not tell the wanted values apart; then that is said. */
static void solve_hard(struct harness *h, struct problem *p, const char *what, bool hard)
{
    p->outcome = -1;
    CHECK(h,
          eigh_there(h->g, &p->matrix, &p->options, &p->values, &p->vectors, &p->info) == GRAM_OK,
          "%s: %s", what, gram_message(h->g));
    if (hard && p->outcome == 1)
        CHECK(h, isnan(test_at(&p->values, 0)) && isnan(test_at(&p->vectors, N * K - 1)), "%s: %g",
              what, test_at(&p->values, 0));
    else if (CHECK(h, p->outcome == 0, "%s: info is %d after %lld products", what, p->outcome,
                   (long long)p->report.products))
        check_pairs(h, p, what);
}

static void solve(struct harness *h, struct problem *p, const char *what)
{
    solve_hard(h, p, what, false);
}

static void both_ends_of_every_kind(struct harness *h)
{
    for (int kind = 0; kind < ZOO_KINDS; kind += eigh_is_emulated() ? 14 : 1)
        for (int i = 0; i < 4; i++) {
            struct problem *p = open_problem(i & 1 ? GRAM_F32 : GRAM_F64,
                                             i & 2 ? GRAM_EIGH_SMALLEST : GRAM_EIGH_LARGEST);
            /* In f64 many values lie closer to 0 than the 1e-6 of the norm that 1000 products tell
             * apart, and farther than the tolerance. */
            bool hard = i == 2 && (kind == ZOO_POSITIVE_GEOMETRIC || kind == ZOO_DOMINANT);
            char what[64];
            snprintf(what, sizeof what, "%s %s %s", zoo_names[kind], i & 1 ? "f32" : "f64",
                     i & 2 ? "smallest" : "largest");
            zoo_fill(h, (enum zoo_kind)kind, N, test_eps(p->matrix.dtype), p->a);
            set_matrix(p);
            solve_hard(h, p, what, hard);
            free(p);
        }
}

/* a = H diag(d) H with a reflection H: spectra of choice in a basis of no special kind. */
static void set_spectrum(struct problem *p, const double *d)
{
    double u[N], square = 0, mean = 0;

    for (int i = 0; i < N; i++) {
        u[i] = 1 + sin(3.0 * i);
        square += u[i] * u[i];
        mean += d[i] * u[i] * u[i];
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            p->a[i * N + j] = (i == j ? d[i] : 0) - 2 / square * u[i] * u[j] * (d[i] + d[j]) +
                              4 / square / square * mean * u[i] * u[j];
    for (int i = 0; i < N; i++) /* exactly symmetric */
        for (int j = 0; j < i; j++)
            p->a[i * N + j] = p->a[j * N + i];
    set_matrix(p);
}

static void copies_of_the_largest(struct harness *h)
{
    /* A block has 8 columns: as many copies, fewer, more, and several values with copies. */
    static const int copies[][2] = {
        { 7,  1},
        { 8,  1},
        { 9,  1},
        { 8,  2},
        { 9,  9},
        {20,  1},
        { 1, 12},
        { 4, 60}
    };

    for (int c = 0; c < LENGTH(copies); c += eigh_is_emulated() ? 5 : 1)
        for (int i = 0; i < 2; i++) {
            struct problem *p = open_problem(i ? GRAM_F32 : GRAM_F64, GRAM_EIGH_LARGEST);
            double d[N];
            char what[64];
            for (int k = 0; k < N; k++)
                d[k] = k < copies[c][0] ? 3 : k < copies[c][0] + copies[c][1] ? 2 : cos(k);
            snprintf(what, sizeof what, "%d and %d copies, %s", copies[c][0], copies[c][1],
                     i ? "f32" : "f64");
            set_spectrum(p, d);
            /* In f32 copies that are half found have the value of the whole ones. */
            solve_hard(h, p, what, i == 1 && copies[c][1] == 60);
            free(p);
        }
}

static void clusters(struct harness *h)
{
    static const double apart[] = {1e-4, 1e-8, 1e-11, 1e-13};

    for (int c = 0; c < LENGTH(apart); c += eigh_is_emulated() ? 3 : 1) {
        struct problem *p = open_problem(GRAM_F64, GRAM_EIGH_SMALLEST);
        double d[N];
        char what[64];
        for (int k = 0; k < N; k++)
            d[k] = k < 12 ? -2 + apart[c] * k : 1 + sin(k);
        snprintf(what, sizeof what, "12 values %g apart", apart[c]);
        set_spectrum(p, d);
        solve(h, p, what);
        free(p);
    }
}

static void negative_and_loose(struct harness *h)
{
    struct problem *p = open_problem(GRAM_F64, GRAM_EIGH_LARGEST);
    double d[N];

    for (int k = 0; k < N; k++)
        d[k] = -1 - k;
    set_spectrum(p, d);
    solve(h, p, "negative definite");
    p->options.tolerance = 1e-3;
    p->options.seed = 77;
    solve(h, p, "a loose tolerance");
    free(p);
}

static void products_run_out(struct harness *h)
{
    struct problem *p = open_problem(GRAM_F64, GRAM_EIGH_LARGEST);
    int nans = 0;

    zoo_fill(h, ZOO_RANDOM, N, test_eps(GRAM_F64), p->a);
    p->options.products = 3;
    CHECK(h,
          eigh_there(h->g, &p->matrix, &p->options, &p->values, &p->vectors, &p->info) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, p->outcome == 1, "info is %d", p->outcome);
    for (int i = 0; i < K; i++)
        nans += isnan(p->w[i]) != 0;
    for (int i = 0; i < N * K; i++)
        nans += isnan(p->v[i]) != 0;
    CHECK(h, nans == K + N * K, "%d NaN", nans);
    CHECK(h, p->report.products >= 3 && p->report.products < 10, "%lld products",
          (long long)p->report.products);
    CHECK(h,
          eigh_there(h->g, &p->matrix, &p->options, &p->values, &p->vectors, NULL) ==
              GRAM_NUMERICAL,
          "no info");
    CHECK(h, strstr(gram_message(h->g), "block Lanczos did not converge") != NULL, "%s",
          gram_message(h->g));
    free(p);
}

/* AUTO: the dense driver does what did not converge, and the report says so. */
static void falls_back(struct harness *h)
{
    enum {
        LARGE = 2000
    };
    float *a = malloc(sizeof *a * LARGE * LARGE), *v = malloc(sizeof *v * LARGE * 2), w[2];
    gram_tensor matrix = gram_matrix(a, LARGE, LARGE, GRAM_F32);
    gram_tensor values = gram_vector(w, 2, GRAM_F32), vectors = gram_matrix(v, LARGE, 2, GRAM_F32);
    gram_eigh_report report = {.size = sizeof report};
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;

    if (!CHECK(h, a && v, "no memory") || !a || !v)
        goto done;
    for (int64_t i = 0; i < LARGE; i++)
        for (int64_t j = 0; j <= i; j++)
            a[i * LARGE + j] = i == j ? 2 : i == j + 1 ? -1 : 0;
    options.select = GRAM_EIGH_SMALLEST;
    options.count = 2;
    options.products = 2;
    options.report = &report;
    CHECK(h, eigh_there(h->g, &matrix, &options, &values, &vectors, NULL) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, report.driver == GRAM_EIGH_DRIVER_KRYLOV && report.dense == 1 && report.products >= 2,
          "driver %d, %lld dense, %lld products", (int)report.driver, (long long)report.dense,
          (long long)report.products);
    for (int j = 0; j < 2; j++) {
        double angle = acos(-1) * (j + 1) / (LARGE + 1) / 2;
        CHECK(h, fabs((double)w[j] - 4 * sin(angle) * sin(angle)) < 4 * LARGE * test_eps(GRAM_F32),
              "value %d is %g", j, (double)w[j]);
    }
    options.products = 0;
    options.select = GRAM_EIGH_LARGEST;
    for (int64_t i = 0; i < LARGE; i++)
        a[i * LARGE + i] = i < 2 ? 50 : 2;
    CHECK(h, eigh_there(h->g, &matrix, &options, &values, &vectors, NULL) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, report.dense == 0 && report.products > 0, "%lld dense", (long long)report.dense);
    CHECK(h, fabs((double)w[0] - 49) < 0.1 && fabs((double)w[1] - 51) < 0.1, "%g and %g",
          (double)w[0], (double)w[1]);
done:
    free(a);
    free(v);
}

static void same_bits_with_any_threads(struct harness *h)
{
    struct problem *p = open_problem(GRAM_F32, GRAM_EIGH_LARGEST), *q;

    zoo_fill(h, ZOO_RANDOM, N, test_eps(GRAM_F32), p->a);
    set_matrix(p);
    solve(h, p, "two threads");
    for (int threads = 1; threads < 5; threads += 3) {
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        gram_context *g;
        o.threads = threads;
        o.device = h->device;
        o.cpu_isa = h->device.type == GRAM_CPU ? h->isa : NULL;
        q = open_problem(GRAM_F32, GRAM_EIGH_LARGEST);
        if (CHECK(h, gram_context_create(&o, &g) == GRAM_OK, "%s", gram_message(NULL))) {
            CHECK(h,
                  eigh_there(g, &p->matrix, &q->options, &q->values, &q->vectors, NULL) == GRAM_OK,
                  "%s", gram_message(g));
            CHECK(h, memcmp(p->w32, q->w32, K * sizeof(float)) == 0, "values, %d threads", threads);
            CHECK(h, memcmp(p->v32, q->v32, sizeof p->v32) == 0, "vectors, %d threads", threads);
            gram_context_destroy(g);
        }
        free(q);
    }
    free(p);
}

/* The top 10 of 10,000 take no more than a hundredth of the 4 n^2 numbers that LAPACK's drivers
 * take; with AUTO the query answers for the second driver too. */
static void a_hundredth_of_the_memory(struct harness *h)
{
    enum {
        LARGE = 10000
    };
    static double w[K], v[LARGE * K];
    void *nothing = mmap(NULL, (size_t)LARGE * LARGE * sizeof(double), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* the data are not read */

    for (int i = 0; i < 2; i++) {
        gram_dtype dtype = i ? GRAM_F32 : GRAM_F64;
        double words = 4.0 * LARGE * LARGE * (double)gram_dtype_size(dtype);
        gram_tensor a = gram_matrix(nothing, LARGE, LARGE, dtype);
        gram_tensor values = gram_vector(w, K, dtype), vectors = gram_matrix(v, LARGE, K, dtype);
        gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
        gram_workspace krylov, both;
        size_t few, all;
        a.device = values.device = vectors.device = h->device;
        options.select = GRAM_EIGH_LARGEST;
        options.count = K;
        CHECK(h, gram_eigh_workspace(h->g, &a, &options, &values, &vectors, &both) == GRAM_OK, "%s",
              gram_message(h->g));
        options.driver = GRAM_EIGH_DRIVER_KRYLOV;
        CHECK(h, gram_eigh_workspace(h->g, &a, &options, &values, &vectors, &krylov) == GRAM_OK,
              "%s", gram_message(h->g));
        few = krylov.host_bytes + krylov.device_bytes;
        all = both.host_bytes + both.device_bytes;
        CHECK(h, (double)few <= words / 100, "%s: %.3g %% of 4 n^2 numbers", i ? "f32" : "f64",
              100 * (double)few / words);
        CHECK(h, (double)all > words / 8, "%zu bytes", all);
    }
    munmap(nothing, (size_t)LARGE * LARGE * sizeof(double));
}

static const struct test_function tests[] = {
    {   "both_ends_of_every_kind",    both_ends_of_every_kind},
    {     "copies_of_the_largest",      copies_of_the_largest},
    {                  "clusters",                   clusters},
    {        "negative_and_loose",         negative_and_loose},
    {          "products_run_out",           products_run_out},
    {                "falls_back",                 falls_back},
    {"same_bits_with_any_threads", same_bits_with_any_threads},
    { "a_hundredth_of_the_memory",  a_hundredth_of_the_memory},
};

int main(void)
{
    return harness_run_tests_where_asked(tests, LENGTH(tests));
}
