/*
 * test_eigh_operator.c - matrices known by their products: what goes wrong, and what is refused
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 700,
    K = 6,
    D = 3,
};

/* A diagonal matrix, and what its products are to do. */
struct diagonal {
    int calls, fail_at, cancel_at, nan_at; /* 0: never */
    gram_context *cancelled;
    bool by_rows; /* all blocks came row-major and not too wide */
};

static double entry(int64_t i)
{
    return i < 3 ? 10 - (double)i : sin((double)i);
}

static gram_status apply(void *user, const gram_tensor *in, gram_tensor *out)
{
    struct diagonal *a = user;
    int64_t b = in->shape[1];

    a->calls++;
    a->by_rows = a->by_rows && in->stride[0] == b && in->stride[1] == 1 && b <= 8 &&
                 out->shape[0] == N && out->shape[1] == b && in->dtype == GRAM_F64;
    if (a->calls == a->cancel_at)
        gram_context_cancel(a->cancelled);
    if (a->calls == a->fail_at)
        return GRAM_IO;
    for (int64_t i = 0; i < N * b; i++)
        ((double *)out->data)[i] = entry(i / b) * ((const double *)in->data)[i];
    if (a->calls == a->nan_at)
        ((double *)out->data)[N / 2] = NAN;
    return GRAM_OK;
}

/* A call and all that it is given. */
struct call {
    struct diagonal diagonal;
    gram_operator a;
    double w[K], v[N * K];
    int32_t outcome;
    gram_tensor values, vectors, info, *with_info;
    gram_eigh_options options;
    gram_eigh_report report;
    double x[N * D]; /* of a kernel */
    gram_tensor points;
    gram_kernel_options kernel;
};

static struct call *open_call(struct harness *h)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    c->diagonal = (struct diagonal){.cancelled = h->g, .by_rows = true};
    c->a = (gram_operator){N, GRAM_F64, apply, &c->diagonal};
    c->values = gram_vector(c->w, K, GRAM_F64);
    c->vectors = gram_matrix(c->v, N, K, GRAM_F64);
    c->info = gram_vector(&c->outcome, 1, GRAM_I32);
    c->info.ndim = 0;
    c->with_info = &c->info;
    c->options = (gram_eigh_options)GRAM_EIGH_OPTIONS_INIT;
    c->options.select = GRAM_EIGH_LARGEST;
    c->options.count = K;
    c->options.report = &c->report;
    c->report.size = sizeof c->report;
    c->points = gram_matrix(c->x, N, D, GRAM_F64);
    for (int i = 0; i < N * D; i++)
        c->x[i] = sin(0.37 * i * i);
    c->kernel = gram_lpq_laplace(1, 1, 1);
    return c;
}

static gram_status run(struct harness *h, struct call *c)
{
    return gram_eigh_operator(h->g, &c->a, &c->options, &c->values, &c->vectors, c->with_info);
}

static gram_status run_kernel(struct harness *h, struct call *c)
{
    return gram_eigh_kernel(h->g, &c->points, &c->kernel, &c->options, &c->values, &c->vectors,
                            c->with_info);
}

static bool untouched(const struct call *c)
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
        sorted[i] = entry(i);
    qsort(sorted, N, sizeof *sorted, compare_numbers);
    for (int smallest = 0; smallest < 2; smallest++) {
        struct call *c = open_call(h);
        c->options.select = smallest ? GRAM_EIGH_SMALLEST : GRAM_EIGH_LARGEST;
        CHECK(h, run(h, c) == GRAM_OK && c->outcome == 0, "%s", gram_message(h->g));
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
    struct call *c = open_call(h);

    c->diagonal.fail_at = 4;
    CHECK(h, run(h, c) == GRAM_IO, "%s", gram_message(h->g));
    CHECK(h, strstr(gram_message(h->g), "a.apply returned GRAM_IO") != NULL, "%s",
          gram_message(h->g));
    CHECK(h, untouched(c), "outputs were written");
    c->diagonal = (struct diagonal){.nan_at = 3};
    CHECK(h, run(h, c) == GRAM_OK && c->outcome == 2 && isnan(c->w[0]) && isnan(c->v[0]),
          "info %d, %g", c->outcome, c->w[0]);
    c->diagonal.calls = 0;
    c->with_info = NULL;
    CHECK(h, run(h, c) == GRAM_NUMERICAL, "NaN without info");
    c->diagonal = (struct diagonal){0};
    c->options.products = 2;
    CHECK(h, run(h, c) == GRAM_NUMERICAL, "few products without info");
    CHECK(h, strstr(gram_message(h->g), "did not converge") != NULL, "%s", gram_message(h->g));
    free(c);
}

static void cancelled(struct harness *h)
{
    struct call *c = open_call(h);

    c->diagonal.cancel_at = 3;
    CHECK(h, run(h, c) == GRAM_CANCELLED, "%s", gram_message(h->g));
    CHECK(h, c->diagonal.calls <= 4 && untouched(c), "%d calls", c->diagonal.calls);
    CHECK(h, run(h, c) == GRAM_OK, "the request was not taken: %s", gram_message(h->g));
    free(c);
    c = open_call(h);
    gram_context_cancel(h->g);
    CHECK(h, run_kernel(h, c) == GRAM_CANCELLED && untouched(c), "%s", gram_message(h->g));
    CHECK(h, run_kernel(h, c) == GRAM_OK, "the request was not taken: %s", gram_message(h->g));
    free(c);
}

