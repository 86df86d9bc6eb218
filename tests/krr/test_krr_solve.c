/*
 * test_krr_solve.c - gram_krr_solve against Cholesky in long double, its certificate, all trouble
 *
 * GRAM_TEST_DEVICE is as in run_cases.c; on a device: what depends on it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include "tests/krr/krr_numbers.h"
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_N = 120,
    WIDTH = 3,
    COLUMNS = 3,
    PAD = 2 /* of a row of y and alpha */
};

/* A call and all that it is given; arrays are of either dtype. */
struct call {
    int64_t n, columns;
    gram_dtype dtype, alpha_dtype;
    double x[MOST_N * WIDTH], y[MOST_N * (COLUMNS + PAD)], alpha[MOST_N * (COLUMNS + PAD)];
    double weights[MOST_N];
    gram_tensor x_tensor, y_tensor, alpha_tensor, weights_tensor;
    gram_kernel_options kernel;
    gram_krr_options options;
    gram_krr_report report;
    double k[MOST_N * MOST_N]; /* f64, of x as the dtype rounds it */
};

static struct call *call_open(struct harness *h, gram_dtype dtype, int64_t n, int64_t columns)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c)
        harness_end_without_memory("a call");
    c->n = n;
    c->columns = columns;
    c->dtype = c->alpha_dtype = dtype;
    c->kernel = gram_gaussian(1);
    c->options = (gram_krr_options)GRAM_KRR_OPTIONS_INIT;
    c->options.ridge = 1e-2;
    c->options.tolerance = 1e-4;
    c->report.size = sizeof c->report;
    c->options.report = &c->report;
    for (int64_t i = 0; i < n * WIDTH; i++)
        set_number(dtype, c->x, i, 4 * test_uniform(h) - 2);
    for (int64_t i = 0; i < MOST_N * (COLUMNS + PAD); i++) {
        set_number(dtype, c->y, i, test_uniform(h) - 0.3);
        set_number(dtype, c->alpha, i, 7);
    }
    for (int64_t i = 0; i < n; i++)
        set_number(dtype, c->weights, i, 0.5 + 2 * test_uniform(h));
    c->x_tensor = gram_matrix(c->x, n, WIDTH, dtype);
    c->y_tensor = gram_matrix(c->y, n, columns, dtype);
    c->alpha_tensor = gram_matrix(c->alpha, n, columns, dtype);
    c->y_tensor.stride[0] = c->alpha_tensor.stride[0] = COLUMNS + PAD;
    c->weights_tensor = gram_matrix(c->weights, n, 1, dtype);
    c->weights_tensor.ndim = 1;
    return c;
}

static void wide_alpha(struct call *c)
{
    c->alpha_dtype = c->alpha_tensor.dtype = GRAM_F64;
    for (int64_t i = 0; i < MOST_N * (COLUMNS + PAD); i++)
        c->alpha[i] = 7;
}

static gram_status call_run(struct harness *h, struct call *c)
{
    gram_tensor x = c->x_tensor, y = c->y_tensor, alpha = c->alpha_tensor, w = c->weights_tensor;
    gram_krr_options options = c->options;
    gram_status status;

    if (h->device.type == GRAM_CPU)
        return gram_krr_solve(h->g, &x, &c->kernel, &y, &options, &alpha);
    upload(h, &x, sizeof c->x);
    upload(h, &y, sizeof c->y);
    upload(h, &alpha, sizeof c->alpha);
    upload(h, &w, sizeof c->weights);
    if (options.weights)
        options.weights = &w;
    status = gram_krr_solve(h->g, &x, &c->kernel, &y, &options, &alpha);
    if (!device_download(c->alpha, alpha.data, sizeof c->alpha))
        abort();
    gram_memory_free(h->g, x.data, sizeof c->x);
    gram_memory_free(h->g, y.data, sizeof c->y);
    gram_memory_free(h->g, alpha.data, sizeof c->alpha);
    gram_memory_free(h->g, w.data, sizeof c->weights);
    return status;
}

/* ---- The truth ------------------------------------------------------------------------------- */

