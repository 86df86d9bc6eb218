/*
 * test_krr_centres.c - gram_krr_solve with centres, against a dense solve in long double
 *
 * GRAM_TEST_DEVICE is as in run_cases.c; on a device: what depends on it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include "tests/krr/krr_numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 90,
    M = 20,
    WIDTH = 3,
    COLUMNS = 2
};

/* A call and all that it is given; arrays are of either dtype. */
struct call {
    gram_dtype dtype, alpha_dtype;
    double x[N * WIDTH], y[N * COLUMNS], alpha[N * COLUMNS], weights[N], centres[M * WIDTH];
    int64_t chosen[M];
    gram_tensor t_x, t_y, t_alpha, t_weights, t_centres, t_chosen;
    gram_kernel_options kernel;
    gram_krr_options options;
    gram_krr_report report;
};

static struct call *call_open(struct harness *h, gram_dtype dtype)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c)
        harness_end_without_memory("a call");
    c->dtype = c->alpha_dtype = dtype;
    c->kernel = gram_gaussian(1.5);
    c->options = (gram_krr_options)GRAM_KRR_OPTIONS_INIT;
    c->options.method = GRAM_KRR_CENTRES;
    c->options.ridge = 0.1;
    c->options.tolerance = 1e-3;
    c->report.size = sizeof c->report;
    c->options.report = &c->report;
    for (int64_t i = 0; i < N * WIDTH; i++)
        set_number(dtype, c->x, i, 4 * test_uniform(h) - 2);
    for (int64_t i = 0; i < M * WIDTH; i++)
        set_number(dtype, c->centres, i, 4 * test_uniform(h) - 2);
    for (int64_t i = 0; i < N * COLUMNS; i++) {
        set_number(dtype, c->y, i, test_uniform(h) - 0.3);
        set_number(dtype, c->alpha, i, 7);
    }
    for (int64_t i = 0; i < N; i++)
        set_number(dtype, c->weights, i, 0.5 + 2 * test_uniform(h));
    c->t_x = gram_matrix(c->x, N, WIDTH, dtype);
    c->t_y = gram_matrix(c->y, N, COLUMNS, dtype);
    c->t_alpha = gram_matrix(c->alpha, M, COLUMNS, dtype);
    c->t_weights = gram_matrix(c->weights, N, 1, dtype);
    c->t_centres = gram_matrix(c->centres, M, WIDTH, dtype);
    c->t_chosen = gram_matrix(c->chosen, M, 1, GRAM_I64);
    c->t_weights.ndim = c->t_chosen.ndim = 1;
    c->options.centres = &c->t_centres;
    return c;
}

static gram_status call_run(struct harness *h, struct call *c)
{
    gram_tensor x = c->t_x, y = c->t_y, alpha = c->t_alpha, w = c->t_weights, at = c->t_centres,
                chosen = c->t_chosen;
    gram_krr_options o = c->options;
    gram_status status;

    if (h->device.type == GRAM_CPU)
        return gram_krr_solve(h->g, &x, &c->kernel, &y, &o, &alpha);
    upload(h, &x, sizeof c->x);
    upload(h, &y, sizeof c->y);
    upload(h, &alpha, sizeof c->alpha);
    upload(h, &w, sizeof c->weights);
    upload(h, &at, sizeof c->centres);
    upload(h, &chosen, sizeof c->chosen);
    o.weights = o.weights ? &w : NULL;
    o.centres = o.centres ? &at : NULL;
    o.chosen = o.chosen ? &chosen : NULL;
    status = gram_krr_solve(h->g, &x, &c->kernel, &y, &o, &alpha);
    if (!device_download(c->alpha, alpha.data, sizeof c->alpha) ||
        !device_download(c->chosen, chosen.data, sizeof c->chosen))
        abort();
    gram_memory_free(h->g, x.data, sizeof c->x);
    gram_memory_free(h->g, y.data, sizeof c->y);
    gram_memory_free(h->g, alpha.data, sizeof c->alpha);
    gram_memory_free(h->g, w.data, sizeof c->weights);
    gram_memory_free(h->g, at.data, sizeof c->centres);
    gram_memory_free(h->g, chosen.data, sizeof c->chosen);
    return status;
}

/* ---- The truth ------------------------------------------------------------------------------- */