static void *no_memory(void *user, size_t bytes)
{
    int *left = user;

    return (*left)-- > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
}

static void release(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

static void without_memory(struct harness *h)
{
    struct call *c = open_call(h);
    struct harness other = *h;
    int left = 100;
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;

    o.allocate = no_memory, o.release = release, o.user = &left;
    o.threads = 2;
    if (CHECK(h, gram_context_create(&o, &other.g) == GRAM_OK, "%s", gram_message(NULL))) {
        left = 0;
        CHECK(h, run(&other, c) == GRAM_OUT_OF_MEMORY && untouched(c), "%s", gram_message(other.g));
        CHECK(h, run_kernel(&other, c) == GRAM_OUT_OF_MEMORY && untouched(c), "%s",
              gram_message(other.g));
        left = 1; /* scratch, but no threads: the caller does the work */
        CHECK(h, run_kernel(&other, c) == GRAM_OK, "%s", gram_message(other.g));
        gram_context_destroy(other.g);
    }
    free(c);
}

static void same_bits_with_any_threads(struct harness *h)
{
    struct call *c = open_call(h);

    CHECK(h, run_kernel(h, c) == GRAM_OK, "%s", gram_message(h->g));
    for (int threads = 1; threads < 4; threads += 2) {
        struct call *d = open_call(h);
        struct harness other = *h;
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        o.threads = threads;
        if (CHECK(h, gram_context_create(&o, &other.g) == GRAM_OK, "%s", gram_message(NULL))) {
            CHECK(h, run_kernel(&other, d) == GRAM_OK, "%s", gram_message(other.g));
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
    struct call *c = open_call(h);
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
              run(h, c) == GRAM_OUT_OF_MEMORY,
          "one byte less was enough");
    CHECK(h,
          gram_context_use_workspace(h->g, memory, need.host_bytes) == GRAM_OK &&
              run(h, c) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, gram_context_use_workspace(h->g, NULL, 0) == GRAM_OK, "%s", gram_message(h->g));
    free(memory);
    free(c);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void all_pairs(struct call *c)
{
    c->options.select = GRAM_EIGH_ALL;
}

static void other_driver(struct call *c)
{
    c->options.driver = GRAM_EIGH_DRIVER_DIVIDE;
}

static void negative_tolerance(struct call *c)
{
    c->options.tolerance = -1;
}

static void nan_tolerance(struct call *c)
{
    c->options.tolerance = NAN;
}

static void negative_products(struct call *c)
{
    c->options.products = -1;
}

static void count_beyond_n(struct call *c)
{
    c->options.count = N + 1;
}

static void other_count(struct call *c)
{
    c->options.count = K - 1;
}

static void report_without_size(struct call *c)
{
    c->report.size = 0;
}

static void found_is_given(struct call *c)
{
    c->options.found = &c->info;
}

static void few_vectors(struct call *c)
{
    c->vectors.shape[1] = K - 1;
}

static void values_of_floats(struct call *c)
{
    c->values.dtype = GRAM_F32;
}

static void info_of_floats(struct call *c)
{
    c->info.dtype = GRAM_F32;
}

static void values_in_vectors(struct call *c)
{
    c->values.data = c->v + 1;
}

static const struct {
    void (*spoil)(struct call *);
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
            struct call *c = open_call(h);
            wrong[i].spoil(c);
            CHECK(h, (kernel ? run_kernel : run)(h, c) == GRAM_INVALID_ARGUMENT, "%s",
                  wrong[i].says);
            CHECK(h, strstr(gram_message(h->g), wrong[i].says) != NULL, "\"%s\" of \"%s\"",
                  wrong[i].says, gram_message(h->g));
            CHECK(h, untouched(c), "%s: outputs were written", wrong[i].says);
            free(c);
        }
}

static void refuses_what_is_no_operator(struct harness *h)
{
    struct call *c = open_call(h);
    gram_operator a = c->a;

    CHECK(h,
          gram_eigh_operator(h->g, NULL, &c->options, &c->values, &c->vectors, NULL) ==
              GRAM_INVALID_ARGUMENT,
          "NULL");
    c->a.apply = NULL;
    CHECK(h, run(h, c) == GRAM_INVALID_ARGUMENT, "no apply");
    c->a = a, c->a.n = -1;
    CHECK(h, run(h, c) == GRAM_INVALID_ARGUMENT, "n = -1");
    c->a = a, c->a.dtype = GRAM_F16;
    CHECK(h, run(h, c) == GRAM_INVALID_ARGUMENT, "f16");
    c->kernel.regularization = gram_number(1), c->kernel.row_offset = 2;
    CHECK(h, run_kernel(h, c) == GRAM_INVALID_ARGUMENT, "not symmetric");
    c->kernel.row_offset = 0, c->vectors.data = c->x;
    CHECK(h, run_kernel(h, c) == GRAM_INVALID_ARGUMENT, "vectors over x");
    CHECK(h, untouched(c), "outputs were written");
    free(c);
}

static const struct test_function tests[] = {
    {            "finds_the_pairs",             finds_the_pairs},
    {         "products_that_fail",          products_that_fail},
    {                  "cancelled",                   cancelled},
    {             "without_memory",              without_memory},
    { "same_bits_with_any_threads",  same_bits_with_any_threads},
    {              "exact_scratch",               exact_scratch},
    {       "refuses_and_says_why",        refuses_and_says_why},
    {"refuses_what_is_no_operator", refuses_what_is_no_operator},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