static double y_at(const struct call *c, int64_t i, int64_t j)
{
    return get_number(c->dtype, c->y, i * c->y_tensor.stride[0] + j * c->y_tensor.stride[1]);
}

static double alpha_at(const struct call *c, int64_t i, int64_t j)
{
    return get_number(c->alpha_dtype, c->alpha,
                      i * c->alpha_tensor.stride[0] + j * c->alpha_tensor.stride[1]);
}

static double ridge_at(const struct call *c, int64_t i)
{
    return c->options.ridge / (c->options.weights ? get_number(c->dtype, c->weights, i) : 1);
}

/* K of x in f64, by the CPU. */
static void fill_kernel(struct call *c)
{
    gram_context *g;
    double x[MOST_N * WIDTH];
    gram_tensor points = gram_matrix(x, c->n, WIDTH, GRAM_F64);
    gram_tensor k = gram_matrix(c->k, c->n, c->n, GRAM_F64);

    for (int64_t i = 0; i < c->n * WIDTH; i++)
        x[i] = get_number(c->dtype, c->x, i);
    if (gram_context_create(NULL, &g) != GRAM_OK ||
        gram_kernel(g, &points, NULL, &c->kernel, &k) != GRAM_OK)
        abort();
    gram_context_destroy(g);
}

/* alpha of column j by Cholesky in long double; false if the matrix is not positive definite. */
static bool exact(const struct call *c, int64_t j, long double *alpha)
{
    const int64_t n = c->n;
    long double *l = calloc((size_t)(n * n + 1), sizeof *l);
    bool definite = l != NULL;

    for (int64_t i = 0; i < n && definite; i++)
        for (int64_t k = 0; k <= i && definite; k++) {
            long double sum = (long double)c->k[i * n + k];
            if (i == k)
                sum += (long double)ridge_at(c, i);
            for (int64_t m = 0; m < k; m++)
                sum -= l[i * n + m] * l[k * n + m];
            definite = i != k || sum > 0;
            l[i * n + k] = i == k ? sqrtl(sum) : sum / l[k * n + k];
        }
    for (int64_t i = 0; i < n && definite; i++) {
        long double sum = (long double)y_at(c, i, j);
        for (int64_t m = 0; m < i; m++)
            sum -= l[i * n + m] * alpha[m];
        alpha[i] = sum / l[i * n + i];
    }
    for (int64_t i = n - 1; i >= 0 && definite; i--) {
        for (int64_t m = i + 1; m < n; m++)
            alpha[i] -= l[m * n + i] * alpha[m];
        alpha[i] /= l[i * n + i];
    }
    free(l);
    return definite;
}

struct truth {
    double residual, residual_rms, prediction_rms, prediction_most;
};

/* What the answer in c is wrong by: the largest numbers over the columns. */
static struct truth truth_of(struct harness *h, struct call *c)
{
    struct truth t = {0};
    long double alpha[MOST_N] = {0};

    fill_kernel(c);
    for (int64_t j = 0; j < c->columns; j++) {
        long double r2 = 0, y2 = 0, p2 = 0;
        CHECK(h, exact(c, j, alpha), "the problem is not positive definite");
        for (int64_t i = 0; i < c->n; i++) {
            long double r = (long double)y_at(c, i, j), change = 0;
            y2 += r * r;
            r -= (long double)ridge_at(c, i) * (long double)alpha_at(c, i, j);
            for (int64_t m = 0; m < c->n; m++) {
                long double k = (long double)c->k[i * c->n + m];
                r -= k * (long double)alpha_at(c, m, j);
                change += k * (alpha[m] - (long double)alpha_at(c, m, j));
            }
            r2 += r * r;
            p2 += change * change;
            t.prediction_most = fmax(t.prediction_most, fabs((double)change));
        }
        t.residual = fmax(t.residual, y2 > 0 ? sqrt((double)(r2 / y2)) : 0);
        t.residual_rms = fmax(t.residual_rms, sqrt((double)(r2 / c->n)));
        t.prediction_rms = fmax(t.prediction_rms, sqrt((double)(p2 / c->n)));
    }
    return t;
}

