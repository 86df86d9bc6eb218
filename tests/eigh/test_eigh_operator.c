/*
 * test_eigh_operator.c - matrices known by their products: what goes wrong, and what is refused
 *
 * GRAM_TEST_DEVICE is as in run_cases.c; on a device: what depends on it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_operator_call.h"
#include "tests/core/failing_alloc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool untouched(const struct operator_call *c)
{
    for (int i = 0; i < N * K; i++)
        if (c->v[i] != 0)
            return false;
    return c->w[0] == 0 && c->outcome == 0;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void finds_the_pairs(struct harness *h)
{
    double sorted[N];

    for (int i = 0; i < N; i++)
        sorted[i] = operator_entry(i);
    qsort(sorted, N, sizeof *sorted, compare_numbers);
    for (int smallest = 0; smallest < 2; smallest++) {
        struct operator_call *c = operator_call_open(h);
        c->options.select = smallest ? GRAM_EIGH_SMALLEST : GRAM_EIGH_LARGEST;
        CHECK(h, operator_call_run(h, c) == GRAM_OK && c->outcome == 0, "%s", gram_message(h->g));
        for (int j = 0; j < K; j++) {
            double expected = sorted[smallest ? j : N - K + j];
            CHECK(h, fabs(c->w[j] - expected) < 1e-10, "value %d is %.15g, expected %.15g", j,
                  c->w[j], expected);
        }
        CHECK(h, c->diagonal.by_rows, "a block of another shape");
        CHECK(h, c->report.products == c->diagonal.calls, "%lld products, %d calls",
              (long long)c->report.products, c->diagonal.calls);
        CHECK(h, c->report.residual > 0 && c->report.residual <= 2e-12, "%g", c->report.residual);
        free(c);
    }
}

static void products_that_fail(struct harness *h)
{
    struct operator_call *c = operator_call_open(h);

    c->diagonal.fail_at = 4;
    CHECK(h, operator_call_run(h, c) == GRAM_IO, "%s", gram_message(h->g));
    CHECK(h, strstr(gram_message(h->g), "a.apply returned GRAM_IO") != NULL, "%s",
          gram_message(h->g));
    CHECK(h, untouched(c), "outputs were written");
    c->diagonal = (struct diagonal){.nan_at = 3};
    CHECK(h,
          operator_call_run(h, c) == GRAM_OK && c->outcome == 2 && isnan(c->w[0]) && isnan(c->v[0]),
          "info %d, %g", c->outcome, c->w[0]);
    c->diagonal.calls = 0;
    c->with_info = NULL;
    CHECK(h, operator_call_run(h, c) == GRAM_NUMERICAL, "NaN without info");
    c->diagonal = (struct diagonal){0};
    c->options.products = 2;
    CHECK(h, operator_call_run(h, c) == GRAM_NUMERICAL, "few products without info");
    CHECK(h, strstr(gram_message(h->g), "did not converge") != NULL, "%s", gram_message(h->g));
    free(c);
}

static void cancelled(struct harness *h)
{
    struct operator_call *c = operator_call_open(h);

    c->diagonal.cancel_at = 3;
    CHECK(h, operator_call_run(h, c) == GRAM_CANCELLED, "%s", gram_message(h->g));
    CHECK(h, c->diagonal.calls <= 4 && untouched(c), "%d calls", c->diagonal.calls);
    CHECK(h, operator_call_run(h, c) == GRAM_OK, "the request was not taken: %s",
          gram_message(h->g));
    free(c);
    c = operator_call_open(h);
    gram_context_cancel(h->g);
    CHECK(h, operator_call_kernel(h, c) == GRAM_CANCELLED && untouched(c), "%s",
          gram_message(h->g));
    CHECK(h, operator_call_kernel(h, c) == GRAM_OK, "the request was not taken: %s",
          gram_message(h->g));
    free(c);
}

static void without_memory(struct harness *h)
{
    struct operator_call *c = operator_call_open(h);
    struct harness other = *h;
    int left = 100;
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;

    limited_alloc_use(&left, &o);
    o.threads = 2;
    if (CHECK(h, gram_context_create(&o, &other.g) == GRAM_OK, "%s", gram_message(NULL))) {
        left = 0;
        CHECK(h, operator_call_run(&other, c) == GRAM_OUT_OF_MEMORY && untouched(c), "%s",
              gram_message(other.g));
        CHECK(h, operator_call_kernel(&other, c) == GRAM_OUT_OF_MEMORY && untouched(c), "%s",
              gram_message(other.g));
        left = 1; /* scratch, but no threads: the caller does the work */
        CHECK(h, operator_call_kernel(&other, c) == GRAM_OK, "%s", gram_message(other.g));
        gram_context_destroy(other.g);
    }
    free(c);
}

static void same_bits_with_any_threads(struct harness *h)
{
    struct operator_call *c = operator_call_open(h);

    CHECK(h, operator_call_kernel(h, c) == GRAM_OK, "%s", gram_message(h->g));
    for (int threads = 1; threads < 4; threads += 2) {
        struct operator_call *d = operator_call_open(h);
        struct harness other = *h;
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        o.threads = threads;
        if (CHECK(h, gram_context_create(&o, &other.g) == GRAM_OK, "%s", gram_message(NULL))) {
            CHECK(h, operator_call_kernel(&other, d) == GRAM_OK, "%s", gram_message(other.g));
            CHECK(h, memcmp(c->w, d->w, sizeof c->w) == 0, "values, %d threads", threads);
            CHECK(h, memcmp(c->v, d->v, sizeof c->v) == 0, "vectors, %d threads", threads);
            gram_context_destroy(other.g);
        }
        free(d);
    }
    free(c);
}

