/*
 * test_krr_rows.c - gram_krr_solve with points that are read in blocks, against the same in x
 *
 * GRAM_TEST_DEVICE is as in run_cases.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "core/model_file.h"
#include "tests/core/scratch_folder.h"
#include "tests/krr/krr_numbers.h"
#include <math.h>
#include <string.h>

enum {
    N = 70,
    WIDTH = 3,
    COLUMNS = 2,
    CENTRES = 12,
    WIDE = 4096, /* coordinates of rows of which a block has 256 */
    MANY = 600
};

struct source {
    const void *x;
    gram_dtype dtype;
    int64_t width;
    int fails; /* at this call; 0: never */
    int calls;
    int64_t most; /* rows of one call */
    const char *why;
    gram_context *cancels;
};

static int read_rows(void *user, int64_t first, int64_t count, void *out,
                     char message[GRAM_ROWS_MESSAGE])
{
    struct source *s = user;
    const size_t row = (size_t)s->width * gram_dtype_size(s->dtype);

    s->most = count > s->most ? count : s->most;
    if (++s->calls == s->fails) {
        if (s->cancels)
            gram_context_cancel(s->cancels);
        else {
            (void)snprintf(message, GRAM_ROWS_MESSAGE, "%s", s->why);
            return 7;
        }
    }
    memcpy(out, (const char *)s->x + (size_t)first * row, (size_t)count * row);
    return 0;
}

struct call {
    gram_dtype dtype;
    int64_t n, width;
    double *x, *y, *weights, alpha[CENTRES * COLUMNS];
    int64_t chosen[CENTRES];
    gram_kernel_options kernel;
    gram_krr_options options;
    gram_krr_report report;
    struct source source;
    gram_rows rows;
};

static struct call *call_open(gram_dtype dtype, int64_t n, int64_t width)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c)
        harness_end_without_memory("a call");
    c->dtype = dtype;
    c->n = n;
    c->width = width;
    c->x = calloc((size_t)(n * width) + 1, sizeof *c->x);
    c->y = calloc((size_t)(n * COLUMNS) + 1, sizeof *c->y);
    c->weights = calloc((size_t)n + 1, sizeof *c->weights);
    if (!c->x || !c->y || !c->weights)
        harness_end_without_memory("points");
    fill_numbers(dtype, 5, n, (int64_t[2]){width, COLUMNS}, c->x, c->y, c->weights);
    c->kernel = gram_gaussian(1.5 * sqrt((double)width / 3));
    c->options = (gram_krr_options)GRAM_KRR_OPTIONS_INIT;
    c->options.ridge = 1e-2;
    c->options.tolerance = dtype == GRAM_F32 ? 1e-4 : 1e-10;
    c->options.centre_count = CENTRES;
    c->source = (struct source){c->x, dtype, width, 0, 0, 0, "", NULL};
    c->rows = (gram_rows)GRAM_ROWS_INIT;
    c->rows.rows = n;
    c->rows.columns = width;
    c->rows.dtype = dtype;
    c->rows.read = read_rows;
    c->rows.user = &c->source;
    return c;
}

static void call_close(struct call *c)
{
    free(c->x);
    free(c->y);
    free(c->weights);
    free(c);
}

/* By rows, or with x. */
static gram_status run(struct harness *h, struct call *c, bool by_rows)
{
    gram_tensor x = gram_matrix(c->x, c->n, c->width, c->dtype);
    gram_tensor y = gram_matrix(c->y, c->n, COLUMNS, c->dtype);
    gram_tensor alpha = gram_matrix(c->alpha, CENTRES, COLUMNS, c->dtype);
    gram_tensor weights = gram_vector(c->weights, c->n, c->dtype);
    gram_tensor chosen = gram_vector(c->chosen, CENTRES, GRAM_I64);
    gram_tensor *const all[] = {&x, &y, &alpha, &weights, &chosen};
    const size_t bytes[] = {(size_t)(c->n * c->width) * sizeof(double) + 1,
                            (size_t)(c->n * COLUMNS) * sizeof(double) + 1, sizeof c->alpha,
                            (size_t)c->n * sizeof(double) + 1, sizeof c->chosen};
    gram_krr_options options = c->options;
    gram_status status;

    c->report = (gram_krr_report){.size = sizeof c->report};
    options.report = &c->report;
    options.chosen = options.centre_count > 0 ? &chosen : NULL;
    options.weights = options.weights ? &weights : NULL;
    if (by_rows && !options.rows)
        options.rows = &c->rows;
    for (int i = 0; i < LENGTH(all) && h->device.type != GRAM_CPU; i++)
        upload(h, all[i], bytes[i]);
    status = gram_krr_solve(h->g, by_rows ? NULL : &x, &c->kernel, &y, &options, &alpha);
    if (h->device.type == GRAM_CPU)
        return status;
    if (!device_download(c->alpha, alpha.data, sizeof c->alpha) ||
        !device_download(c->chosen, chosen.data, sizeof c->chosen))
        abort();
    for (int i = 0; i < LENGTH(all); i++)
        gram_memory_free(h->g, all[i]->data, bytes[i]);
    return status;
}

