/*
 * test_krr_rank.c - the preconditioner of gram_krr_solve, where it grows while the solve goes on
 *
 * GRAM_TEST_DEVICE is as in run_cases.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/core/scratch_folder.h"
#include "tests/krr/krr_numbers.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

enum {
    N = 400,
    WIDTH = 12,
    COLUMNS = 2,
    FIRST_RANK = 200 /* by the number of rows */
};

struct call {
    gram_dtype dtype;
    double x[N * WIDTH], y[N * COLUMNS], alpha[N * COLUMNS];
    gram_distance metric; /* whose products are counted as dear */
    gram_kernel_options kernel;
    gram_krr_options options;
    gram_krr_report report;
    char path[SCRATCH_BYTES];
};

static void call_open(struct call *c, gram_dtype dtype)
{
    uint64_t numbers = 3;

    memset(c, 0, sizeof *c);
    c->dtype = dtype;
    c->metric = (gram_distance)GRAM_DISTANCE_INIT;
    c->kernel = gram_gaussian(5);
    c->options = (gram_krr_options)GRAM_KRR_OPTIONS_INIT;
    c->options.method = GRAM_KRR_CG;
    c->options.ridge = dtype == GRAM_F32 ? 2e-3 : 1e-4;
    c->options.tolerance = dtype == GRAM_F32 ? 1e-4 : 1e-7;
    for (int64_t i = 0; i < N * WIDTH; i++) {
        numbers = numbers * UINT64_C(6364136223846793005) + 1442695040888963407;
        set_number(dtype, c->x, i, 4 * (double)(numbers >> 40) * 0x1p-24 - 2);
    }
    for (int64_t i = 0; i < N; i++) {
        set_number(dtype, c->y, i * COLUMNS, sin(2 * get_number(dtype, c->x, i * WIDTH)));
        set_number(dtype, c->y, i * COLUMNS + 1, (double)(i % 7) - 3);
    }
}

static gram_status run(struct harness *h, struct call *c)
{
    gram_tensor x = gram_matrix(c->x, N, WIDTH, c->dtype);
    gram_tensor y = gram_matrix(c->y, N, COLUMNS, c->dtype);
    gram_tensor alpha = gram_matrix(c->alpha, N, COLUMNS, c->dtype);
    gram_krr_options options = c->options;
    gram_status status;

    c->kernel.metric = &c->metric;
    c->kernel.outer_power = gram_number(2); /* of the distance */
    c->report = (gram_krr_report){.size = sizeof c->report};
    options.report = &c->report;
    if (h->device.type == GRAM_CPU)
        return gram_krr_solve(h->g, &x, &c->kernel, &y, &options, &alpha);
    upload(h, &x, sizeof c->x);
    upload(h, &y, sizeof c->y);
    upload(h, &alpha, sizeof c->alpha);
    status = gram_krr_solve(h->g, &x, &c->kernel, &y, &options, &alpha);
    if (gram_memory_copy(h->g, c->alpha, alpha.data, sizeof c->alpha) != GRAM_OK ||
        gram_context_synchronize(h->g) != GRAM_OK)
        abort();
    gram_memory_free(h->g, x.data, sizeof c->x);
    gram_memory_free(h->g, y.data, sizeof c->y);
    gram_memory_free(h->g, alpha.data, sizeof c->alpha);
    return status;
}

static void check_same(struct harness *h, const struct call *c, const struct call *other,
                       double bound)
{
    double most = 0, change = 0;

    for (int64_t i = 0; i < N * COLUMNS; i++) {
        const double one = get_number(c->dtype, c->alpha, i);
        most = fmax(most, fabs(one));
        change = fmax(change, fabs(one - get_number(c->dtype, other->alpha, i)));
    }
    CHECK(h, change <= bound * most, "alpha changes by %g of %g", change, most);
}

/* It needs fewer products than with the rank that it begins with, for the same answer, and each
 * time the same ones. */