/* The report bounds the truth, and its residual is no idle number. */
static struct truth check_certificate(struct harness *h, struct call *c)
{
    struct truth t = truth_of(h, c);
    const gram_krr_report *r = &c->report;
    double eps = 1e-13;

    CHECK(h, r->residual >= t.residual * (1 - eps) && r->residual_rms >= t.residual_rms * (1 - eps),
          "the residual is %g, reported %g", t.residual, r->residual);
    CHECK(h, r->residual <= 1.001 * t.residual + 1e-10 / fmin(1, c->options.ridge),
          "the residual is %g, reported %g", t.residual, r->residual);
    CHECK(h, r->prediction_rms >= t.prediction_rms * (1 - eps), "predictions: %g, bound %g",
          t.prediction_rms, r->prediction_rms);
    CHECK(h, r->prediction_sup >= t.prediction_most * (1 - eps), "a prediction: %g, bound %g",
          t.prediction_most, r->prediction_sup);
    return t;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64};
static const gram_krr_method methods[] = {GRAM_KRR_AUTO, GRAM_KRR_CHOLESKY, GRAM_KRR_CG};
static const int64_t sizes[] = {1, 2, 7, 64, 119};

static void solved(struct harness *h, struct call *c, gram_krr_method method)
{
    gram_status status = call_run(h, c);
    struct truth t = check_certificate(h, c);

    CHECK(h, status == GRAM_OK && c->report.reached && c->report.end == GRAM_KRR_REACHED,
          "n = %lld: %s, %s", (long long)c->n, gram_status_name(status), gram_message(h->g));
    CHECK(h, t.residual <= c->options.tolerance, "n = %lld: the residual is %g", (long long)c->n,
          t.residual);
    CHECK(h, method == GRAM_KRR_AUTO || c->report.method == method, "the method is %d",
          (int)c->report.method);
    CHECK(h, c->report.products > 0 && c->report.seconds >= 0, "%lld products",
          (long long)c->report.products);
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t j = c->columns; j < COLUMNS + PAD; j++)
            CHECK(h, get_number(c->alpha_dtype, c->alpha, i * (COLUMNS + PAD) + j) == 7,
                  "alpha was written beyond its columns");
}

static void solves(struct harness *h)
{
    for (int d = 0; d < LENGTH(dtypes); d++)
        for (int m = 0; m < LENGTH(methods); m++)
            for (int s = 0; s < LENGTH(sizes); s++)
                for (int weighted = 0; weighted < 2; weighted++) {
                    struct call *c = call_open(h, dtypes[d], sizes[s], 1 + (m + s) % COLUMNS);

                    c->options.method = methods[m];
                    if (weighted)
                        c->options.weights = &c->weights_tensor;
                    solved(h, c, methods[m]);
                    free(c);
                }
}

/* Vectors, columns one after the other, rows from the last to the first. */
static void any_layout(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F64, 40, 1);

    c->y_tensor.ndim = c->alpha_tensor.ndim = 1;
    solved(h, c, GRAM_KRR_AUTO);
    free(c);
    c = call_open(h, GRAM_F32, 40, 2);
    c->y_tensor.stride[0] = 1, c->y_tensor.stride[1] = 40;
    c->options.method = GRAM_KRR_CG;
    solved(h, c, GRAM_KRR_CG);
    free(c);
    c = call_open(h, GRAM_F64, 40, 2);
    c->x_tensor.stride[0] = 1, c->x_tensor.stride[1] = 40;
    c->options.method = GRAM_KRR_CG;
    CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
    for (int64_t i = 0; i < 40 * WIDTH; i++) /* the same points by rows, for the truth */
        c->y[40 * (COLUMNS + PAD) + i] = c->x[i];
    for (int64_t i = 0; i < 40; i++)
        for (int64_t k = 0; k < WIDTH; k++)
            c->x[i * WIDTH + k] = c->y[40 * (COLUMNS + PAD) + k * 40 + i];
    check_certificate(h, c);
    free(c);
}

/* The report's bounds are above the truth in all of some hundreds of problems, which end at
 * different tolerances and limits, and are useful in the middle. */