static void check_same(struct harness *h, struct call *c, const char *what)
{
    double alpha[CENTRES * COLUMNS], most = 0, bound = c->dtype == GRAM_F32 ? 2e-2 : 1e-6;
    gram_krr_report report;
    int64_t chosen[CENTRES];

    CHECK(h, run(h, c, false) == GRAM_OK, "%s: %s", what, gram_message(h->g));
    report = c->report;
    memcpy(chosen, c->chosen, sizeof chosen);
    for (int i = 0; i < CENTRES * COLUMNS; i++) {
        alpha[i] = get_number(c->dtype, c->alpha, i);
        most = fmax(most, fabs(alpha[i]));
    }
    memset(c->alpha, 0, sizeof c->alpha);
    CHECK(h, run(h, c, true) == GRAM_OK && c->report.reached, "%s: %s", what, gram_message(h->g));
    for (int i = 0; i < CENTRES * COLUMNS; i++)
        CHECK(h, fabs(get_number(c->dtype, c->alpha, i) - alpha[i]) <= bound * most,
              "%s: alpha[%d] is %g, expected %g", what, i, get_number(c->dtype, c->alpha, i),
              alpha[i]);
    CHECK(h, memcmp(chosen, c->chosen, sizeof chosen) == 0, "%s: other centres", what);
    CHECK(h,
          fabs((double)(c->report.products - report.products)) <= 4 &&
              c->report.method == GRAM_KRR_CENTRES,
          "%s: %lld products, expected %lld", what, (long long)c->report.products,
          (long long)report.products);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void rows_are_as_good_as_x(struct harness *h)
{
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int d = 0; d < 2; d++) {
            struct call *c = call_open(d ? GRAM_F64 : GRAM_F32, N, WIDTH);

            if (kernel > 0)
                c->kernel = kernel_of(kernel);
            c->options.ridge = 0.1;
            c->options.tolerance = d ? 1e-8 : 1e-3;
            c->options.weights = kernel % 2 ? (const gram_tensor *)c : NULL; /* that of run() */
            check_same(h, c, d ? "f64" : "f32");
            call_close(c);
        }
}

/* Several blocks, of which the last one is shorter. */
static void many_blocks_are_one(struct harness *h)
{
    for (int d = 0; d < 2 && h->device.type == GRAM_CPU; d++) {
        struct call *c = call_open(d ? GRAM_F64 : GRAM_F32, MANY, WIDE);

        c->options.weights = d ? (const gram_tensor *)c : NULL;
        check_same(h, c, "many");
        CHECK(h, c->source.most == 256, "%lld rows at a time", (long long)c->source.most);
        call_close(c);
    }
}

/* A checkpoint of rows serves x. */
static void a_checkpoint_serves_both(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, N, WIDTH);
    char path[SCRATCH_BYTES];
    int64_t products;

    c->options.checkpoint = scratch_path("rows", path);
    CHECK(h, run(h, c, true) == GRAM_OK, "%s", gram_message(h->g));
    products = c->report.products;
    c->options.resume = 1;
    CHECK(h, run(h, c, false) == GRAM_OK && c->report.products == products, "%lld products: %s",
          (long long)c->report.products, gram_message(h->g));
    set_number(c->dtype, c->x, 50, 0.25);
    CHECK(h, run(h, c, true) == GRAM_BAD_DATA && strstr(gram_message(h->g), "another x"), "%s",
          gram_message(h->g));
    call_close(c);
}

static void what_cannot_be_read_is_said(struct harness *h)
{
    for (int i = 1; i < 12; i++) {
        struct call *c = call_open(GRAM_F64, N, WIDTH);
        gram_status status;

        memset(c->alpha, 5, sizeof c->alpha);
        c->source.fails = i;
        c->source.why = i % 2 ? "the cable is out" : "";
        status = run(h, c, true);
        CHECK(h,
              status == GRAM_IO &&
                  strstr(gram_message(h->g), "options.rows cannot read the rows") &&
                  strstr(gram_message(h->g), i % 2 ? "the cable is out" : "does not say why"),
              "call %d: %s, %s", i, gram_status_name(status), gram_message(h->g));
        CHECK(h, c->alpha[0] == c->alpha[1], "alpha was written");
        c->source.cancels = h->g;
        c->source.calls = 0;
        status = run(h, c, true);
        CHECK(h, status == GRAM_CANCELLED, "call %d: %s", i, gram_status_name(status));
        call_close(c);
    }
}

static void wrong_rows_are_refused(struct harness *h)
{
    static const char *const said[] = {"x and options.rows are given",
                                       "options.rows is given, but options.method",
                                       "options.rows is of -1 rows",
                                       "options.rows->dtype is",
                                       "options.rows->read is NULL",
                                       "x[40, 1] is nan",
                                       "options.centre_count is 71, expected at most 70",
                                       "y has dtype f64"};

    for (int i = 0; i < LENGTH(said); i++) {
        struct call *c = call_open(GRAM_F64, N, WIDTH);
        gram_status status;

        if (i == 0)
            c->options.rows = &c->rows;
        if (i == 1) {
            c->options.centre_count = 0;
            c->options.method = GRAM_KRR_CHOLESKY;
        }
        if (i == 2)
            c->rows.rows = -1;
        if (i == 3)
            c->rows.dtype = GRAM_I64;
        if (i == 4)
            c->rows.read = NULL;
        if (i == 5)
            set_number(c->dtype, c->x, 40 * WIDTH + 1, NAN);
        if (i == 6)
            c->options.centre_count = N + 1;
        if (i == 7)
            c->rows.dtype = GRAM_F32;
        status = run(h, c, i != 0);
        CHECK(h, status == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), said[i]),
              "%s: %s, %s", said[i], gram_status_name(status), gram_message(h->g));
        call_close(c);
    }
}

static const struct test_function tests[] = {
    {      "rows_are_as_good_as_x",       rows_are_as_good_as_x},
    {   "a_checkpoint_serves_both",    a_checkpoint_serves_both},
    {"what_cannot_be_read_is_said", what_cannot_be_read_is_said},
    {     "wrong_rows_are_refused",      wrong_rows_are_refused},
 /* On the CPU alone: */
    {        "many_blocks_are_one",         many_blocks_are_one},
};

int main(void)
{
    return scratch_run_tests_or_some(tests, LENGTH(tests), LENGTH(tests) - 1);
}
