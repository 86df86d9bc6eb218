/*
 * test_krr_blocks.c - gram_krr_solve by blocks, against its own Cholesky, and under limits
 *
 * GRAM_TEST_DEVICE is as in run_cases.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "tests/core/scratch_folder.h"
#include "tests/krr/krr_numbers.h"
#include <math.h>
#include <string.h>

enum {
    N = 700, /* two blocks of 256 and one of what is left */
    WIDTH = 3,
    COLUMNS = 2
};

struct call {
    gram_dtype dtype;
    int64_t n;
    double x[N * WIDTH], y[N * COLUMNS], weights[N], alpha[N * COLUMNS];
    bool weighted, wide_alpha;
    gram_kernel_options kernel;
    gram_krr_options options;
    gram_krr_report report;
};

static void call_open(struct call *c, gram_dtype dtype)
{
    memset(c, 0, sizeof *c);
    c->dtype = dtype;
    c->n = N;
    fill_numbers(dtype, 7, N, (int64_t[2]){WIDTH, COLUMNS}, c->x, c->y, c->weights);
    c->kernel = gram_gaussian(1);
    c->options = (gram_krr_options)GRAM_KRR_OPTIONS_INIT;
    c->options.method = GRAM_KRR_BLOCKS;
    c->options.ridge = 0.5;
    c->options.tolerance = dtype == GRAM_F32 ? 1e-4 : 1e-8;
}

static gram_status run(struct harness *h, struct call *c)
{
    gram_tensor x = gram_matrix(c->x, c->n, WIDTH, c->dtype);
    gram_tensor y = gram_matrix(c->y, c->n, COLUMNS, c->dtype);
    gram_tensor alpha = gram_matrix(c->alpha, c->n, COLUMNS, c->wide_alpha ? GRAM_F64 : c->dtype);
    gram_tensor weights = gram_vector(c->weights, c->n, c->dtype);
    gram_tensor *const all[] = {&x, &y, &alpha, &weights};
    const size_t bytes[] = {sizeof c->x, sizeof c->y, sizeof c->alpha, sizeof c->weights};
    gram_krr_options options = c->options;
    gram_status status;

    c->report = (gram_krr_report){.size = sizeof c->report};
    options.report = &c->report;
    options.weights = c->weighted ? &weights : NULL;
    for (int i = 0; i < LENGTH(all) && h->device.type != GRAM_CPU; i++)
        upload(h, all[i], bytes[i]);
    status = gram_krr_solve(h->g, &x, &c->kernel, &y, &options, &alpha);
    if (h->device.type == GRAM_CPU)
        return status;
    if (!device_download(c->alpha, alpha.data, sizeof c->alpha))
        abort();
    for (int i = 0; i < LENGTH(all); i++)
        gram_memory_free(h->g, all[i]->data, bytes[i]);
    return status;
}

/* Norms of what is left in f64 of a column, over that of y: what the certificate speaks of. */
static double residual_of(const struct call *c, int64_t column)
{
    double sum = 0, all = 0;

    for (int64_t i = 0; i < N; i++) {
        const double ridge =
            c->options.ridge / (c->weighted ? get_number(c->dtype, c->weights, i) : 1);
        const double y = get_number(c->dtype, c->y, i * COLUMNS + column);
        double r = y;

        for (int64_t j = 0; j < N; j++) {
            double d = 0, k;

            for (int k2 = 0; k2 < WIDTH; k2++)
                d += pow(get_number(c->dtype, c->x, i * WIDTH + k2) -
                             get_number(c->dtype, c->x, j * WIDTH + k2),
                         2);
            k = exp(-d / 2) + (i == j ? ridge : 0);
            r -=
                k * get_number(c->wide_alpha ? GRAM_F64 : c->dtype, c->alpha, j * COLUMNS + column);
        }
        sum += r * r;
        all += y * y;
    }
    return sqrt(sum / all);
}

static void check_certified(struct harness *h, const struct call *c, const char *what)
{
    double most = 0;

    for (int64_t j = 0; j < COLUMNS; j++)
        most = fmax(most, residual_of(c, j));
    CHECK(h, most <= 1.01 * c->report.residual + 1e-12, "%s: the residual is %g, and %g is said",
          what, most, c->report.residual);
}

static void it_reaches_a_tolerance(struct harness *h)
{
    static struct call c;

    for (int i = 0; i < (h->device.type == GRAM_CPU ? 4 : 2); i++) {
        call_open(&c, i % 2 ? GRAM_F32 : GRAM_F64);
        c.weighted = i > 1;
        if (i == 3) { /* rounding of f32 does not allow it without */
            c.options.tolerance = 1e-7;
            c.options.refine = 1;
            c.wide_alpha = true;
        }
        CHECK(h, run(h, &c) == GRAM_OK, "call %d: %s", i, gram_message(h->g));
        CHECK(h,
              c.report.reached && c.report.method == GRAM_KRR_BLOCKS && c.report.rank == 0 &&
                  c.report.residual <= c.options.tolerance && c.report.products > 3,
              "call %d: residual %g after %lld products", i, c.report.residual,
              (long long)c.report.products);
        check_certified(h, &c, "reached");
    }
}