static void certificates(struct harness *h)
{
    static const double ridges[] = {10, 1, 1e-1, 1e-2, 1e-4, 1e-6};
    static const int64_t ranks[] = {-1, 1, 20, 1000};
    int count = 0; /* emulated, a part of them is enough */
    double ratios[400];

    for (int kernel = 0; kernel < KERNELS; kernel += h->device.type == GRAM_CPU ? 1 : 3)
        for (int ridge = 0; ridge < LENGTH(ridges); ridge++)
            for (int d = 0; d < LENGTH(dtypes); d++)
                for (int r = 0; r < LENGTH(ranks); r += h->device.type == GRAM_CPU ? 1 : 3) {
                    struct call *c = call_open(h, dtypes[d], 30 + 7 * kernel, 1 + r % 2);
                    struct truth t;

                    c->kernel = kernel_of(kernel);
                    c->options.ridge = ridges[ridge];
                    c->options.method = (ridge + r) % 5 == 0 ? GRAM_KRR_CHOLESKY : GRAM_KRR_CG;
                    c->options.rank = ranks[r];
                    c->options.tolerance = pow(10, -1 - count % 4);
                    c->options.products = count % 3 == 0 ? 5 : 0;
                    if (count % 4 == 1)
                        c->options.weights = &c->weights_tensor;
                    call_run(h, c);
                    t = check_certificate(h, c);
                    if (t.prediction_rms > 0 && count < LENGTH(ratios))
                        ratios[count++] = c->report.prediction_rms / t.prediction_rms;
                    free(c);
                }
    for (int i = 0; i < count; i++) /* the median, by counting */
        for (int j = i + 1; j < count; j++)
            if (ratios[j] < ratios[i]) {
                double swap = ratios[i];
                ratios[i] = ratios[j], ratios[j] = swap;
            }
    CHECK(h, count >= 60, "%d problems", count);
    CHECK(h, ratios[count / 2] < 5, "the median of bound / truth is %g", ratios[count / 2]);
}

/* A ridge that f32 cannot reach, and refinement can. */
static void refines(struct harness *h)
{
    for (int refine = 0; refine < 2; refine++) {
        struct call *c = call_open(h, GRAM_F32, 100, 2);
        gram_status status;

        c->options.method = GRAM_KRR_CG;
        c->options.ridge = 1e-5;
        c->options.tolerance = 1e-9;
        c->options.refine = refine;
        if (refine)
            wide_alpha(c);
        status = call_run(h, c);
        check_certificate(h, c);
        CHECK(h, c->report.reached == refine && (status == GRAM_OK) == refine,
              "refine = %d: the residual is %g", refine, c->report.residual);
        CHECK(h, refine || c->report.end == GRAM_KRR_ROUNDING, "the end is %d", (int)c->report.end);
        CHECK(h, refine || strstr(gram_message(h->g), "options.refine"), "%s", gram_message(h->g));
        free(c);
    }
}

/* Rows that are there four times with other targets, and a ridge far below what f32 has of the
 * diagonal: conjugate gradients by products in f32 alone stall, whatever refines them. */
static void reaches_a_small_ridge_in_f32(struct harness *h)
{
    static const double ridges[] = {1e-5, 1e-7, 1e-9};
    const bool large = h->device.type == GRAM_CPU;

    for (size_t t = large ? 0 : 2; t < sizeof ridges / sizeof *ridges; t++) {
        struct call *c = call_open(h, GRAM_F32, large ? MOST_N : 48, large ? 2 : 1);
        gram_status status;

        for (int64_t i = c->n / 4 * WIDTH; i < c->n * WIDTH; i++)
            set_number(c->dtype, c->x, i, get_number(c->dtype, c->x, i % (c->n / 4 * WIDTH)));
        c->options.method = GRAM_KRR_CG;
        c->options.ridge = ridges[t];
        c->options.rank = 10;
        c->options.tolerance = 1e-4;
        c->options.refine = 1;
        wide_alpha(c);
        status = call_run(h, c);
        CHECK(h, status == GRAM_OK && c->report.reached, "ridge %g: the residual is %g: %s",
              ridges[t], c->report.residual, gram_message(h->g));
        check_certificate(h, c);
        free(c);
    }
}