/* a x = b of order M in the place of b, by Gaussian elimination with pivoting. */
static void solve(long double a[M][M], long double b[M])
{
    for (int k = 0; k < M; k++) {
        int pivot = k;

        for (int i = k + 1; i < M; i++)
            if (fabsl(a[i][k]) > fabsl(a[pivot][k]))
                pivot = i;
        for (int j = 0; j < M; j++) {
            long double swap = a[k][j];
            a[k][j] = a[pivot][j], a[pivot][j] = swap;
        }
        long double swap = b[k];
        b[k] = b[pivot], b[pivot] = swap;
        for (int i = k + 1; i < M; i++) {
            long double f = a[i][k] / a[k][k];
            for (int j = k; j < M; j++)
                a[i][j] -= f * a[k][j];
            b[i] -= f * b[k];
        }
    }
    for (int i = M - 1; i >= 0; i--) {
        for (int j = i + 1; j < M; j++)
            b[i] -= a[i][j] * b[j];
        b[i] /= a[i][i];
    }
}

/* Kernel matrices in f64, by the CPU. */
static void fill(const struct call *c, double *nm, double *mm)
{
    double x[N * WIDTH], at[M * WIDTH];
    gram_tensor t_x = gram_matrix(x, N, WIDTH, GRAM_F64),
                t_at = gram_matrix(at, M, WIDTH, GRAM_F64);
    gram_tensor t_nm = gram_matrix(nm, N, M, GRAM_F64), t_mm = gram_matrix(mm, M, M, GRAM_F64);
    gram_context *g;

    for (int64_t i = 0; i < N * WIDTH; i++)
        x[i] = get_number(c->dtype, c->x, i);
    for (int64_t i = 0; i < M * WIDTH; i++)
        at[i] = c->options.centres ? get_number(c->dtype, c->centres, i)
                                   : x[c->chosen[i / WIDTH] * WIDTH + i % WIDTH];
    if (gram_context_create(NULL, &g) != GRAM_OK ||
        gram_kernel(g, &t_x, &t_at, &c->kernel, &t_nm) != GRAM_OK ||
        gram_kernel(g, &t_at, NULL, &c->kernel, &t_mm) != GRAM_OK)
        abort();
    gram_context_destroy(g);
}

/* The root mean square of the change of predictions to the exact ones, over that of the exact
 * ones; the report's bounds are above what they bound. */