/* With less time and fewer passes than it wants, it says so, and the answer is certified and better
 * than none. */
static void it_ends_at_limits(struct harness *h)
{
    static struct call c;

    for (int i = 0; i < 2; i++) {
        gram_status status;

        call_open(&c, GRAM_F64);
        c.options.ridge = 1e-3;
        c.options.tolerance = 1e-12;
        if (i == 0)
            c.options.products = 6;
        else
            c.options.time_limit = h->device.type == GRAM_CPU ? 0.2 : 3;
        status = run(h, &c);
        CHECK(h,
              status == GRAM_NUMERICAL && c.report.end == (i ? GRAM_KRR_TIME : GRAM_KRR_PRODUCTS) &&
                  strstr(gram_message(h->g), i ? "time_limit is over" : "products are used up"),
              "call %d: %s", i, gram_message(h->g));
        CHECK(h, c.report.residual <= 1 && (i || c.report.products <= 6),
              "call %d: residual %g after %lld products", i, c.report.residual,
              (long long)c.report.products);
        check_certified(h, &c, "limited");
    }
}

/* From an answer that is good enough nothing changes; the same seed gives the same bits. */
static void it_begins_where_it_is(struct harness *h)
{
    static struct call c, again;

    call_open(&c, GRAM_F64);
    CHECK(h, run(h, &c) == GRAM_OK, "%s", gram_message(h->g));
    call_open(&again, GRAM_F64);
    CHECK(h, run(h, &again) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, memcmp(c.alpha, again.alpha, sizeof c.alpha) == 0, "alpha differs");
    again.options.warm_start = 1;
    CHECK(h, run(h, &again) == GRAM_OK && again.report.products == 1, "%lld products",
          (long long)again.report.products);
    CHECK(h, memcmp(c.alpha, again.alpha, sizeof c.alpha) == 0, "alpha differs");
}

/* Each call does some blocks at least, and the next one goes on with the others. */
static void time_may_come_in_pieces(struct harness *h)
{
    static struct call c;
    char path[SCRATCH_BYTES];
    gram_status status = GRAM_NUMERICAL;
    int64_t products = 0;
    int calls = 0;

    call_open(&c, GRAM_F64);
    c.options.checkpoint = scratch_path("pieces", path);
    c.options.resume = 1;
    for (; calls < 500 && status == GRAM_NUMERICAL; calls++) {
        /* Seconds of a call that has loaded its rows, and of one that has not. */
        c.options.time_limit = h->device.type == GRAM_CPU ? 0.02 : 2;
        status = run(h, &c);
        CHECK(h, status == GRAM_OK || c.report.end == GRAM_KRR_TIME, "call %d: %s", calls,
              gram_message(h->g));
        CHECK(h, c.report.products >= products, "call %d: %lld products", calls,
              (long long)c.report.products);
        products = c.report.products - 2; /* but those that a limit alone has looked at */
    }
    CHECK(h, status == GRAM_OK && c.report.residual <= c.options.tolerance, "%d calls: %s", calls,
          gram_message(h->g));
    check_certified(h, &c, "pieces");
}

static void what_is_refused_and_nothing(struct harness *h)
{
    static struct call c;

    call_open(&c, GRAM_F64);
    c.options.method = (gram_krr_method)5;
    CHECK(h,
          run(h, &c) == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), "_CENTRES or _BLOCKS"),
          "%s", gram_message(h->g));
    call_open(&c, GRAM_F64);
    c.n = 0;
    CHECK(h, run(h, &c) == GRAM_OK && c.report.products == 0, "%s", gram_message(h->g));
    call_open(&c, GRAM_F64);
    c.n = 1;
    CHECK(h, run(h, &c) == GRAM_OK && c.report.reached, "%s", gram_message(h->g));
    call_open(&c, GRAM_F64);
    c.kernel.function = GRAM_SIGMOID;
    c.kernel.gamma = gram_number(3);
    c.kernel.coef0 = gram_number(1);
    c.options.ridge = 1e-3;
    CHECK(h,
          run(h, &c) == GRAM_NUMERICAL && c.report.end == GRAM_KRR_INDEFINITE &&
              strstr(gram_message(h->g), "of a block plus a ridge of 0.001 is not positive"),
          "%s", gram_message(h->g));
}

static const struct test_function tests[] = {
    {     "it_reaches_a_tolerance",      it_reaches_a_tolerance},
    {          "it_ends_at_limits",           it_ends_at_limits},
    {      "it_begins_where_it_is",       it_begins_where_it_is},
    {    "time_may_come_in_pieces",     time_may_come_in_pieces},
    {"what_is_refused_and_nothing", what_is_refused_and_nothing},
};

int main(void)
{
    return scratch_run_tests(tests, LENGTH(tests));
}