/* The tolerance is one of the error of predictions. */
static void held_out(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F64, 100, 2);

    c->options.method = GRAM_KRR_CG;
    c->options.weights = &c->weights_tensor;
    c->options.tolerance = 0;
    c->options.held_out_rmse = 0.1;
    CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
    check_certificate(h, c);
    CHECK(h, c->report.prediction_rms <= 0.03 * 0.1 && c->report.prediction_rms > 1e-9,
          "the bound is %g", c->report.prediction_rms);
    free(c);
}

static void limits(struct harness *h)
{
    static const char *const says[] = {"options.products are used up", "options.time_limit"};

    for (int which = 0; which < 2; which++) {
        struct call *c = call_open(h, GRAM_F64, 110, 1);
        gram_status status;

        c->options.method = GRAM_KRR_CG;
        c->options.rank = -1;
        c->options.tolerance = 1e-12;
        if (which == 0)
            c->options.products = 30;
        else
            c->options.time_limit = 1e-9;
        status = call_run(h, c);
        CHECK(h, status == GRAM_NUMERICAL && strstr(gram_message(h->g), says[which]), "%s",
              gram_message(h->g));
        CHECK(h, !c->report.reached && c->report.end == (which ? GRAM_KRR_TIME : GRAM_KRR_PRODUCTS),
              "the end is %d", (int)c->report.end);
        CHECK(h, which || c->report.products <= 30, "%lld products", (long long)c->report.products);
        CHECK(h, which ? c->report.residual <= 1.001 : c->report.residual < 1,
              "the best answer has %g", c->report.residual);
        check_certificate(h, c);
        free(c);
    }
}

/* Where f32 sees a singular matrix, rounds have a limit of their own.  An answer that ends there is
 * told as one of rounding: options.products are left. */
static void limit_of_a_round(struct harness *h)
{
    static const double ridges[] = {1e-5, 1e-7, 1e-9};
    const bool cpu = h->device.type == GRAM_CPU; /* else one of them is enough */
    int by_rounds = 0;

    for (int i = 0; i < (cpu ? LENGTH(ridges) : 1); i++) {
        struct call *c = call_open(h, GRAM_F32, 100, 1);

        c->options.method = GRAM_KRR_CG;
        c->options.ridge = ridges[i];
        c->options.tolerance = 1e-9;
        c->options.rank = 20;
        c->options.products = 1000;
        CHECK(h, call_run(h, c) == GRAM_NUMERICAL && !c->report.reached, "%s", gram_message(h->g));
        CHECK(h, c->report.end == GRAM_KRR_ROUNDING || c->report.products > 950,
              "the end is %d after %lld products", (int)c->report.end,
              (long long)c->report.products);
        CHECK(h,
              c->report.end != GRAM_KRR_ROUNDING ||
                  strstr(gram_message(h->g), "singular to working precision"),
              "%s", gram_message(h->g));
        by_rounds += c->report.products > 600 && c->report.products < 650;
        check_certificate(h, c);
        free(c);
    }
    CHECK(h, by_rounds > 0 || !cpu, "no problem took all iterations of all rounds");
}

static void warm_starts(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F64, 110, 2);
    int64_t cold;

    c->options.method = GRAM_KRR_CG;
    c->options.rank = -1;
    CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
    cold = c->report.products;
    c->options.warm_start = 1;
    CHECK(h, call_run(h, c) == GRAM_OK && c->report.products == 1 && cold > 5,
          "%lld products, %lld without a guess", (long long)c->report.products, (long long)cold);
    check_certificate(h, c);
    free(c);
}

/* Without a guess the residual that the iteration begins with is y, for which no product is spent:
 * a guess of zeros takes the same steps with one product more. */