static double check_truth(struct harness *h, const struct call *c)
{
    double nm[N * M], mm[M * M], worst = 0;

    fill(c, nm, mm);
    for (int64_t j = 0; j < COLUMNS; j++) {
        long double a[M][M], b[M] = {0}, sum = 0, whole = 0, most = 0;

        for (int p = 0; p < M; p++)
            for (int q = 0; q < M; q++) {
                long double s = (long double)mm[p * M + q] + (p == q ? c->report.floor : 0);
                a[p][q] = s * (long double)c->options.ridge;
            }
        for (int i = 0; i < N; i++) {
            long double w =
                c->options.weights ? (long double)get_number(c->dtype, c->weights, i) : 1;
            for (int p = 0; p < M; p++) {
                long double k = w * (long double)nm[i * M + p];
                b[p] += k * (long double)get_number(c->dtype, c->y, i * COLUMNS + j);
                for (int q = 0; q < M; q++)
                    a[p][q] += k * (long double)nm[i * M + q];
            }
        }
        solve(a, b);
        for (int i = 0; i < N; i++) {
            long double change = 0, exact = 0;
            for (int p = 0; p < M; p++) {
                long double k = (long double)nm[i * M + p];
                exact += k * b[p];
                change +=
                    k * (b[p] - (long double)get_number(c->alpha_dtype, c->alpha, p * COLUMNS + j));
            }
            sum += change * change, whole += exact * exact;
            most = fmaxl(most, fabsl(change));
        }
        CHECK(h, c->report.prediction_rms >= (double)sqrtl(sum / N) * (1 - 1e-9),
              "predictions change by %g, bound %g", (double)sqrtl(sum / N),
              c->report.prediction_rms);
        CHECK(h, c->report.prediction_sup >= (double)most * (1 - 1e-9), "by %g, bound %g",
              (double)most, c->report.prediction_sup);
        worst = fmax(worst, (double)sqrtl(sum / whole));
    }
    return worst;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void solves(struct harness *h)
{
    static const double ridges[] = {10, 0.1, 1e-3};
    int count = 0;

    for (int kernel = 0; kernel < KERNELS; kernel += h->device.type == GRAM_CPU ? 1 : 3)
        for (int ridge = 0; ridge < LENGTH(ridges); ridge++)
            for (int wide = 0; wide < 2; wide++, count++) {
                struct call *c = call_open(h, wide ? GRAM_F64 : GRAM_F32);
                gram_status status;
                double change;

                c->kernel = kernel_of(kernel);
                c->options.ridge = ridges[ridge];
                c->options.tolerance = wide ? 1e-8 : 1e-2;
                c->options.weights = count % 3 == 0 ? &c->t_weights : NULL;
                if (count % 2) {
                    c->options.centres = NULL;
                    c->options.centre_count = M;
                    c->options.chosen = &c->t_chosen;
                }
                status = call_run(h, c);
                CHECK(h, status == GRAM_OK && c->report.reached, "kernel %d, ridge %g: %s", kernel,
                      ridges[ridge], gram_message(h->g));
                CHECK(h, c->report.method == GRAM_KRR_CENTRES && c->report.rank == M, "rank %lld",
                      (long long)c->report.rank);
                change = check_truth(h, c);
                CHECK(h, change <= 20 * c->options.tolerance, "kernel %d, ridge %g: %g", kernel,
                      ridges[ridge], change);
                free(c);
            }
}

/* Drawn rows are different ones of x, in order; another seed draws others. */
static void draws(struct harness *h)
{
    int64_t first[M] = {0};

    for (int seed = 0; seed < 2; seed++) {
        struct call *c = call_open(h, GRAM_F64);
        int same = 0;

        c->options.method = GRAM_KRR_AUTO;
        c->options.centres = NULL;
        c->options.centre_count = M;
        c->options.chosen = &c->t_chosen;
        c->options.seed = (uint64_t)seed;
        CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
        for (int i = 0; i < M; i++) {
            CHECK(h, c->chosen[i] >= (i ? c->chosen[i - 1] + 1 : 0) && c->chosen[i] < N, "row %lld",
                  (long long)c->chosen[i]);
            same += seed && c->chosen[i] == first[i];
            first[i] = c->chosen[i];
        }
        CHECK(h, same < M, "another seed draws the same rows");
        free(c);
    }
}

/* f32 whose residuals are refined; a first guess; the error of held-out rows. */
static void refines(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F32);

    c->t_alpha.dtype = c->alpha_dtype = GRAM_F64;
    for (int i = 0; i < N * COLUMNS; i++)
        c->alpha[i] = 0;
    c->options.refine = 1;
    c->options.tolerance = 1e-7;
    CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, check_truth(h, c) <= 2e-6, "predictions change by %g", check_truth(h, c));
    c->options.warm_start = 1;
    CHECK(h, call_run(h, c) == GRAM_OK && c->report.products == 4, "%lld products",
          (long long)c->report.products);
    c->options.tolerance = 0;
    c->options.warm_start = 0;
    c->options.held_out_rmse = 0.1;
    CHECK(h, call_run(h, c) == GRAM_OK && c->report.prediction_rms <= 0.003, "%s, bound %g",
          gram_message(h->g), c->report.prediction_rms);
    free(c);
}

static void limits(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F64);
    gram_status status;

    c->options.ridge = 1e-6;
    c->options.tolerance = 1e-13;
    c->options.products = 14;
    status = call_run(h, c);
    CHECK(h, status == GRAM_NUMERICAL && c->report.end == GRAM_KRR_PRODUCTS, "%s",
          gram_message(h->g));
    CHECK(h, c->report.products <= 14 && !c->report.reached, "%lld products",
          (long long)c->report.products);
    check_truth(h, c);
    c->options.products = 0;
    c->options.time_limit = 1e-9;
    CHECK(h, call_run(h, c) == GRAM_NUMERICAL && c->report.end == GRAM_KRR_TIME, "%s",
          gram_message(h->g));
    gram_context_cancel(h->g);
    c->options.time_limit = 0;
    CHECK(h, call_run(h, c) == GRAM_CANCELLED, "%s", gram_message(h->g));
    c->kernel.function = GRAM_EXPRESSION;
    c->kernel.expression = "1 - 0.5 * s";
    CHECK(h,
          call_run(h, c) == GRAM_NUMERICAL && isnan(get_number(GRAM_F64, c->alpha, 0)) &&
              strstr(gram_message(h->g), "centres is not positive definite"),
          "%s", gram_message(h->g));
    free(c);
}