static void it_grows_where_that_pays(struct harness *h)
{
    static struct call c, again, fixed;

    for (int f32 = 0; f32 < (h->device.type == GRAM_CPU ? 2 : 1); f32++) {
        call_open(&c, f32 ? GRAM_F32 : GRAM_F64);
        fixed = again = c;
        fixed.options.rank = FIRST_RANK;
        CHECK(h, run(h, &c) == GRAM_OK && run(h, &again) == GRAM_OK && run(h, &fixed) == GRAM_OK,
              "%s", gram_message(h->g));
        CHECK(h, fixed.report.rank == FIRST_RANK && (f32 || c.report.rank > FIRST_RANK),
              "the ranks are %lld and %lld", (long long)fixed.report.rank,
              (long long)c.report.rank);
        CHECK(h, f32 || c.report.products < fixed.report.products, "%lld products, and %lld",
              (long long)c.report.products, (long long)fixed.report.products);
        CHECK(h, c.report.rank == again.report.rank && c.report.products == again.report.products,
              "%lld and %lld products", (long long)c.report.products,
              (long long)again.report.products);
        check_same(h, &c, &again, 0);
        check_same(h, &c, &fixed, f32 ? 0.1 : 1e-3);
    }
}

/* A solve of few iterations has the preconditioner that it begins with. */
static void it_stays_where_that_is_enough(struct harness *h)
{
    static struct call c;

    call_open(&c, GRAM_F64);
    c.options.ridge = 10;
    c.options.tolerance = 1e-2;
    CHECK(h, run(h, &c) == GRAM_OK && c.report.rank == FIRST_RANK, "rank %lld: %s",
          (long long)c.report.rank, gram_message(h->g));
}

static void memory_is_its_limit(struct harness *h)
{
    static struct call c;

    call_open(&c, GRAM_F64);
    c.options.memory = 1;
    CHECK(h, run(h, &c) == GRAM_OK && c.report.rank == 100, "rank %lld: %s",
          (long long)c.report.rank, gram_message(h->g));
    c.options.memory = (int64_t)1 << 40;
    CHECK(h, run(h, &c) == GRAM_OK && c.report.rank > FIRST_RANK, "rank %lld: %s",
          (long long)c.report.rank, gram_message(h->g));
    c.options.memory = -1;
    CHECK(h,
          run(h, &c) == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), "options.memory is -1"),
          "%s", gram_message(h->g));
}

/* A checkpoint before, at and after the moment at which it grows; the seed is the file's. */
static void it_grows_where_it_is_gone_on_from(struct harness *h)
{
    static struct call whole, c;
    const int64_t step = h->device.type == GRAM_CPU ? 2 : 13; /* an emulated GPU is slow */

    call_open(&whole, GRAM_F64);
    whole.options.seed = 11;
    CHECK(h, run(h, &whole) == GRAM_OK && whole.report.rank > FIRST_RANK, "rank %lld: %s",
          (long long)whole.report.rank, gram_message(h->g));
    for (int64_t products = 7; products < whole.report.products - 2; products += step) {
        gram_status status;

        call_open(&c, GRAM_F64);
        c.options.seed = 11;
        c.options.checkpoint = scratch_path("grown", c.path);
        (void)unlink(c.path);
        c.options.products = products;
        status = run(h, &c);
        CHECK(h, status == GRAM_NUMERICAL && c.report.end == GRAM_KRR_PRODUCTS, "%s, %s",
              gram_status_name(status), gram_message(h->g));
        c.options.products = 0;
        c.options.resume = 1;
        c.options.seed = 12;
        c.options.rank = -1;
        CHECK(h, run(h, &c) == GRAM_OK && c.report.rank == whole.report.rank,
              "%lld products: rank %lld, expected %lld: %s", (long long)products,
              (long long)c.report.rank, (long long)whole.report.rank, gram_message(h->g));
        check_same(h, &whole, &c, 1e-3);
    }
}

static void memory_that_is_not_there(struct harness *h)
{
    static struct call c;
    bool failed = true;

    for (int64_t at = 1; failed; at += at < 40 ? 3 : 11) {
        gram_status status;

        call_open(&c, GRAM_F64);
        c.options.checkpoint = scratch_path("memory", c.path);
        status = run_failing(h, at, run, &c, &failed);
        CHECK(h, status == GRAM_OK || (failed && status == GRAM_OUT_OF_MEMORY), "%s, at %lld",
              gram_status_name(status), (long long)at);
    }
}

static const struct test_function tests[] = {
    {         "it_grows_where_that_pays",          it_grows_where_that_pays},
    {"it_grows_where_it_is_gone_on_from", it_grows_where_it_is_gone_on_from},
 /* On the CPU alone: */
    {    "it_stays_where_that_is_enough",     it_stays_where_that_is_enough},
    {              "memory_is_its_limit",               memory_is_its_limit},
    {         "memory_that_is_not_there",          memory_that_is_not_there},
};

int main(void)
{
    return scratch_run_tests_or_some(tests, LENGTH(tests), LENGTH(tests) - 3);
}