static void the_first_residual_takes_no_product(struct harness *h)
{
    for (int blocks = 0; blocks < 2; blocks++) {
        struct call *c = call_open(h, GRAM_F64, MOST_N, 2);
        double alpha[LENGTH(c->alpha)];
        int64_t products;

        c->options.method = blocks ? GRAM_KRR_BLOCKS : GRAM_KRR_CG;
        CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
        products = c->report.products;
        memcpy(alpha, c->alpha, sizeof alpha);
        memset(c->alpha, 0, sizeof c->alpha);
        c->options.warm_start = 1;
        CHECK(h, call_run(h, c) == GRAM_OK && c->report.products == products + 1,
              "%lld and %lld products", (long long)products, (long long)c->report.products);
        for (int64_t i = 0; i < c->n; i++)
            for (int64_t j = 0; j < c->columns; j++)
                CHECK(h, alpha_at(c, i, j) == alpha[i * (COLUMNS + PAD) + j], "row %lld",
                      (long long)i);
        free(c);
    }
}

/* Conjugate gradients find that a kernel is not positive definite, with a preconditioner too, and
 * so does a factorisation. */
static void indefinite(struct harness *h)
{
    for (int m = 1; m <= LENGTH(methods); m++) {
        struct call *c = call_open(h, GRAM_F64, 60, 1);
        gram_status status;

        c->options.method = methods[m == LENGTH(methods) ? m - 1 : m];
        c->options.ridge = 1e-3;
        c->options.rank = m == LENGTH(methods) ? 10 : -1;
        c->kernel.function = GRAM_EXPRESSION;
        c->kernel.expression = "1 - 0.5 * s";
        status = call_run(h, c);
        CHECK(h,
              status == GRAM_NUMERICAL && strstr(gram_message(h->g), "is not positive definite") &&
                  strstr(gram_message(h->g), "gram_krr_solve: "),
              "%s", gram_message(h->g));
        CHECK(h, c->report.end == GRAM_KRR_INDEFINITE && !c->report.reached, "the end is %d",
              (int)c->report.end);
        CHECK(h, isnan(alpha_at(c, 0, 0)) == (c->options.method == GRAM_KRR_CHOLESKY),
              "alpha is %g", alpha_at(c, 0, 0));
        free(c);
    }
    struct call *c = call_open(h, GRAM_F64, 20, 1);
    c->kernel.inner = GRAM_DOT;
    c->kernel.function = GRAM_POLYNOMIAL;
    c->kernel.gamma = gram_number(-1);
    c->kernel.degree = gram_number(1);
    CHECK(h, call_run(h, c) == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), "k(x, x) is -"),
          "%s", gram_message(h->g));
    free(c);
}

/* Every row twice and a ridge of 0: solved where both have the same target, and else as far as
 * there is an answer. */
static void without_a_ridge(struct harness *h)
{
    for (int same = 0; same < 2; same++) {
        struct call *c = call_open(h, GRAM_F64, 40, 1);
        gram_status status;
        double best = 0, sum = 0;

        c->options.ridge = 0;
        c->kernel = gram_lpq_laplace(2, 1, 0.5);
        for (int64_t i = 0; i < 20; i++) {
            double y = y_at(c, i, 0), other = same ? y : y_at(c, i + 20, 0);
            memcpy(c->x + (i + 20) * WIDTH, c->x + i * WIDTH, WIDTH * sizeof(double));
            c->y[(i + 20) * (COLUMNS + PAD)] = other;
            best += (y - other) * (y - other) / 2;
            sum += y * y + other * other;
        }
        status = call_run(h, c);
        CHECK(h, (status == GRAM_OK) == same && c->report.reached == same, "%s, residual %g",
              gram_message(h->g), c->report.residual);
        CHECK(h, same || strstr(gram_message(h->g), "singular to working precision"), "%s",
              gram_message(h->g));
        CHECK(h, c->report.residual <= 1.2 * sqrt(best / sum) + 1e-4,
              "the residual is %g, possible is %g", c->report.residual, sqrt(best / sum));
        CHECK(h, isinf(c->report.prediction_sup) || c->report.residual == 0, "the bound is %g",
              c->report.prediction_sup);
        free(c);
    }
}