static void nothing_to_do(struct harness *h)
{
    for (int which = 0; which < 3; which++) {
        struct call *c = call_open(h, GRAM_F64);

        c->t_x.shape[0] = c->t_y.shape[0] = which == 0 ? 0 : N;
        c->t_y.shape[1] = c->t_alpha.shape[1] = which == 1 ? 0 : COLUMNS;
        c->t_centres.shape[0] = c->t_alpha.shape[0] = which == 2 ? 0 : M;
        CHECK(h, call_run(h, c) == GRAM_OK && c->report.reached, "%s", gram_message(h->g));
        CHECK(h, which > 0 || c->alpha[0] == 0, "alpha is %g", c->alpha[0]);
        free(c);
    }
    struct call *c = call_open(h, GRAM_F64); /* y is 0 */
    memset(c->y, 0, sizeof c->y);
    CHECK(h, call_run(h, c) == GRAM_OK && c->alpha[0] == 0 && c->report.residual == 0, "%s, %g",
          gram_message(h->g), c->alpha[0]);
    free(c);
}

static void without_memory(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F32);
    gram_status status = GRAM_OUT_OF_MEMORY;
    bool failed;

    c->options.weights = &c->t_weights;
    c->options.centres = NULL;
    c->options.centre_count = M;
    for (int64_t fail_at = 1; status == GRAM_OUT_OF_MEMORY && fail_at < 400; fail_at++) {
        status = run_failing(h, fail_at, call_run, c, &failed);
        CHECK(h, status == GRAM_OK || (failed && get_number(GRAM_F32, c->alpha, 0) == 7),
              "allocation %lld: %s", (long long)fail_at, gram_status_name(status));
    }
    CHECK(h, status == GRAM_OK, "%s", gram_status_name(status));
    free(c);
}

static void both_kinds(struct call *c)
{
    c->options.centre_count = M;
}

static void none(struct call *c)
{
    c->options.centres = NULL;
}

static void another_method(struct call *c)
{
    c->options.method = GRAM_KRR_CG;
}

static void negative(struct call *c)
{
    none(c);
    c->options.centre_count = -1;
}

static void too_many(struct call *c)
{
    none(c);
    c->options.centre_count = N + 1;
}

static void chosen_alone(struct call *c)
{
    c->options.chosen = &c->t_chosen;
}

static void chosen_of_reals(struct call *c)
{
    none(c);
    c->options.centre_count = M;
    c->options.chosen = &c->t_chosen;
    c->t_chosen.dtype = GRAM_F64;
}

static void narrow_centres(struct call *c)
{
    c->t_centres.shape[1] = 2;
}

static void centres_of_f32(struct call *c)
{
    c->t_centres.dtype = GRAM_F32;
}

static void nan_centre(struct call *c)
{
    c->centres[4] = NAN;
}

static void alpha_of_rows(struct call *c)
{
    c->t_alpha.shape[0] = N;
}

static const struct {
    void (*spoil)(struct call *c);
    const char *says;
} wrong[] = {
    {     both_kinds,                       "expected only one of them"},
    {           none,             "neither options.centres nor options"},
    { another_method,                  "centres are given, but options"},
    {       negative,                      "options.centre_count is -1"},
    {       too_many, "options.centre_count is 91, expected at most 90"},
    {   chosen_alone,         "options.chosen is given without options"},
    {chosen_of_reals,                    "options.chosen has dtype f64"},
    { narrow_centres,    "options.centres is 20 by 2, expected 20 by 3"},
    { centres_of_f32,                   "options.centres has dtype f32"},
    {     nan_centre,                        "options.centres[1, 1] is"},
    {  alpha_of_rows,              "alpha is 90 by 2, expected 20 by 2"},
};

static void refuses_and_says_why(struct harness *h)
{
    for (int i = 0; i < LENGTH(wrong); i++) {
        struct call *c = call_open(h, GRAM_F64);
        gram_status status;

        wrong[i].spoil(c);
        status = call_run(h, c);
        CHECK(h, status == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), wrong[i].says),
              "%s: %s", wrong[i].says, gram_message(h->g));
        CHECK(h, c->alpha[0] == 7, "%s: alpha was written", wrong[i].says);
        free(c);
    }
}

static const struct test_function tests[] = {
    {              "solves",               solves},
    {               "draws",                draws},
    {             "refines",              refines},
    {              "limits",               limits},
    {       "nothing_to_do",        nothing_to_do},
 /* On the CPU alone: */
    {      "without_memory",       without_memory},
    {"refuses_and_says_why", refuses_and_says_why},
};

int main(void)
{
    return harness_run_tests_or_some(tests, LENGTH(tests), LENGTH(tests) - 2);
}