/* Scratch is one allocation of exactly what the query says. */
static void exact_scratch(struct harness *h)
{
    struct operator_call *c = operator_call_open(h);
    gram_workspace need;
    void *memory;

    CHECK(h,
          gram_eigh_operator_workspace(h->g, &c->a, &c->options, &c->values, &c->vectors, &need) ==
              GRAM_OK,
          "%s", gram_message(h->g));
    memory = aligned_alloc(64, need.host_bytes);
    CHECK(h, need.device_bytes == 0 && need.host_bytes < 250 * N * sizeof(double) + (4 << 20),
          "%zu bytes", need.host_bytes);
    CHECK(h,
          gram_context_use_workspace(h->g, memory, need.host_bytes - 1) == GRAM_OK &&
              operator_call_run(h, c) == GRAM_OUT_OF_MEMORY,
          "one byte less was enough");
    CHECK(h,
          gram_context_use_workspace(h->g, memory, need.host_bytes) == GRAM_OK &&
              operator_call_run(h, c) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, gram_context_use_workspace(h->g, NULL, 0) == GRAM_OK, "%s", gram_message(h->g));
    free(memory);
    free(c);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void all_pairs(struct operator_call *c)
{
    c->options.select = GRAM_EIGH_ALL;
}

static void other_driver(struct operator_call *c)
{
    c->options.driver = GRAM_EIGH_DRIVER_DIVIDE;
}

static void negative_tolerance(struct operator_call *c)
{
    c->options.tolerance = -1;
}

static void nan_tolerance(struct operator_call *c)
{
    c->options.tolerance = NAN;
}

static void negative_products(struct operator_call *c)
{
    c->options.products = -1;
}

static void count_beyond_n(struct operator_call *c)
{
    c->options.count = N + 1;
}

static void other_count(struct operator_call *c)
{
    c->options.count = K - 1;
}

static void report_without_size(struct operator_call *c)
{
    c->report.size = 0;
}

static void found_is_given(struct operator_call *c)
{
    c->options.found = &c->info;
}

static void few_vectors(struct operator_call *c)
{
    c->vectors.shape[1] = K - 1;
}

static void values_of_floats(struct operator_call *c)
{
    c->values.dtype = GRAM_F32;
}

static void info_of_floats(struct operator_call *c)
{
    c->info.dtype = GRAM_F32;
}

static void values_in_vectors(struct operator_call *c)
{
    c->values.data = c->v + 1;
}

static const struct {
    void (*spoil)(struct operator_call *);
    const char *says;
} wrong[] = {
    {          all_pairs,    "options.select is 0"},
    {       other_driver,    "options.driver is 3"},
    { negative_tolerance, "options.tolerance is -"},
    {      nan_tolerance, "options.tolerance is n"},
    {  negative_products, "options.products is -1"},
    {     count_beyond_n,   "options.count is 701"},
    {        other_count,  "values has 6 elements"},
    {report_without_size, "options.report has siz"},
    {     found_is_given, "options.found is given"},
    {        few_vectors,    "vectors is 700 by 5"},
    {   values_of_floats,   "values has dtype f32"},
    {     info_of_floats,     "info has dtype f32"},
    {  values_in_vectors,                "vectors"},
};

static void refuses_and_says_why(struct harness *h)
{
    for (int i = 0; i < LENGTH(wrong); i++)
        for (int kernel = 0; kernel < 2; kernel++) {
            struct operator_call *c = operator_call_open(h);
            wrong[i].spoil(c);
            CHECK(h,
                  (kernel ? operator_call_kernel : operator_call_run)(h, c) ==
                      GRAM_INVALID_ARGUMENT,
                  "%s", wrong[i].says);
            CHECK(h, strstr(gram_message(h->g), wrong[i].says) != NULL, "\"%s\" of \"%s\"",
                  wrong[i].says, gram_message(h->g));
            CHECK(h, untouched(c), "%s: outputs were written", wrong[i].says);
            free(c);
        }
}

static void refuses_what_is_no_operator(struct harness *h)
{
    struct operator_call *c = operator_call_open(h);
    gram_operator a = c->a;

    CHECK(h,
          gram_eigh_operator(h->g, NULL, &c->options, &c->values, &c->vectors, NULL) ==
              GRAM_INVALID_ARGUMENT,
          "NULL");
    c->a.apply = NULL;
    CHECK(h, operator_call_run(h, c) == GRAM_INVALID_ARGUMENT, "no apply");
    c->a = a, c->a.n = -1;
    CHECK(h, operator_call_run(h, c) == GRAM_INVALID_ARGUMENT, "n = -1");
    c->a = a, c->a.dtype = GRAM_F16;
    CHECK(h, operator_call_run(h, c) == GRAM_INVALID_ARGUMENT, "f16");
    c->kernel.regularization = gram_number(1), c->kernel.row_offset = 2;
    CHECK(h, operator_call_kernel(h, c) == GRAM_INVALID_ARGUMENT, "not symmetric");
    c->kernel.row_offset = 0, c->vectors.data = c->x;
    CHECK(h, operator_call_kernel(h, c) == GRAM_INVALID_ARGUMENT, "vectors over x");
    CHECK(h, untouched(c), "outputs were written");
    free(c);
}

static const struct test_function tests[] = {
    {            "finds_the_pairs",             finds_the_pairs},
    {         "products_that_fail",          products_that_fail},
    {                  "cancelled",                   cancelled},
 /* On the CPU alone: */
    {             "without_memory",              without_memory},
    { "same_bits_with_any_threads",  same_bits_with_any_threads},
    {              "exact_scratch",               exact_scratch},
    {       "refuses_and_says_why",        refuses_and_says_why},
    {"refuses_what_is_no_operator", refuses_what_is_no_operator},
};

int main(void)
{
    return harness_run_tests_or_some(tests, LENGTH(tests), 3);
}