static void nothing_to_do(struct harness *h)
{
    for (int which = 0; which < 2; which++) {
        struct call *c = call_open(h, GRAM_F32, which ? 5 : 0, which ? 0 : 2);

        CHECK(h, call_run(h, c) == GRAM_OK && c->report.reached && c->report.residual == 0,
              "%s, %g", gram_message(h->g), c->report.residual);
        free(c);
    }
    struct call *c = call_open(h, GRAM_F64, 30, 2);
    c->options.method = GRAM_KRR_CG;
    for (int64_t i = 0; i < 30; i++)
        c->y[i * (COLUMNS + PAD) + 1] = 0;
    solved(h, c, GRAM_KRR_CG);
    for (int64_t i = 0; i < 30; i++)
        CHECK(h, alpha_at(c, i, 1) == 0, "y is 0, and alpha is %g", alpha_at(c, i, 1));
    free(c);
}

static void same_bits_with_any_threads(struct harness *h)
{
    struct call *one = call_open(h, GRAM_F32, 119, 2), *two = calloc(1, sizeof *two);
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g;

    if (!two)
        harness_end_without_memory("a call");
    options.threads = 1;
    one->options.method = GRAM_KRR_CG;
    one->options.report = NULL;
    memcpy(two, one, sizeof *two);
    CHECK(h, gram_context_create(&options, &g) == GRAM_OK, "no context");
    CHECK(h, call_run(h, one) == GRAM_OK, "%s", gram_message(h->g));
    two->x_tensor.data = two->x, two->y_tensor.data = two->y, two->alpha_tensor.data = two->alpha;
    CHECK(h,
          gram_krr_solve(g, &two->x_tensor, &two->kernel, &two->y_tensor, &two->options,
                         &two->alpha_tensor) == GRAM_OK,
          "%s", gram_message(g));
    CHECK(h, !memcmp(one->alpha, two->alpha, sizeof one->alpha), "other bits");
    gram_context_destroy(g);
    free(one);
    free(two);
}

static void without_memory(struct harness *h)
{
    for (int m = 1; m < LENGTH(methods); m++) {
        struct call *c = call_open(h, GRAM_F32, 40, 2);
        gram_status status = GRAM_OUT_OF_MEMORY;
        bool failed;

        c->options.method = methods[m];
        for (int64_t fail_at = 1; status == GRAM_OUT_OF_MEMORY && fail_at < 300; fail_at++) {
            status = run_failing(h, fail_at, call_run, c, &failed);
            CHECK(h, status == GRAM_OK || (failed && alpha_at(c, 0, 0) == 7),
                  "allocation %lld: %s, alpha %g", (long long)fail_at, gram_status_name(status),
                  alpha_at(c, 0, 0));
        }
        CHECK(h, status == GRAM_OK, "%s", gram_status_name(status));
        free(c);
    }
}

static void cancelled(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F64, 100, 1);

    c->options.method = GRAM_KRR_CG;
    gram_context_cancel(h->g);
    CHECK(h, call_run(h, c) == GRAM_CANCELLED && alpha_at(c, 0, 0) == 7, "%s, alpha %g",
          gram_message(h->g), alpha_at(c, 0, 0));
    CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
    free(c);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void negative_ridge(struct call *c)
{
    c->options.ridge = -1;
}

static void nan_tolerance(struct call *c)
{
    c->options.tolerance = NAN;
}

static void bad_method(struct call *c)
{
    c->options.method = (gram_krr_method)9;
}

static void bad_rank(struct call *c)
{
    c->options.rank = -2;
}

static void negative_products(struct call *c)
{
    c->options.products = -1;
}

static void nan_in_x(struct call *c)
{
    c->x[4] = NAN;
}

static void nan_in_y(struct call *c)
{
    c->y[COLUMNS + PAD + 1] = NAN;
}

static void no_weight(struct call *c)
{
    c->options.weights = &c->weights_tensor;
    c->weights[3] = 0;
}

static void few_weights(struct call *c)
{
    c->options.weights = &c->weights_tensor;
    c->weights_tensor.shape[0] = 9;
}

static void few_rows(struct call *c)
{
    c->y_tensor.shape[0] = 9;
}

static void more_columns(struct call *c)
{
    c->alpha_tensor.shape[1] = 3;
}

static void alpha_over_y(struct call *c)
{
    c->alpha_tensor.data = c->y_tensor.data;
}

static void regularized(struct call *c)
{
    c->kernel.regularization = gram_number(1);
}

static void a_derivative(struct call *c)
{
    c->kernel.output = GRAM_BANDWIDTH_DERIVATIVE;
}

static gram_distance kullback_leibler = {.size = sizeof kullback_leibler,
                                         .kind = GRAM_DISTANCE_KULLBACK_LEIBLER};

static void another_way_back(struct call *c)
{
    c->kernel.metric = &kullback_leibler;
}

static void beside_the_diagonal(struct call *c)
{
    c->kernel.row_offset = 2;
}

static void by_one_norm(struct call *c)
{
    c->kernel.function = GRAM_EXPRESSION;
    c->kernel.expression = "exp(-s) * norm_x";
}

static void narrow_output(struct call *c)
{
    c->alpha_tensor.dtype = GRAM_F32;
}

static void report_without_size(struct call *c)
{
    c->report.size = 0;
}

static const struct {
    void (*spoil)(struct call *c);
    const char *says;
} wrong[] = {
    {     negative_ridge,                         "options.ridge is -1"},
    {      nan_tolerance,                       "options.tolerance is "},
    {         bad_method,                         "options.method is 9"},
    {           bad_rank,                          "options.rank is -2"},
    {  negative_products,                      "options.products is -1"},
    {           nan_in_x,                                  "x[1, 1] is"},
    {           nan_in_y,                                  "y[1, 1] is"},
    {          no_weight,                     "options.weights[3] is 0"},
    {        few_weights, "options.weights is 9 by 1, expected 10 by 1"},
    {           few_rows,              "y has 9 rows, expected 10 as x"},
    {       more_columns,          "alpha is 10 by 3, expected 10 by 2"},
    {       alpha_over_y,                                       "alpha"},
    {        regularized,      "kernel.regularization is 1, expected 0"},
    {       a_derivative,     "kernel.output is 2, expected GRAM_VALUE"},
    {   another_way_back,                      "_KULLBACK_LEIBLER, exp"},
    {beside_the_diagonal,           "row_offset is 2 and kernel.column"},
    {        by_one_norm,        "kernel.expression is not symmetric: "},
    {      narrow_output,                         "alpha has dtype f32"},
    {report_without_size,                   "options.report has size 0"},
};

static void refuses_and_says_why(struct harness *h)
{
    for (int i = 0; i < LENGTH(wrong); i++) {
        struct call *c = call_open(h, GRAM_F64, 10, 2);
        gram_status status;

        wrong[i].spoil(c);
        status = call_run(h, c);
        CHECK(h, status == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), wrong[i].says),
              "%s: %s", wrong[i].says, gram_message(h->g));
        CHECK(h, get_number(GRAM_F64, c->alpha, 0) == 7, "%s: alpha was written", wrong[i].says);
        free(c);
    }
}

static const struct test_function tests[] = {
    {                             "solves",                              solves},
    {                         "any_layout",                          any_layout},
    {                       "certificates",                        certificates},
    {                            "refines",                             refines},
    {       "reaches_a_small_ridge_in_f32",        reaches_a_small_ridge_in_f32},
    {                           "held_out",                            held_out},
    {                             "limits",                              limits},
    {                   "limit_of_a_round",                    limit_of_a_round},
    {                        "warm_starts",                         warm_starts},
    {"the_first_residual_takes_no_product", the_first_residual_takes_no_product},
    {                         "indefinite",                          indefinite},
    {                    "without_a_ridge",                     without_a_ridge},
    {                      "nothing_to_do",                       nothing_to_do},
    {                          "cancelled",                           cancelled},
 /* On the CPU alone: */
    {         "same_bits_with_any_threads",          same_bits_with_any_threads},
    {                     "without_memory",                      without_memory},
    {               "refuses_and_says_why",                refuses_and_says_why},
};

int main(void)
{
    return harness_run_tests_or_some(tests, LENGTH(tests), LENGTH(tests) - 3);
}
